"""Logs as log services keep them: one JSON object a line, and what was printed in one of its fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from triage.bundle.normalise import MARK

_MOST = 0.8  # share of the lines that must be records
_LONGEST = 1 << 20  # bytes of a record
_DEEP = 200  # brackets in a record: what is nested deeper is no log record

_TEXTS = ("log", "message", "msg", "textPayload", "line")
_TRACES = ("exc_info", "exception", "stack_trace", "traceback", "exc_text")
_TIMES = ("time", "timestamp", "@timestamp", "ts", "date", "asctime")
_RANKS = ("rank", "RANK", "global_rank")
_PODS = ("pod_name", "pod", "container_name", "host", "hostname", "node")
_INNER = ("jsonPayload", "kubernetes", "labels", "fields", "extra")  # where records keep more of themselves
_NAMING = frozenset((*_RANKS, *_PODS, *_INNER, "resource"))
# Records of other sources, which have parsers of their own: objects of Kubernetes, error.json of torchrun, step times.
_OTHERS = ("apiVersion", "kind", "involvedObject", "py_callstack", "extraInfo", "step_ms", "loss")

_LEAD = re.compile(rb"(?:\S{10,40}(?:\x1b\\)? std(?:out|err) [FP] (?:\x1b\\)?)?(?=\{)")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?$")
_NAME = re.compile(r"[A-Za-z][\w.-]{0,119}$")
_STAMPED = re.compile(
    r"[\[(]?(?: *\d+\.\d{3,}\]|\d{4}[-/.]\d\d[-/.]\d\d[ T]|\d\d:\d\d:\d\d)|[A-Z][a-z]{2} [ \d]\d \d\d:|[IWEF]\d{4} "
)
_ESCAPED = re.compile(rb'["\\\t<>&/\x80-\xff]+')  # what stands otherwise in JSON, or may

Rewrite = Callable[[bytes], bytes]
_decode = msgspec.json.Decoder().decode


def records(lines: Sequence[bytes]) -> Rewrite | None:
    """Docker's json-file, Fluent Bit, exports of Cloud Logging and CloudWatch, loggers that print JSON."""
    begun = sum(b"{" in line[:80] for line in lines)
    if not begun or begun < _MOST * len(lines):
        return None
    found = [record for line in lines if (record := _record(line)) is not None and _is_log(record)]
    if len(found) < _MOST * len(lines) or (len(found) < 2 and not any(key in found[0] for key in _TIMES)):
        return None
    return _printed


def _record(line: bytes) -> dict[str, Any] | None:
    lead = _LEAD.match(line)
    raw = line[lead.end() :].replace(MARK, b"").rstrip() if lead else b""
    if not raw.endswith(b"}") or len(raw) > _LONGEST or raw.count(b"{") + raw.count(b"[") > _DEEP * 5:
        return None
    try:
        record = _decode(raw)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _is_log(record: Mapping[str, Any]) -> bool:
    if str(record.get("caller", "")).split(":")[0].endswith(".go"):  # kubelet and operators: read as what they are
        return False
    return _text(record) is not None and not any(key in record for key in _OTHERS)


def _text(record: Mapping[str, Any]) -> str | None:
    """What was printed, and the traceback that some loggers put beside it."""
    inner = record.get("jsonPayload")
    parts = [one for one in (record, inner) if isinstance(one, dict)]
    text = next((part[key] for part in parts for key in _TEXTS if isinstance(part.get(key), str)), None)
    traces = [part[key] for part in parts for key in _TRACES if isinstance(part.get(key), str)]
    if text is None:
        return None
    return "\n".join([text.removesuffix("\n"), *(trace.removesuffix("\n") for trace in traces if trace not in text)])


def _printed(line: bytes) -> bytes:
    """The text behind its time and its process, a line for each of its lines; the line itself when it is no record."""
    record = _record(line)
    text = _text(record) if record is not None else None
    if record is None or text is None:
        return line
    who, time = _who(record), _time(record)
    out = [_head(time, part) + who + _marked(part) for part in _lines(text)]
    return b"\r".join(out)


def _lines(text: str) -> Iterator[str]:
    for part in text.split("\n"):
        *early, last = part.rstrip("\r").split("\r")
        yield from (each for each in early if each)
        yield last


def _head(time: bytes, part: str) -> bytes:
    """As a container's log has it, unless the text has a time of its own."""
    return time + MARK + b" stderr F " + MARK if time and not _STAMPED.match(part) else b""


def _marked(part: str) -> bytes:
    return _ESCAPED.sub(lambda found: MARK + found[0] + MARK, part.encode("utf-8", "replace"))


def _places(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    resource = record.get("resource")
    held = [
        record,
        *(record.get(key) for key in _INNER),
        resource.get("labels") if isinstance(resource, dict) else None,
    ]
    return [one for one in held if isinstance(one, dict)]


def _time(record: Mapping[str, Any]) -> bytes:
    value = next((record[key] for key in _TIMES if record.get(key) is not None), None)
    if isinstance(value, str):
        return value.encode() if _ISO.match(value) and value.isascii() else b""
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value / 1000 if value > 1e11 else value
        return b"%.6f" % seconds if 1e9 <= seconds < 2e9 else b""
    return b""


def _who(record: Mapping[str, Any]) -> bytes:
    """Pod and rank as launchers write them before a line."""
    if _NAMING.isdisjoint(record):
        return b""
    places = _places(record)
    pods = (one[key] for one in places for key in _PODS if isinstance(one.get(key), str))
    pod = next((name for name in pods if _NAME.match(name)), None)
    ranks = (str(one[key]) for one in places for key in _RANKS if isinstance(one.get(key), int | str))
    rank = next((number for number in ranks if number.isascii() and number.isdigit() and len(number) <= 6), None)
    head = b"[pod/%s/log] " % pod.encode() + MARK if pod else b""
    return head + (b"[rank%s]: " % rank.encode() + MARK if rank else b"")
