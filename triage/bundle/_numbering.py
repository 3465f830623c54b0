"""Quoting signs and numbers before every line; MPI's rank before every line, which looks like one of these."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from triage.bundle.normalise import MARK

_MOST = 0.9  # share of the lines that must have it
_SHORT = 9  # so many numbers from 0 on, each once, may be ranks that said one thing each
_LEAST = 5  # lines

_QUOTES = re.compile(rb"(?:> ?){1,8}")
_BRACKETS = re.compile(rb" {0,8}\[(\d{1,7})\](?: |$)")
_BARE = (
    re.compile(rb" {0,8}(\d{1,7})(?:: |:$)"),
    re.compile(rb" {0,8}(\d{1,7}):"),
    re.compile(rb" {0,8}(\d{1,7}) ?(?:\| |\|$)"),
    re.compile(rb" {0,8}(\d{1,7}) ?\|"),
    re.compile(rb" {0,8}(\d{1,7})\t"),
)
_WORD = re.compile(rb"\s*([A-Za-z]{2,20})\b")

Rewrite = Callable[[bytes], bytes]


def quoted(lines: Sequence[bytes]) -> Rewrite | None:
    """`> > `: a mail or an issue quotes the log, and somebody quotes that."""
    if len(lines) < 2 or sum(line.startswith(b">") for line in lines) < _MOST * len(lines):
        return None
    return partial(_without, _QUOTES)


def numbered(lines: Sequence[bytes]) -> Rewrite | None:
    """Numbers of lines are taken off; numbers of ranks are written as such. (NCCL's own `[3]` is a GPU.)"""
    if len(lines) < _LEAST or sum(line.lstrip()[:1] in b"[0123456789" for line in lines) < _MOST * len(lines):
        return None
    for form in (_BRACKETS, *_BARE):
        if not any(form.match(line) for line in lines[:_LEAST]):
            continue
        found = [match for line in lines if (match := form.match(line))]
        if len(found) < _MOST * len(lines):
            continue
        numbers = [int(match[1]) for match in found]
        rests = [match.string[match.end() :] for match in found] if form in _BARE[:2] else []
        if _counts(numbers, rests, form is _BARE[1]):
            return partial(_without, form)
        if form is _BRACKETS and _ranks(numbers) and sum(b" NCCL " in line for line in lines) * 2 < len(lines):
            return _ranked
    return None


def _counts(numbers: Sequence[int], rests: Sequence[bytes], gaps: bool) -> bool:
    """Do the numbers count the lines? gaps: some may be missing, as in what grep found.

    rests: what stands behind them. `1: loss 2.3`, `2: loss 2.1` counts something of its own: there every line begins
    with the same word.
    """
    if numbers[0] == 0 and len(numbers) < _SHORT:
        return False
    steps = [second - first for first, second in pairwise(numbers)]
    if not (sum(step == 1 for step in steps) >= 0.95 * len(steps) or (gaps and min(steps) > 0)):
        return False
    words = [word[1] for rest in rests if (word := _WORD.match(rest))]
    return not words or max(map(words.count, set(words))) < _MOST * len(rests)


def _ranks(numbers: Sequence[int]) -> bool:
    """Several numbers that come again and again, not in order: processes that print into one stream."""
    distinct = set(numbers)
    falls = sum(second < first for first, second in pairwise(numbers))
    return 2 <= len(distinct) <= len(numbers) // 2 and falls > 0 and max(distinct) < 16 * len(distinct)


def _without(form: re.Pattern[bytes], line: bytes) -> bytes:
    return form.sub(b"", line, count=1) if form.match(line) else line


def _ranked(line: bytes) -> bytes:
    found = _BRACKETS.match(line)
    return b"[rank%d]: " % int(found[1]) + MARK + line[found.end() :] if found else line
