"""Where in a chunk of text a rule of redaction may match: the starts of those lines, in one pass of a scanner.

Two rules (addresses) begin with digits, which logs are full of. A scanner that must count octets takes as long for them
as for all others together, so they are looked for in two steps: a glance that lets too many lines through, and the
exact pattern in those lines alone. Where every second line holds an address the glance is dropped.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

Looked = tuple[re.Pattern[bytes], bytes | None, bytes | None]  # regex of a rule, its `scan`, its `glance`
LOUD = 1 / 2000  # hits a byte from which on looking into each of their lines costs more than the exact scan
_WIDE = re.compile(rb"\{(\d+),\d{3,}\}")  # the scanner only points at lines: an upper bound of hundreds costs it memory


def lines_for(rules: Sequence[Looked]) -> Callable[[bytes], list[int]]:
    """A function from a chunk to the ascending starts of the lines where one of the rules may match."""
    try:
        import hyperscan
    except ImportError:  # no wheel for this machine: every line is looked at, with the same outcome
        return _every_line
    plain = [(regex, scan or regex.pattern) for regex, scan, glance in rules if glance is None]
    exact = [(regex, scan or regex.pattern) for regex, scan, glance in rules if glance is not None]
    first = [(regex, glance) for regex, _, glance in rules if glance is not None]
    rest, glanced = _Ends(hyperscan, plain), _Glanced(_Ends(hyperscan, first), _Ends(hyperscan, exact))
    return lambda data: _starts(data, rest(data) | glanced(data))


class _Ends:
    """Compiled patterns; called with a chunk, the ends of their matches. Compiled when first needed."""

    def __init__(self, hyperscan: Any, patterns: Sequence[tuple[re.Pattern[bytes], bytes]]) -> None:
        self._hyperscan, self._patterns = hyperscan, patterns
        self._database: Any = None

    def __call__(self, data: bytes) -> set[int]:
        ends: set[int] = set()
        if self._patterns:
            self._database = self._database or self._compiled()
            self._database.scan(data, match_event_handler=lambda number, start, end, flags, context: ends.add(end))
        return ends

    def _compiled(self) -> Any:
        database = self._hyperscan.Database(mode=self._hyperscan.HS_MODE_BLOCK)
        texts = [_WIDE.sub(rb"{\1,}", pattern) for _, pattern in self._patterns]
        flags = [self._flags(regex, text) for (regex, _), text in zip(self._patterns, texts, strict=True)]
        database.compile(expressions=texts, ids=list(range(len(texts))), elements=len(texts), flags=flags)
        return database

    def _flags(self, regex: re.Pattern[bytes], text: bytes) -> int:
        found: int = self._hyperscan.HS_FLAG_MULTILINE
        found |= self._hyperscan.HS_FLAG_CASELESS if regex.flags & re.IGNORECASE else 0
        return found if not re.search(rb"\(\?<?[!=]", text) else found | int(self._hyperscan.HS_FLAG_PREFILTER)


class _Glanced:
    """Ends of exact matches, looked for where a glance lets lines through; everywhere, once it did so too often."""

    def __init__(self, glance: Callable[[bytes], set[int]], exact: Callable[[bytes], set[int]]) -> None:
        self._glance, self._exact, self._loud = glance, exact, False

    def __call__(self, data: bytes) -> set[int]:
        hits = set() if self._loud else self._glance(data)
        self._loud = self._loud or len(hits) > max(64, len(data) * LOUD)
        if self._loud:
            return self._exact(data)
        return self._within(data, _starts(data, hits)) if hits else set()

    def _within(self, data: bytes, starts: list[int]) -> set[int]:
        """Ends of exact matches in these lines. They are put together, so that one scan does for all of them."""
        lines = [data[start : line_end(data, start) + 1] for start in starts]
        places = [0, *accumulate(map(len, lines))]
        found = self._exact(b"".join(lines))
        return {end - places[at] + starts[at] for end in found for at in [bisect_right(places, end - 1) - 1]}


def line_end(data: bytes, at: int) -> int:
    """Where the line at `at` ends: the place of its newline, or the end of the data."""
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end


def _starts(data: bytes, ends: set[int]) -> list[int]:
    starts: list[int] = []
    line = -1
    for end in sorted(ends):
        if end - 1 <= line:  # still in the line that is in the list
            continue
        starts.append(data.rfind(b"\n", 0, end - 1 if end else 0) + 1)
        line = line_end(data, max(end - 1, 0))
    return starts


def _every_line(data: bytes) -> list[int]:
    return [0, *(match.end() for match in re.finditer(rb"\n(?=.)", data))]
