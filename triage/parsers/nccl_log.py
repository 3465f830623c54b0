"""NCCL's own lines: `host:pid:tid [cudaDev] NCCL INFO|WARN text`, of all versions, in own files or among others.

WARN lines carry a time stamp in front since 2.26, and the function's name behind file and line since 2.29.
"""

from __future__ import annotations

import re
from itertools import islice

import msgspec

from triage.model.bundle import Window
from triage.model.event import Event
from triage.parsers import _process
from triage.parsers._prefix import split

SOURCE = "nccl_log"
BEFORE, AFTER = 0, 2

_HOST = re.compile(r"(?P<node>[\w.-]{1,120}):(?P<pid>\d{1,9}):(?P<tid>\d{1,9})(?: \[(?P<dev>-?\d{1,3})\])? ")
_LINE = re.compile(
    rb"(?<![\w.-])[\w.-]{1,120}:\d{1,9}:\d{1,9} (?:\[-?\d+\] )?[^\n]{0,120}?NCCL (?:INFO|WARN|TRACE|CALL) |: NET/OFI "
    rb"|^NCCL version \d",
    re.M,
)
_SAYS_RANK = re.compile(r"\bcomm 0x[0-9a-f]+ (?:[^\n]{0,80}? )?rank (?P<rank>\d{1,6}) n[rR]anks \d")

_INIT = r"rank (?P<rank>\d+) n[rR]anks (?P<nranks>\d+) cudaDev (?P<cuda_dev>\d+)"
_NVML = r" nvmlDev (?P<nvml_dev>\d+) busId (?P<bus_id>[0-9a-fA-F]+)"
MARKS = (
    ("init", rf"NCCL INFO [^\n]{{0,120}}?{_INIT}{_NVML}[^\n]{{0,120}}? - Init COMPLETE"),
    ("init", rf"NCCL INFO [^\n]{{0,120}}?{_INIT} busId (?P<bus_id>[0-9a-fA-F]+)[^\n]{{0,120}}? - Init COMPLETE"),
    ("init", rf"NCCL INFO [^\n]{{0,120}}?{_INIT}{_NVML}[^\n]{{0,120}}? - Init START"),
    ("init", rf"NCCL INFO [^\n]{{0,120}}?{_INIT} busId (?P<bus_id>[0-9a-fA-F]+)[^\n]{{0,120}}? - Init START"),
    ("well", r"NCCL INFO comm 0x[0-9a-fA-F]+ rank \d+ nranks \d+ [^\n]{0,120}? - Destroy COMPLETE"),  # not Abort
    ("start", r"(?:^|: |\] |INFO )NCCL version \d+\.\d+[^\n]{0,40}"),
    ("env", r"NCCL INFO (?P<name>[A-Z][A-Z0-9_]{3,60}) set by environment to (?P<value>[^\n]{0,200}?)\.?$"),
    ("env", r"NCCL INFO (?P<name>NCCL_[A-Z0-9_]{1,60}) set to (?P<value>[^\n]{0,200}?)\.?$"),
    ("env", r"NCCL INFO NCCL_ENV_PLUGIN: (?P<name>NCCL_[A-Z0-9_]{1,60})=(?P<value>[^\n]{0,200})"),
)
SIGNS = (_LINE,)


def recognises(head: bytes, tail: bytes) -> int:
    """2 when most lines are NCCL's, 1 when some are."""
    lines = max(head.count(b"\n"), 1)
    most = head.count(b"NCCL ") + head.count(b"NET/OFI ")  # each match holds one of them
    found = (1 for line in head.split(b"\n") if b"NCCL " in line or b"NET/OFI " in line for _ in _LINE.finditer(line))
    seen = sum(islice(found, -(-lines // 2) if most * 2 >= lines else 1))
    if seen * 2 >= lines and seen:
        return 2
    return 1 if seen or _LINE.search(tail) else 0


def parse(window: Window) -> Event:
    """The line, with the host and process that it names. A WARN that breaks off is joined with its next line."""
    line = window.lines[window.hit]
    rest = split(line).rest
    event = _process.event(window, SOURCE, _joined(window, rest))
    host = _HOST.search(rest[:300])
    said = _SAYS_RANK.search(rest)
    return msgspec.structs.replace(
        event,
        node=host["node"] if host else event.node,
        pid=int(host["pid"]) if host else event.pid,
        rank=int(said["rank"]) if said else event.rank,
    )


def _joined(window: Window, rest: str) -> str:
    """The message with the lines that a narrow terminal or a mail broke off it."""
    parts = [rest]
    for line in window.lines[window.hit + 1 : window.hit + 1 + AFTER]:
        text = split(line).rest
        if "NCCL WARN" not in rest or not text.strip() or _fresh(text):
            break
        parts.append(text)
    return "\n".join(parts)


def _fresh(text: str) -> bool:
    return "NCCL " in text or _HOST.match(text) is not None or text.startswith(("[", "Traceback", "terminate"))
