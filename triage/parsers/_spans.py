"""Times at which something ran: millions of spans as two columns of numbers, 16 bytes a span."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

PIECE = 1 << 16  # numbers made into Python objects at once


class Spans:
    """Starts and ends, in one unit, as they are added."""

    def __init__(self) -> None:
        self.starts, self.ends = array("d"), array("d")

    def add(self, start: float, end: float) -> None:
        """One more, in any order."""
        self.starts.append(start)
        self.ends.append(end)

    def __len__(self) -> int:
        return len(self.starts)


class Merged:
    """A union of spans: disjoint, sorted. starts, ends: arrays of numpy of the same length."""

    def __init__(self, starts: Any, ends: Any) -> None:
        self.starts, self.ends = starts, ends

    def __len__(self) -> int:
        return len(self.starts)

    def lengths(self) -> Any:
        """An array."""
        return self.ends - self.starts

    def total(self) -> float:
        """Length of all together."""
        return exact_sum(self.lengths())

    def pairs(self) -> list[tuple[float, float]]:
        """As a list of (start, end)."""
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def shorter(self, limit: float) -> Merged:
        """Those below a length."""
        short = self.lengths() < limit
        return Merged(self.starts[short], self.ends[short])


def spans_of(pairs: Iterable[tuple[float, float]]) -> Spans:
    """Spans from pairs of start and end."""
    found = Spans()
    for start, end in pairs:
        found.add(start, end)
    return found


def merged(parts: Iterable[Spans | Merged]) -> Merged:
    """The union of all; spans that touch become one."""
    import numpy as np

    some = list(parts)
    starts = np.concatenate([np.zeros(0), *(np.asarray(part.starts, dtype=float) for part in some)])
    ends = np.concatenate([np.zeros(0), *(np.asarray(part.ends, dtype=float) for part in some)])
    if not (starts[1:] >= starts[:-1]).all():  # profilers mostly write what ran in order
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        del order
    np.maximum.accumulate(ends, out=ends)
    fresh = np.ones(len(starts), dtype=bool)
    fresh[1:] = starts[1:] > ends[:-1]
    return Merged(starts[fresh], ends[np.roll(fresh, -1)])  # one ends before the next begins, the last at the end


def overlap(one: Merged, two: Merged) -> Merged:
    """Where both are."""
    import numpy as np

    first = np.searchsorted(two.ends, one.starts, side="right")
    counts = np.maximum(np.searchsorted(two.starts, one.ends, side="left") - first, 0)
    upto = np.cumsum(counts)
    size = int(upto[-1]) if len(upto) else 0
    starts, ends, done, at = np.empty(size), np.empty(size), 0, 0
    while done < size:  # a piece at a time: the indexes take more room than the spans
        stop = max(int(np.searchsorted(upto, done + PIECE, side="right")), at + 1)
        few = counts[at:stop]
        mine = np.repeat(np.arange(at, stop), few)
        theirs = np.arange(len(mine)) + np.repeat(first[at:stop] - (np.cumsum(few) - few), few)
        part = slice(done, done + len(mine))
        starts[part] = np.maximum(one.starts[mine], two.starts[theirs])
        ends[part] = np.minimum(one.ends[mine], two.ends[theirs])
        done, at = done + len(mine), stop
    return Merged(starts, ends)


def without(one: Merged, two: Merged) -> Merged:
    """The first less the second."""
    import numpy as np

    gaps = Merged(np.concatenate([[-math.inf], two.ends]), np.concatenate([two.starts, [math.inf]]))
    left = overlap(one, gaps)
    some = left.ends > left.starts
    return Merged(left.starts[some], left.ends[some])


def exact_sum(numbers: Any) -> float:
    """math.fsum of an array, without a Python object for all of its numbers at a time."""
    return math.fsum(number for piece in _pieces(numbers) for number in piece)


def _pieces(numbers: Any) -> Iterator[list[float]]:
    for at in range(0, len(numbers), PIECE):
        yield numbers[at : at + PIECE].tolist()
