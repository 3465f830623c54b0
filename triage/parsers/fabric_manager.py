"""NVIDIA fabric manager: its own log (`[Feb 27 2025 15:10:02] [ERROR] [tid 12727] ...`) and its lines in the journal.

Messages may go on over lines without a stamp (`moduleId : 3`, payload details); they are joined.
"""

from __future__ import annotations

import re

from triage.model.bundle import Window
from triage.model.event import Event, Stamp, Where
from triage.parsers import _stamps

SOURCE = "fabric_manager"
BEFORE, AFTER = 16, 16

MARKS = (
    ("well", r"Successfully configured all the available (?:GPUs|NVSwitches)"),
    ("well", r"successfully (?:setup|released) multicast team"),
    ("well", r"multicast group [0-9]+ is (?:allocated|freed)"),
    ("well", r"FM starting NvLink Inband"),
)

_STAMP = rb"\[[A-Z][a-z]{2} [ \d]\d \d{4} \d\d:\d\d:\d\d\] \[[A-Z]{4,9}\] \[tid \d{1,10}\]"
_OWN = re.compile(rb"^" + _STAMP, re.MULTILINE)
_JOURNAL = re.compile(
    rb"^[^\n]{0,120}? (?:nv-fabricmanager|nvidia-fabricmanager-start\.sh)(?:\[\d+\])?: "
    rb"|^[^\n]{0,120}?systemd\[1\]: nvidia-fabricmanager\.service: "
    rb"|^fabric manager (?:NVIDIA GPU driver interface|config file item)",
    re.MULTILINE,
)
_HEAD = re.compile(r" ?\[(?:INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|ALERT|DEBUG)\] ?(?:\[tid \d{1,10}\] ?)?")
_SYSLOG = re.compile(r" (?P<node>[\w.-]{1,64}) [\w./-]{1,40}(?:\[\d{1,10}\])?: ")
SIGNS = (_OWN, _JOURNAL)


def recognises(head: bytes, tail: bytes) -> int:
    """2: the log of the service; 1: some of its lines among others."""
    own = len(_OWN.findall(head))
    if own:
        return 2 if own * 8 >= head.count(b"\n") else 1
    said = len(_JOURNAL.findall(head))
    if said:
        return 2 if said * 2 > head.count(b"\n") else 1
    return 1 if _OWN.search(tail) or _JOURNAL.search(tail) else 0


def parse(window: Window) -> Event:
    """The message at the hit with the lines that belong to it; a hit on such a line gives the whole message as body."""
    start = _start(window)
    text, time, node = _plain(window.lines[start])
    own, stamp, host = _plain(window.lines[window.hit])
    body = [text]
    for line in window.lines[start + 1 : start + 1 + AFTER]:
        if not line.strip() or _stamps.find(line)[0] is not None:
            break
        body.append(line.strip())
    return Event(
        where=Where(file=window.file.path, line=window.numbers[window.hit]),
        text=own[:2000],
        body="\n".join(body),
        source=SOURCE,
        time=stamp or time,
        node=host or node or window.file.node,
    )


def _start(window: Window) -> int:
    """Index of the stamped line that the hit belongs to."""
    for index in range(window.hit, max(window.hit - BEFORE, 0) - 1, -1):
        if _stamps.find(window.lines[index])[0] is not None:
            return index
        if not window.lines[index].strip():
            break
    return window.hit


def _plain(line: str) -> tuple[str, Stamp | None, str | None]:
    """Text, time and node of a line."""
    time, end = _stamps.find(line)
    node = None
    if end and (found := _SYSLOG.match(line, end)):
        node, end = found["node"], found.end()
    elif found := _HEAD.match(line, end):
        end = found.end()
    return line[end:].strip(), time, node
