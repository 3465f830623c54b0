"""Which line of a file on disk a line of a piece of it is; counted when somebody asks.

Offsets are those of a line's first byte in the piece. A piece may have more lines than the file, where one on disk was
cut or held a progress bar.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

LARGE = 1 << 20  # bytes of a piece for which importing numpy pays: it counts at three times the speed
NEAR = 1 << 18  # bytes that numpy looks at in one go: what it makes of them stays in a core's cache
_FAR = 1 << 16  # bytes between two offsets from which on numpy is the faster one
_LF = ord("\n")


class Lines(Protocol):
    """Numbers on disk, from 1, of the lines of a piece."""

    def at(self, offset: int) -> int:
        """Of the line that begins at an offset."""

    def between(self, start: int, stop: int) -> Sequence[int]:
        """Of the lines from the one that begins at an offset to the one that ends before another."""

    def every(self) -> Sequence[int]:
        """Of all lines, in order; one behind the last line end does not count."""

    def since(self, offset: int) -> Lines:
        """Those of the piece that begins at an offset."""


def feeds(data: bytes, start: int, stop: int) -> int:
    """Line feeds of a piece between two offsets."""
    if stop - start < _FAR or len(data) < LARGE:
        return data.count(b"\n", start, stop)
    import numpy

    held = numpy.frombuffer(data, numpy.uint8, stop - start, start)
    return sum(int(numpy.count_nonzero(held[at : at + NEAR] == _LF)) for at in range(0, len(held), NEAR))


class Place:
    """Line feeds before an offset, counted on from the last question: hits come in order."""

    def __init__(self, data: bytes) -> None:
        self._data, self._offset, self._count = data, 0, 0

    def feeds(self, offset: int) -> int:
        """Line feeds before the offset."""
        if offset < self._offset:
            self._count -= feeds(self._data, offset, self._offset)
        else:
            self._count += feeds(self._data, self._offset, offset)
        self._offset = offset
        return self._count


class Counted:
    """Lines that follow each other on disk.

    first: number of the first. data: the piece, `\\n` for a line end on disk and `\\r` for one that was added.
    """

    def __init__(self, first: int, data: bytes) -> None:
        self._first, self._data, self._place = first, data, Place(data)

    def at(self, offset: int) -> int:
        """See Lines."""
        return self._first + self._place.feeds(offset)

    def between(self, start: int, stop: int) -> Sequence[int]:
        """See Lines."""
        first, piece = self.at(start), self._data[start:stop]
        if b"\r" not in piece:
            return range(first, first + piece.count(b"\n") + 1)
        numbered = enumerate(piece.split(b"\n"), first)
        return [number for number, line in numbered for _ in range(line.count(b"\r") + 1)]

    def every(self) -> Sequence[int]:
        """See Lines."""
        return self.between(0, len(self._data) - self._data.endswith((b"\n", b"\r")))

    def since(self, offset: int) -> Counted:
        """See Lines."""
        return Counted(self.at(offset), self._data[offset:])


class Listed:
    """Lines of which each has its own number; a line behind the last has that of the last.

    data: the piece, `\\n` for every line end.
    """

    def __init__(self, numbers: Sequence[int], data: bytes) -> None:
        self._numbers, self._data, self._place = numbers, data, Place(data)

    def at(self, offset: int) -> int:
        """See Lines."""
        return self._numbers[min(self._place.feeds(offset), len(self._numbers) - 1)]

    def between(self, start: int, stop: int) -> Sequence[int]:
        """See Lines."""
        first = self._place.feeds(start)
        return self._numbers[first : first + feeds(self._data, start, stop) + 1]

    def every(self) -> Sequence[int]:
        """See Lines."""
        return self._numbers

    def since(self, offset: int) -> Listed:
        """See Lines."""
        return Listed(self._numbers[min(self._place.feeds(offset), len(self._numbers) - 1) :], self._data[offset:])
