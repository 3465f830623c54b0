"""Columns: those of a table that an export puts around each line, and those of a terminal that broke lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from triage.bundle.normalise import MARK

NARROWEST, WIDEST = 60, 250  # columns of a terminal
_FULL = 3  # different lines that reach the last column
_USUAL = frozenset({80, 100, 120, 132, 140, 160, 180, 200})
_MOST = 0.9  # share of the lines that must have it
_PIECES, _LONGEST = 64, 16_384  # lines that are joined, and bytes of what comes of it

_TABLE = re.compile(
    rb"(?:[^\t\n]{0,100}\t){0,3}?(?P<stamp>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
    rb"(?:\t(?:stdout|stderr|out|err)\b)?[\t ]"
)
_RULED = re.compile(rb"[-=+*#_|~.\s]*$|\s*[|+].*[|+]\s*$|.*([-=#*_.])\1{9}$")
# Line starts that nobody takes for the rest of the line before.
_FRESH = re.compile(
    rb"\s{2,}\S|\t|\{\"|terminate called|Traceback \(|\[[\w ]{0,20}\d{1,6}\]|[\[(]?\d{4}-\d\d-\d\d[ T]"
    rb"|[\[(]?\d\d:\d\d:\d\d|[IWEF]\d{4} \d\d:|\[?(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL)\b|[\w.-]+:\d+:\d+ \[\d+\]"
    rb"|\[ *\d+\.\d{3,}\]"
    rb"|(?:\w{1,60}\.){0,6}\w{0,60}(?:Error|Exception|Warning|Interrupt)\b[:(]|nccl[A-Z]\w+:"
)
_GAPPED = re.compile(rb"\S {3,}\S.*\S {3,}\S")  # columns of a table
_DIGITS = re.compile(rb"\d+")
_ALIKE = 8  # bytes: two lines that begin with the same, but for numbers, are two records

Rewrite = Callable[[bytes], bytes]


def tabbed(lines: Sequence[bytes]) -> Rewrite | None:
    """`time TAB stream TAB text`, and `job TAB step TAB time text`: exports of log services and of build servers."""
    if len(lines) < 2 or sum(b"\t" in line[:400] for line in lines) < _MOST * len(lines):
        return None
    found = [match for line in lines if (match := _TABLE.match(line)) and b"\t" in match[0]]
    return _cells if len(found) >= _MOST * len(lines) else None


def _cells(line: bytes) -> bytes:
    """As a container's log has it: the time, the stream, the text."""
    found = _TABLE.match(line)
    return found["stamp"] + MARK + b" stderr F " + MARK + line[found.end() :] if found else line


def width(lines: Sequence[bytes]) -> int:
    """Columns of the terminal that broke the long lines of a log, or 0 when none did.

    Lines of one length are also what tables and records of one form have: there, what follows begins anew. A few lines
    that reach the last column say so only at a usual width, and when words were broken there.
    """
    lengths = _lengths(lines)
    longest = max(lengths, default=0)
    if not NARROWEST <= longest <= WIDEST:
        return 0
    reach = lengths.count(longest)
    if sum(longest - 3 <= length < longest for length in lengths) > reach:
        return 0
    pairs = [(one, other) for length, (one, other) in zip(lengths, pairwise(lines), strict=False) if length == longest]
    return longest if _went_on(pairs, longest in _USUAL) else 0


def _lengths(lines: Sequence[bytes]) -> list[int]:
    """In characters; nothing when a line is longer than any terminal (a character has up to four bytes)."""
    if max(map(len, lines), default=0) > 4 * WIDEST:
        return []
    return [len(line if line.isascii() else line.decode("utf-8", "replace")) - line.endswith(b"\r") for line in lines]


def _went_on(pairs: Sequence[tuple[bytes, bytes]], usual: bool) -> bool:
    """Do the lines that follow those of full length look like the rest of them?"""
    goes_on: list[tuple[bytes, bytes]] = []
    misses = 0
    for one, other in pairs:
        if _may_follow(one, other):
            goes_on.append((one, other))
        elif not _RULED.match(one):
            misses += 1
            if misses > max((1 - _MOST) * len(pairs), len(pairs) > _FULL):
                return False
    within = sum(_broken(one, other) for one, other in goes_on)
    if len({one for one, _ in goes_on}) >= _FULL:
        return within * 4 >= len(goes_on)
    return bool(goes_on) and usual and within * 2 >= len(goes_on) and not any(_GAPPED.search(one) for one, _ in goes_on)


def _may_follow(one: bytes, other: bytes) -> bool:
    """May a line be the rest of the one before?"""
    if not other.strip() or _FRESH.match(other):
        return False
    return _DIGITS.sub(b"0", one[: 4 * _ALIKE])[:_ALIKE] != _DIGITS.sub(b"0", other[: 4 * _ALIKE])[:_ALIKE]


def _broken(one: bytes, other: bytes) -> bool:
    """Does a word or a number seem to go on?"""
    return one[-1:].isalnum() and (other[:1].islower() or other[:1].isdigit())


def joined(lines: Sequence[bytes], columns: int, mark: bytes) -> tuple[list[bytes], list[int]]:
    """Lines with what a terminal broke off them, and at which line each begins."""
    out: list[bytes] = []
    places: list[int] = []
    pieces = _PIECES
    for place, line in enumerate(lines):
        line = line.removesuffix(b"\r")
        before = lines[place - 1].removesuffix(b"\r") if place else b""
        if place and pieces < _PIECES and _goes_on(before, line, columns) and len(out[-1]) < _LONGEST:
            out[-1] += mark + line
            pieces += 1
        else:
            out.append(line)
            places.append(place)
            pieces = 0
    return out, places


def _goes_on(before: bytes, line: bytes, columns: int) -> bool:
    if len(before) < columns or len(before.decode("utf-8", "replace")) != columns or _RULED.match(before):
        return False
    return _may_follow(before, line)
