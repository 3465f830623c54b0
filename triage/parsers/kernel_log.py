"""Kernel messages: dmesg in its forms, /dev/kmsg, pstore, syslog and journal exports; one Event a report, however long.

The node comes from syslog, journal and pdsh forms. A message that the kernel prints over many lines (an out-of-memory
report, a hung task with its call trace, an Xid with its dump) is joined, so that the body holds all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from triage.model import json_text
from triage.model.bundle import Window
from triage.model.event import Event, Stamp, Where
from triage.parsers import _stamps

SOURCE = "kernel_log"
BEFORE, AFTER = 80, 80
TEXT = 2000  # characters of an Event's text
REPORT_SECONDS = 10.0  # a report is printed in one go; slow serial consoles take seconds over a long one
SKIP = 3  # lines of other CPUs that may stand between two lines of one report

MARKS = (
    ("start", r"Linux version [0-9]+\.[0-9]+"),
    ("doubt", r"NVRM: [^\n]{0,160}(?:[Ee]rror|[Ff]ail(?:ed|ure)?|FAILED|ERROR|[Tt]imed? ?out|[Uu]nexpected)\b"),
    ("well", r"NVRM: loading NVIDIA UNIX"),
    ("well", r"nvidia: loading out-of-tree module"),
    ("well", r"\[drm\] Initialized nvidia"),
    ("well", r"nvidia-uvm: Loaded the UVM driver"),
    ("well", r"nvidia-nvswitch[0-9]+: open \(major="),
    ("well", r"nvidia-nvlink: Nvlink Core is being initialized"),
)

_LINE = re.compile(
    rb"^(?:[\w.-]+: )?(?:"
    rb"(?:<\d{1,3}>)?\[ *\+?\d{1,9}\.\d{6}[\] ]"
    rb"|\[[^\s\d\[\]]{2,12} +[^\s\[\]]{2,12} +\d{1,2} \d\d:\d\d:\d\d \d{4}\] "
    rb"|\d{1,4},\d{1,12},\d{1,18},[^;\n]{1,40};"
    rb"|(?:kern|user|daemon|syslog|auth|authpriv) *:(?:emerg|alert|crit|err|warn|notice|info|debug) *: "
    rb"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d "
    rb"|[^\n]{0,80}? kernel(?:\[\d+\])?: "
    rb"|<\d{1,3}>1 \S+ \S+ kernel "
    rb"|\{[^\n]{0,4000}?\"(?:_TRANSPORT|SYSLOG_IDENTIFIER)\" ?: ?\"kernel\""
    rb"| *NVRM: | *nvidia-nvswitch\d+: )",
    re.MULTILINE,
)
_SERVICE = re.compile(
    rb"^(?:[\w./-]+:)?(?:[A-Z][a-z]{2} [ \d]\d|\d{4}-\S{1,12}T\S{1,40}) ?(?:[\d:]{8})? \S+ [\w./@-]+(?:\[\d+\])?: ",
    re.M,
)
_BLANK = re.compile(rb"^[ \t]*\r?$", re.M)

_KMSG = re.compile(r"\d{1,4},\d{1,12},(?P<us>\d{1,18}),[^;]{1,40};")
_PDSH = re.compile(r"(?P<node>[A-Za-z][\w.-]{0,63}): (?=\[|<\d|[A-Z][a-z]{2} [ \d]\d |\d{4}-\d\d-)")
_HOSTED = re.compile(r" (?P<node>[\w.:-]{1,64}) (?:[a-z0-9]+\.[a-z]+ )?(?P<tag>[\w./@()-]{1,64})(?:\[\d{1,10}\])?: ?")
_WALL = re.compile(r"Message from syslogd@(?P<node>[\w.-]{1,64}) at ")
_RFC5424 = re.compile(r" (?P<node>\S{1,64}) (?P<tag>\S{1,48}) \S{1,64} \S{1,64} (?:-|\[[^\]\n]{0,500}\]) ?")
_INNER = re.compile(r" ?\[ *\+?\d{1,9}\.\d{3,9}\](?:\[ *[TC]\d+\])? ?")


class Line(NamedTuple):
    """A line without its prefix."""

    text: str
    time: Stamp | None = None
    node: str | None = None
    bare: bool = False


class Report(NamedTuple):
    """How the kernel spreads a message over lines: the one that opens it, those that may follow, the one that ends it.

    part: lines that belong to such a report when the opening is found within `back` lines before; None is no line.
    alone: such a part also stands for the report when its opening is not in sight.
    """

    opens: re.Pattern[str]
    inside: re.Pattern[str]
    ends: re.Pattern[str] | None
    part: re.Pattern[str] | None
    back: int
    ahead: int
    alone: bool = False


_TRACE = (
    r"^(?:\s|\?|\[<[0-9a-f]+>\]|Call [Tt]race|</?(?:TASK|IRQ|NMI)>|RIP|RSP|RAX|RBP|R\d\d|RDX|FS:|CS:|CR2|DR\d|Code:"
    r"|PKRU|Modules linked|CPU:|Hardware name|Workqueue|task:|\"echo 0 >|Tainted|Not tainted|Showing all locks|---\["
    r"|Kernel panic|Sending NMI|NMI backtrace|rcu|WARNING: kernel stack|unwind|pc :|lr :|sp :|x\d|pstate"
    r"|[\w-]+ +[DRSZ] +[0-9a-f(]|[\w.]+\+0x)"
)
_REPORTS = (
    Report(
        re.compile(r"invoked oom-killer"),
        re.compile(r""),
        re.compile(r"Killed process|oom_reaper"),
        re.compile(r"oom-kill:|[Oo]ut of memory|Kill(?:ed)? process|oom_reaper|Mem-Info|Tasks state|memory: usage"),
        BEFORE,
        AFTER,
        alone=True,
    ),
    Report(
        re.compile(
            r"blocked for more than \d+|soft lockup|[Hh]ard LOCKUP|self-detected stall|detected stalls|BUG: |Oops"
            r"|WARNING: CPU|general protection fault|Kernel panic|Unable to handle kernel"
        ),
        re.compile(_TRACE),
        re.compile(r"---\[ end"),
        re.compile(r"^(?:RIP|Call [Tt]race|\s|task:|\[<|\?)"),
        45,
        60,
    ),
    Report(
        re.compile(r"NVRM: (?:Xid \(|The NVIDIA GPU|GPU \S+ GPU has fallen)|\bXid \("),
        re.compile(rf"^\s*NVRM: (?!Xid|GPU at|loading)|{_TRACE}"),
        None,
        re.compile(r"^\s*NVRM: (?!Xid|GPU at|loading|GPU Board)"),
        45,
        60,
    ),
    Report(
        re.compile(r"SXid \([^)]+\): \d+, (?!Severity|Data|Engine)"),
        re.compile(r"SXid \([^)]+\): \d+, (?:Severity|Data|Engine)"),
        None,
        None,
        0,
        8,
    ),
    Report(
        re.compile(r"AER: (?:Multiple )?(?:Corrected|Uncorrect\w+|Correctable)[^\n]{0,40}error"),
        re.compile(r"PCIe Bus Error:|device \[[0-9a-f]{4}:|^\S+ \S+: +\[ *\d+\]|AER:|TLP Header"),
        None,
        re.compile(r"PCIe Bus Error:|device \[[0-9a-f]{4}:|: +\[ *\d+\] "),
        8,
        16,
        alone=True,
    ),
    Report(
        re.compile(r"\[Hardware Error\]|mce: "), re.compile(r"\[Hardware Error\]|mce: |EDAC"), None, None, 0, 12
    ),
)  # fmt: skip
# What _LINE and _SERVICE cannot do without, in a form that scanning for it costs a tenth.
SIGNS = (
    re.compile(rb"\[ *\+?\d{1,9}\.\d{6}[\] ]"),
    re.compile(rb"\d\d:\d\d:\d\d \d{4}\] |T\d\d:\d\d:\d\d,\d{6}[+-]|\d,\d{1,12},\d{1,18},[^;\n]{1,40};"),
    re.compile(rb":(?:emerg|alert|crit|err|warn|notice|info|debug) *: | kernel(?:\[\d+\])?: |>1 \S+ \S+ kernel "),
    re.compile(rb"\"(?:_TRANSPORT|SYSLOG_IDENTIFIER)\" ?: ?\"kernel\"|NVRM: |nvidia-nvswitch\d+: "),
    re.compile(rb"^(?:[\w./-]+:)?(?:[A-Z][a-z]{2} [ \d]\d|\d{4}-\S{1,12}T)", re.M),
)


def recognises(head: bytes, tail: bytes) -> int:
    """2: most lines are kernel messages (or a syslog that holds some); 1: some are."""
    kernel = services = lines = 0
    for part in (head, tail[-16384:]):
        kernel += sum(1 for _ in _LINE.finditer(part))
        services += sum(1 for _ in _SERVICE.finditer(part))
        lines += part.count(b"\n") + 1 - sum(1 for _ in _BLANK.finditer(part))
    if kernel * 2 >= max(lines, 1) or (kernel and max(services, kernel) * 2 >= lines):
        return 2 if kernel else 0
    return 1 if kernel or services * 2 >= max(lines, 4) else 0


def parse(window: Window) -> Event:
    """The kernel message at the hit, its report joined."""
    line = split(window.lines[window.hit])
    body = list(_joined(window, line))
    return Event(
        where=Where(file=window.file.path, line=window.numbers[window.hit]),
        text=line.text[:TEXT],
        body="\n".join(body),
        source=SOURCE,
        time=line.time,
        node=line.node or window.file.node or _wall(window),
        rank=window.file.rank,
    )


def _wall(window: Window) -> str | None:
    """The host of `Message from syslogd@node017 at ...`, which terminals print above the message itself."""
    found = _WALL.match(window.lines[window.hit - 1]) if window.hit else None
    return found["node"] if found else None


def split(line: str) -> Line:
    """A line without its prefix, and the time and node that the prefix names."""
    if line.startswith("{") and '"MESSAGE"' in line:
        return _journal(line)
    if found := _KMSG.match(line):
        return Line(line[found.end() :], Stamp(seconds=int(found["us"]) / 1e6, kind="boot"))
    node = None
    if found := _PDSH.match(line):
        node, line = found["node"], line[found.end() :]
    time, end = _stamps.find(line)
    host, end = _host(line, end, time)
    if inner := _INNER.match(line, end):
        end = inner.end()
    elif line[end : end + 1] == " " and end:
        end += 1
    return Line(line[end:], time, host or node, bare=end == 0)


def _host(line: str, end: int, time: Stamp | None) -> tuple[str | None, int]:
    """The host behind the stamp, and where the message begins; dmesg prints none, `nvidia 0000:03:00.0:` is text."""
    if not end:
        return None, end
    if line.startswith("<") and (found := _RFC5424.match(line, end)) and ">1 " in line[:6]:
        return found["node"], found.end()
    found = _HOSTED.match(line, end)
    booted = time is not None and time.kind == "boot"  # behind it stands text, unless a shipper added host and tag
    plain = line[0] not in "[<" and "," not in line[:end] and " : " not in line[:end] and not booted
    if found and (found["tag"] == "kernel" or plain):
        return found["node"], found.end()
    return None, end


def _journal(line: str) -> Line:
    """`journalctl -o json`: a message may be a list of bytes; times are microseconds."""
    try:
        record = json_text.loads(line)
        message = record["MESSAGE"]
        text = bytes(message).decode("utf-8", "replace") if isinstance(message, list) else str(message)
        stamp = record.get("__REALTIME_TIMESTAMP")
        time = Stamp(seconds=int(stamp) / 1e6, kind="utc") if stamp else None
        node = record.get("_HOSTNAME")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return Line(line, bare=True)
    return Line(text, time, node if isinstance(node, str) else None)


def _joined(window: Window, hit: Line) -> Iterator[str]:
    """Texts of all lines of the report that the hit belongs to, in order."""
    for report in _REPORTS:
        start = _start(window, hit, report)
        if start is not None:
            yield from _from(window, start, hit, report)
            return
    yield hit.text
    yield from _bare(window, window.hit + 1)


def _start(window: Window, hit: Line, report: Report) -> int | None:
    """Index of the line that opens the report around the hit; None when the hit is no part of such a report."""
    if report.opens.search(hit.text):
        return window.hit
    if report.part is None or not report.part.search(hit.text):
        return None
    skipped = 0
    for index in range(window.hit - 1, max(window.hit - report.back, 0) - 1, -1):
        line = split(window.lines[index])
        if report.opens.search(line.text) and not _far(line, hit):
            return index
        skipped = 0 if report.inside.search(line.text) else skipped + 1
        if skipped > SKIP or _far(line, hit) or (report.ends and report.ends.search(line.text)):
            break
    return window.hit if report.alone else None


def _from(window: Window, start: int, hit: Line, report: Report) -> Iterator[str]:
    skipped = 0
    for index in range(start, min(len(window.lines), window.hit + report.ahead)):
        line = hit if index == window.hit else split(window.lines[index])
        if index > window.hit and (report.opens.search(line.text) or skipped > SKIP or _far(line, hit)):
            return
        if index in (start, window.hit) or report.inside.search(line.text):
            skipped = 0
            yield line.text
            if index >= window.hit and report.ends and report.ends.search(line.text):
                return
        else:
            skipped += 1


def _far(line: Line, other: Line) -> bool:
    """Printed at another time, so not of the same report."""
    if line.time is None or other.time is None or line.time.kind != other.time.kind:
        return False
    return abs(line.time.seconds - other.time.seconds) > REPORT_SECONDS


def _bare(window: Window, start: int) -> Iterator[str]:
    """Indented lines without a prefix of their own belong to the line before: printk prints a line break so."""
    for index in range(start, min(len(window.lines), start + 10)):
        line = split(window.lines[index])
        if not line.bare or not line.text[:1].isspace():
            return
        yield line.text
