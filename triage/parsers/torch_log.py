"""What the training processes and their launcher print on standard error: torch, torchrun, Python, C++ and glibc texts.

Facts of torchrun's error.json: `torch.error_json.message` (str) and `torch.error_json.timestamp` (int, Unix seconds).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import msgspec

from triage.model import json_text
from triage.model.base import Scalar
from triage.model.bundle import Document, File, Window
from triage.model.event import Event, Fact, Where
from triage.parsers import _joining, _process, _stamps

SOURCE = "torch_log"
BEFORE, AFTER = 300, 160

_OWN = re.compile(
    rb"Traceback \(most recent call last\)|ProcessGroup[A-Z]\w{1,40}\.cpp:\d|torch/distributed/|torch\.distributed"
    rb"|\[rank\d+\]:|ChildFailedError|terminate called after throwing|Fatal Python error|Root Cause \(first observed"
    rb"|TCPStore\.cpp"
    rb"|Setting OMP_NUM_THREADS environment variable|torchrun|Thread (?:0x)?[0-9A-Fa-f]+ \((?:active|idle|most recent)"
    rb"|^[ \t]{0,200}File \"[^\"\n]{1,1000}\", line \d+, in |CUDA out of memory"
    rb"|\[[EWIF][\d:. ]{0,60}(?:socket|TCPStore)\.cpp:\d+\]|c10(?:::|d)|CUDA error: "
    rb"|Assertion `[^\n]{1,400}` failed|^[\w.]{1,200}Error: |DataLoader worker|torch\.\w+\.\w+"
    rb"|local_rank: \d+|exitcode: -?\d+|exitcode  : -?\d+",
    re.MULTILINE,
)
_ERROR_JSON = re.compile(rb'\s*\{\s*"message"\s*:')
_OOM = re.compile(r"(?:CUDA|HIP|NPU) out of memory|CUDA error: out of memory")
_OOM_END = re.compile(r"ALLOC_CONF|max_split_size_mb|environment-variables|to avoid fragmentation|\(Triggered intern")
_WRAPPED = 14  # lines over which a narrow terminal breaks an out-of-memory message

# Variables count where they are set or listed, not where an error message advises to set one.
_SETS = r"(?:^|\d: {1,2}|\]: ?|\] |export |declare -x |\$ |# |\+ |-x |-e |--env[ =]|setenv )"
_NAMES = r"(?:NCCL|TORCH_NCCL|TORCH|CUDA|PYTORCH|GLOO|FI|UCX|OMP|HSA|RCCL)"
MARKS = (
    ("start", r"Setting OMP_NUM_THREADS environment variable for each process"),
    ("start", r"Rendezvous complete for workers|Rendezvous'ing worker group|\[default\] starting workers for entry"),
    ("start", r"Starting elastic_operator with launch configs"),
    ("start", r"initializing torch distributed|Initializing TorchBackend in DeepSpeed"),
    ("start", r"Initializing distributed: GLOBAL_RANK: \d+"),
    ("start", r"distributed init \(rank \d+(?:, world (?P<world_size>\d+))?\)"),
    ("start", r"\bworld[_ ]size[ :=]{1,3}(?:\.{3,40} )?(?P<world_size>\d{1,6})\b"),
    ("start", r"using world size: (?P<world_size>\d+)"),
    ("start", r"All distributed processes registered\. Starting with (?P<world_size>\d+) processes"),
    ("raised", r"Traceback \(most recent call last\)"),
    ("restart", r"will restart worker group|Restarting worker group|restart_count=[1-9]\d{0,3}\b"),
    ("env", _SETS + r"(?P<name>" + _NAMES + r"_[A-Z0-9_]{2,50})=(?P<value>[^\s;]{1,160})"),
)
SIGNS = (_OWN, _ERROR_JSON)
BEGINS = _ERROR_JSON
ENDINGS = (2_048, 8_192)  # bytes that are looked at first: what went wrong stands there


def recognises(head: bytes, tail: bytes) -> int:
    """2 when texts of torch, torchrun or Python errors stand in it."""
    if _ERROR_JSON.match(head) and (b"py_callstack" in head or b"extraInfo" in head):
        return 2
    ends = ([tail[tail.find(b"\n", len(tail) - size) + 1 :]] for size in ENDINGS if len(tail) > size)
    for parts in (*ends, [tail, head] if tail != head else [head]):
        if (seen := sum(1 for _ in islice(chain.from_iterable(map(_OWN.finditer, parts)), 2))) > 1:
            break
    return seen


def parse(window: Window) -> Event:
    """The message at the hit with all of its lines; of a failure table the entry or section that was hit."""
    line = window.lines[window.hit]
    if line.lstrip().startswith('{"message"'):
        return _process.event(window, SOURCE, _from_json(line) or line)
    message = _joining.joined(window)
    if len(message) == 1 and _OOM.search(message[0][1]):
        return _process.event(window, SOURCE, " ".join(_unwrapped(window)))
    event = _process.event(window, SOURCE, "\n".join(text for _, text in message), message[0][1])
    return _of_table(event) if "exitcode" in event.body else event


def facts(document: Document) -> Iterator[Fact]:
    """The values of an error.json; nothing for any other file."""
    tree = _load(document.data[:4_000_000]) if _ERROR_JSON.match(document.data) else None
    if not isinstance(tree, dict):
        return
    inner = tree.get("message")
    text, extra = (inner.get("message"), inner.get("extraInfo")) if isinstance(inner, dict) else (inner, None)
    where, entity = Where(file=document.file.path, line=1), _named(document.file)
    if isinstance(text, str):
        yield Fact(name="torch.error_json.message", value=text, where=where, entity=entity, text=text[:400])
    stamp = extra.get("timestamp") if isinstance(extra, dict) else None
    if str(stamp).isdigit():
        yield Fact(name="torch.error_json.timestamp", value=int(str(stamp)), where=where, entity=entity)


def _named(file: File) -> dict[str, Scalar]:
    named: dict[str, Scalar] = {"rank": file.rank, "local_rank": file.local_rank, "node": file.node}
    return {key: value for key, value in named.items() if value is not None}


def _load(data: bytes) -> Any:
    try:
        return json_text.loads(data)
    except (ValueError, RecursionError):
        return None


def _from_json(line: str) -> str | None:
    """Message and call stack of an error.json, as Python would have printed them."""
    tree = _load(line.encode()) if len(line) < 4_000_000 else None
    inner = tree.get("message") if isinstance(tree, dict) else None
    if isinstance(inner, str):
        return inner
    if not isinstance(inner, dict):
        return None
    extra = inner.get("extraInfo")
    stack = extra.get("py_callstack") if isinstance(extra, dict) else None
    return "\n".join(str(part) for part in (stack, inner.get("message")) if part)


def _unwrapped(window: Window) -> Iterator[str]:
    """An out-of-memory message whose one line was broken into several, piece by piece."""
    lines = _joining.Lines(window)
    for count, (_, text) in enumerate(lines.onward(window.hit)):
        if count and (not text.strip() or _joining.fresh(text) or _OOM.search(text)):
            return
        yield text.strip() if count else text
        if _OOM_END.search(text) or count >= _WRAPPED:
            return


_TABLE_RANK = re.compile(r"^\s{0,6}rank\s{0,8}: (\d{1,6}) \(local_rank: (\d{1,4})\)", re.MULTILINE)
_TABLE_TIME = re.compile(r"^\s{0,6}time\s{0,8}: (\d{4}-\d\d-\d\d)_(\d\d:\d\d:\d\d)", re.MULTILINE)
_TABLE_HOST = re.compile(r"^\s{0,6}host\s{0,8}: (\S{1,120})", re.MULTILINE)


def _of_table(event: Event) -> Event:
    """An entry of a failure table says itself whose it is, and when the launcher saw it."""
    rank, host, when = (each.search(event.body) for each in (_TABLE_RANK, _TABLE_HOST, _TABLE_TIME))
    if not rank:
        return event
    return msgspec.structs.replace(
        event,
        rank=int(rank[1]),
        local_rank=int(rank[2]),
        node=host[1] if host else event.node,
        time=_stamps.find(f"{when[1]} {when[2]}")[0] if when and event.time is None else event.time,
    )
