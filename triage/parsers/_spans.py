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
    """The union of all; spans that touch become one.

    Starts and ends are sorted apart, in place: before the i-th start all is over when the i-th end came before it.
    """
    import numpy as np

    some = list(parts)
    starts = np.concatenate([np.zeros(0), *(np.asarray(part.starts, dtype=float) for part in some)])
    ends = np.concatenate([np.zeros(0), *(np.asarray(part.ends, dtype=float) for part in some)])
    for numbers in (starts, ends):
        if not (numbers[1:] >= numbers[:-1]).all():  # profilers mostly write what ran in order
            numbers.sort()
    fresh = np.ones(len(starts), dtype=bool)
    fresh[1:] = starts[1:] > ends[:-1]
    if not fresh.all():
        starts, ends = starts[fresh], ends[np.roll(fresh, -1)]  # one ends before the next begins, the last at the end
    return Merged(starts, ends)


def overlap(one: Merged, two: Merged) -> Merged:
    """Where both are."""
    return _collected(sum(int(counts.sum()) for _, _, counts in _meetings(one, two)), _overlaps(one, two))


def shared(one: Merged, two: Merged) -> float:
    """Length of where both are; of millions of spans nothing is kept."""
    return _summed(_overlaps(one, two))


def without(one: Merged, two: Merged) -> Merged:
    """The first less the second."""
    gaps = _gaps(two)
    left = ((starts[ends > starts], ends[ends > starts]) for starts, ends in _overlaps(one, gaps))
    return _collected(sum(int(counts.sum()) for _, _, counts in _meetings(one, gaps)), left)


def left_of(one: Merged, two: Merged) -> float:
    """Length of the first less the second; of millions of spans nothing is kept."""
    return _summed(_overlaps(one, _gaps(two)))


def _gaps(spans: Merged) -> Merged:
    """All that is not in them."""
    import numpy as np

    return Merged(np.concatenate([[-math.inf], spans.ends]), np.concatenate([spans.starts, [math.inf]]))


def _summed(pieces: Iterable[tuple[Any, Any]]) -> float:
    return math.fsum(length for starts, ends in pieces for length in (ends - starts).tolist())


def _meetings(one: Merged, two: Merged) -> Iterator[tuple[int, Any, Any]]:
    """Of each piece of the first where it begins, which of the second its spans meet first, and how many they meet."""
    import numpy as np

    for at in range(0, len(one), PIECE):
        part = slice(at, at + PIECE)
        first = np.searchsorted(two.ends, one.starts[part], side="right")
        yield at, first, np.maximum(np.searchsorted(two.starts, one.ends[part], side="left") - first, 0)


def _overlaps(one: Merged, two: Merged) -> Iterator[tuple[Any, Any]]:
    """Starts and ends of where both are, a piece at a time: the indexes take more room than the spans."""
    import numpy as np

    for at, first, counts in _meetings(one, two):
        upto = np.cumsum(counts)
        for low in range(0, int(upto[-1]), PIECE):  # one span may meet millions
            wanted = np.arange(low, min(low + PIECE, int(upto[-1])))
            mine = np.searchsorted(upto, wanted, side="right")
            theirs = first[mine] + wanted - (upto[mine] - counts[mine])
            yield (
                np.maximum(one.starts[at + mine], two.starts[theirs]),
                np.minimum(one.ends[at + mine], two.ends[theirs]),
            )


def _collected(size: int, pieces: Iterable[tuple[Any, Any]]) -> Merged:
    """Pieces of together at most so many spans, in the order in which they come; room that is not used costs none."""
    import numpy as np

    starts, ends, done = np.empty(size), np.empty(size), 0
    for some_starts, some_ends in pieces:
        part = slice(done, done + len(some_starts))
        starts[part], ends[part] = some_starts, some_ends
        done = part.stop
    return Merged(starts[:done], ends[:done])


def exact_sum(numbers: Any) -> float:
    """math.fsum of an array, without a Python object for all of its numbers at a time."""
    return math.fsum(number for piece in _pieces(numbers) for number in piece)


def _pieces(numbers: Any) -> Iterator[list[float]]:
    for at in range(0, len(numbers), PIECE):
        yield numbers[at : at + PIECE].tolist()
