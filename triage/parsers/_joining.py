"""Joins the lines of one message: tracebacks, crash reports, watchdog messages, failure tables, stack dumps.

Ranks print into one stream, so only the lines with the hit line's own prefix take part. What a message means is not
looked at here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from triage.model.bundle import Window
from triage.parsers import _stamps
from triage.parsers._prefix import split

_TRIES = 4  # enclosing starts that are tried, nearest first
_CHAIN = 8  # chained exceptions that are joined
_MESSAGE = 60  # lines that a message may go on after the exception's own line

GLOG = re.compile(r"\[?[EWIFC](?:\d{3,8} \d\d:\d\d:\d\d\.\d+ | )\s?(?:\d+ )?[\w./-]+:\d+\]|\[[EWIF] [\w./-]+:\d+\]")
TRACEBACK = "Traceback (most recent call last)"
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception", "from user code:")
_FRAMED = (
    " ",
    "\t",
    "│",
    "╭",
    "╰",
    "❱",
    "|",
    "+",
)  # what frames begin with, also as `rich` and exception groups draw them
_RULE = re.compile(r"\s{0,3}(?:={20,}|\*{20,})\s*$")
_STAMPED = frozenset("0123456789[")  # what a stamp before each line of a traceback begins with
_DASHES = re.compile(r"\s{0,3}-{20,}\s*$")
_FRAME = re.compile(r"frame #\d+:|\s*#\d+ |Exception raised from |C\+\+ CapturedTraceback|\s*\(no backtrace avail")
_GOES_ON = re.compile(
    r"CUDA kernel errors might|For debugging consider|Compile with `TORCH_USE|Device-side assert"
    r"|Search for `cuda|Last error|nccl[A-Z]\w+:|NCCL error in|Set TORCH|You can suppress|Parameter indices"
    r"|Exception raised from|frame #|from user code|Triton compilation|This error may appear|Adding `\w"
    r"|The above exception|During handling|In addition, you can set|To fix|If this is unexpected|While executing"
    r"|Developer debug context|Explanation:|Hint:|  "
)
_THREAD = re.compile(
    r"\s*Thread (?:0x)?[0-9a-fA-F]+ ?[\w ]*\((?:active|idle|most recent call first)[^)\n]*\)|Current thread 0x"
)
_PLACE = re.compile(r"(?<!:\d\d):\d+\]")  # the end of what GLOG matches, and no time of day
_HINTS = (
    TRACEBACK, "terminate called", "Fatal Python error", "Faulthandler", "Thread ", "Current thread",
    "*** Process received signal", "Root Cause", "=" * 20, "*" * 20,
)  # fmt: skip
_ENTRY = re.compile(r"\s{0,4}\[\d+\]:\s*$")
_VERDICT = re.compile(r"\s{0,4}Root Cause(?: \(first observed failure\))?:\s*$")
_ROW = re.compile(r"\s{1,8}\w{1,12}\s{0,8}: ")
_RECORD = re.compile(
    r"\[?(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)\b\]?[:| ]|[\w.-]+:\d+:\d+ \[-?\d+\] |NCCL version|terminate called"
    r"|Fatal Python error|srun: |slurmstepd: |wandb: |\s*\d{1,3}%\||Epoch[ :]|Killed|Aborted|/[\w./-]+: line \d+:"
    r"|[\w./-]+\.py:\d+: \w*Warning|\*\*\*|\{'"
)
_CRASH_BODY = (
    "  ", "Thread 0x", "Current thread", "Extension modules", "<no Python frame>", "Python runtime state", "[", "***",
)  # fmt: skip


class Lines:
    """The lines of a window that the process of the hit line printed: (index in the window, text without prefixes)."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.owner, self.text = owned(window.lines[window.hit])

    def back(self, start: int) -> Iterator[tuple[int, str]]:
        """From a line upwards, that line first."""
        for index in range(start, -1, -1):
            owner, text = owned(self.window.lines[index])
            if owner == self.owner:
                yield index, text

    def starts(self) -> Iterator[tuple[int, str]]:
        """From the hit line upwards, those at which a message may begin; who printed the others is not asked."""
        for index in range(self.window.hit, -1, -1):
            line = self.window.lines[index]
            if _may_begin(line):
                owner, text = owned(line)
                if owner == self.owner:
                    yield index, text

    def onward(self, start: int) -> Iterator[tuple[int, str]]:
        """From a line downwards, that line first."""
        for index in range(start, len(self.window.lines)):
            owner, text = owned(self.window.lines[index])
            if owner == self.owner:
                yield index, text


@lru_cache(maxsize=8192)
def _may_begin(line: str) -> bool:
    return any(hint in line for hint in _HINTS) or _PLACE.search(line) is not None


@lru_cache(maxsize=8192)
def owned(line: str) -> tuple[object, str]:
    """Who printed the line, and its text.

    `[rank3]:` before a glog header belongs to that header: the further lines of its message have none.
    """
    prefix = split(line)
    rank, *others = prefix.owner
    if GLOG.match(prefix.rest):
        rank = None
    stamp, used = _stamps.find(prefix.rest[:200]) if prefix.rest[:1] in _STAMPED else (None, 0)
    behind = prefix.rest[used:].removeprefix(" ")
    # A log shipper stamps each line of a traceback; a logger stamps only the first line of its own.
    if stamp and behind.startswith(("  File ", "    ", TRACEBACK)):
        return (rank, *others), behind
    return (rank, *others), prefix.rest


def joined(window: Window) -> list[tuple[int, str]]:
    """The lines of the message that the hit line belongs to, in order; the hit line alone when it stands by itself."""
    lines = Lines(window)
    tries = 0
    for index, text in lines.starts():
        joiner = _joiner(text)
        if joiner is None:
            continue
        message = joiner(lines, _first(lines, index, text))
        if message and message[-1][0] >= window.hit:
            return message
        tries += 1
        if tries >= _TRIES:
            break
    return [(window.hit, lines.text)]


_Joiner = Callable[[Lines, int], list[tuple[int, str]]]


@lru_cache(maxsize=8192)
def _joiner(text: str) -> _Joiner | None:
    """How the message that begins with a line is joined; each of them needs one of _HINTS or _PLACE."""
    if TRACEBACK in text:
        return _traceback
    if GLOG.match(text):
        return _logged
    if text.startswith("terminate called"):
        return _terminated
    if text.startswith(("Fatal Python error", "Faulthandler", "Current thread 0x", "*** Process received signal")):
        return _crash
    if _THREAD.match(text):
        return _thread
    if _VERDICT.match(text):
        return _excerpt
    return _table if _RULE.match(text) else None


def _first(lines: Lines, index: int, text: str) -> int:
    """For a traceback: the header of the first exception of its chain."""
    if TRACEBACK not in text:
        return index
    chained = False
    for at, line in lines.back(index - 1):
        if TRACEBACK in line:
            if not chained:
                break
            index, chained = at, False
        elif line.startswith(_CHAINED):
            chained = True
        elif not chained and line.strip():
            break
    return index


def _traceback(lines: Lines, start: int) -> list[tuple[int, str]]:
    """Header, frames, the exception's line, its further lines, and the exceptions chained to it."""
    out: list[tuple[int, str]] = []
    indent, after, chain, stamped = 0, 0, 0, False
    for index, text in lines.onward(start):
        if TRACEBACK in text:
            if after and not chain:
                break
            indent, after, chain = text.find("Traceback"), 0, 0
            indent = indent if not text[:indent].strip() else 0
            stamped = stamped or bool(_stamps.find(split(lines.window.lines[index]).rest[:200])[1])
        text = _unstamped(text) if stamped else text
        if TRACEBACK in text:
            pass
        elif not after and not text[indent:].startswith(_FRAMED):
            after = 0 if not text.strip() else 1
        elif after:
            chain = chain or int(text.startswith(_CHAINED))
            after += 1
            if after > _MESSAGE or (not chain and _ends(text, out)):
                break
        out.append((index, text[indent:] if not text[:indent].strip() else text))
    return _trimmed(out)


def _unstamped(text: str) -> str:
    """A line of a traceback whose every line a shipper stamped."""
    return text[_stamps.find(text[:200])[1] :].removeprefix(" ") if text[:1] in _STAMPED else text


def _ends(text: str, out: list[tuple[int, str]]) -> bool:
    """Does a line after the exception's own belong to something else?"""
    if not text.strip():
        return not out[-1][1].strip() and not out[-2][1].strip()
    if _GOES_ON.match(text) or text.startswith(_CHAINED):
        return False
    return fresh(text) or not out[-1][1].strip()


def fresh(text: str) -> bool:
    """Does a line begin a record of its own?"""
    if _RECORD.match(text) or GLOG.match(text) or _RULE.match(text) or TRACEBACK in text:
        return True
    return bool(_stamps.find(text[:200])[1])


def _logged(lines: Lines, start: int) -> list[tuple[int, str]]:
    """A C++ log line and what it carries: reasons, C++ frames, a desync report, the stack of the failed collective."""
    out: list[tuple[int, str]] = []
    for index, text in lines.onward(start):
        if out and (len(out) > 2 * _MESSAGE or _ends_log(text, out[-1][1])):
            break
        out.append((index, text))
    return _trimmed(out)


def _ends_log(text: str, before: str) -> bool:
    if not text.strip():
        return not before.strip()
    if _FRAME.match(text) or _GOES_ON.match(text) or text.startswith(("\t", "  what():", " - ", "[Rank ", "[PG ")):
        return False
    return fresh(text) or not before.strip() or TRACEBACK in text or text.startswith("terminate called")


def _terminated(lines: Lines, start: int) -> list[tuple[int, str]]:
    return _logged(lines, start)


def _crash(lines: Lines, start: int) -> list[tuple[int, str]]:
    """`Fatal Python error: ...` with the stacks of all threads."""
    out: list[tuple[int, str]] = []
    for index, text in lines.onward(start):
        if out and text.strip() and not text.startswith(_CRASH_BODY):
            break
        out.append((index, text))
    return _trimmed(out)


def _thread(lines: Lines, start: int) -> list[tuple[int, str]]:
    """One thread of a stack dump (py-spy, faulthandler)."""
    out: list[tuple[int, str]] = []
    for index, text in lines.onward(start):
        if out and not text.startswith((" ", "\t")):
            break
        if out and _THREAD.match(text):
            break
        out.append((index, text))
    return _trimmed(out)


def _table(lines: Lines, start: int) -> list[tuple[int, str]]:
    """torchrun's table of failures: the entry that the hit stands in, or else its section."""
    whole: list[tuple[int, str]] = []
    for index, text in lines.onward(start):
        if len(whole) == 2 and not any("FAILED" in line or "Root Cause" in line for _, line in whole[1:]):
            return []
        whole.append((index, text))
        if len(whole) > 3 and _RULE.match(text) and text.strip()[0] == whole[0][1].strip()[0]:
            return _section(whole, lines.window.hit)
    return _section(whole, lines.window.hit) if len(whole) > 3 else []


def _excerpt(lines: Lines, start: int) -> list[tuple[int, str]]:
    """The last entry of that table without the rules around it, as it is often quoted."""
    out: list[tuple[int, str]] = []
    for index, text in lines.onward(start):
        if out and not (_ENTRY.match(text) or _ROW.match(text)):
            break
        out.append((index, text))
    return out


def _section(whole: list[tuple[int, str]], hit: int) -> list[tuple[int, str]]:
    at = next((place for place, (index, _) in enumerate(whole) if index >= hit), len(whole) - 1)
    edges = [place for place, (_, text) in enumerate(whole) if _DASHES.match(text) or _RULE.match(text)]
    entries = [place for place, (_, text) in enumerate(whole) if _ENTRY.match(text)]
    begin = max((place for place in edges + entries if place <= at), default=0)
    end = min((place for place in edges if place > at), default=len(whole))
    if begin in entries:
        end = min([place for place in entries if place > at] + [end])
    return whole[begin:end]


def _trimmed(out: list[tuple[int, str]]) -> list[tuple[int, str]]:
    while out and not out[-1][1].strip():
        out.pop()
    return out
