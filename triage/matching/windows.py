"""Cutting the lines around a hit out of a chunk and, where it ends too early, out of its neighbours."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import Any

from triage.model.bundle import Chunk, File, Window

LINE = 8_192  # bytes of a line that are looked at; a longer one is cut around the hit
_SEAMS = 1_000  # seams of one line that are looked at
LARGE = 1 << 20  # bytes of a chunk whose line feeds are worth finding all at once
_FEED = ord("\n")
EDGE = 262_144  # bytes of the neighbouring chunks that a window may reach into


class View:
    """A chunk with the end of the one before and the start of the one after.

    Lines are told by the offset of their first byte in the chunk's data; numbers are those of the file on disk.
    """

    def __init__(self, chunk: Chunk, before: Chunk | None = None, after: Chunk | None = None) -> None:
        self.chunk, self.file = chunk, chunk.file
        self._data = chunk.data
        self._before, self._after = before, after
        self._texts: dict[int, str] = {}
        self._counted = (0, 0)  # an offset, and the line feeds before it
        self._feeds: Any = None  # offsets of all line feeds of a large chunk
        self._head: list[tuple[str, int]] | None = None
        self._tail: list[tuple[str, int]] | None = None

    def window(self, start: int, before: int, after: int, at: int = 0) -> Window:
        """The line that starts at an offset with up to so many lines around it.

        at: offset of a byte of the match, around which a line of more than LINE bytes is cut.
        """
        above, below = self._above(start, before), self._below(start, after)
        lines = [*above, (self.text(start, at), self.number(start)), *below]
        return Window(
            file=self.file,
            lines=tuple(text for text, _ in lines),
            numbers=tuple(number for _, number in lines),
            hit=len(above),
        )

    def text(self, start: int, at: int = 0) -> str:
        """The line that starts at an offset."""
        found = self._texts.get(start)
        if found is None:
            found = self._texts[start] = _decoded(self._data, start, self.end(start), at)
        return found

    def end(self, start: int) -> int:
        """Where a line ends: the offset of its line feed, or of the end of the chunk."""
        end = self._data.find(b"\n", start)
        return len(self._data) if end < 0 else end

    def standing(self, start: int, text: str) -> str:
        """The part of a line's text that stands on disk in one piece: the longest between two seams."""
        seams = self.chunk.seams
        if not seams:
            return text
        end = self.end(start)
        inside = [seam for seam in seams[bisect_left(seams, start) :][:_SEAMS] if seam <= end]
        cuts = [start, *inside, end]
        parts = [_decoded(self._data, one, other, 0).strip() for one, other in pairwise(cuts)]
        return max((part for part in parts if part in text), key=len, default=text) if inside else text

    def number(self, start: int) -> int:
        """Number in the file of the line that starts at an offset."""
        return _number(self.chunk, self._count(start))

    def lines(self) -> int:
        """Number in the file of the chunk's last line; one that is empty because the file ends there does not count."""
        return self.number(self._data.rfind(b"\n", 0, max(len(self._data) - 1, 0)) + 1)

    def _count(self, start: int) -> int:
        """Line feeds before an offset."""
        if len(self._data) < LARGE:
            return self._counted_on(start)
        if self._feeds is None:
            import numpy

            self._feeds = numpy.flatnonzero(numpy.frombuffer(self._data, numpy.uint8) == _FEED)
        return int(self._feeds.searchsorted(start))

    def _counted_on(self, start: int) -> int:
        """Counted on from where the last question stood."""
        position, count = self._counted
        if start < position:
            count -= self._data.count(b"\n", start, position)
        else:
            count += self._data.count(b"\n", position, start)
        self._counted = (start, count)
        return count

    def _above(self, start: int, wanted: int) -> list[tuple[str, int]]:
        out: list[tuple[str, int]] = []
        count = self._count(start) if wanted else 0
        while len(out) < wanted and start > 0:
            start = self._data.rfind(b"\n", 0, start - 1) + 1
            count -= 1
            out.append((self.text(start), _number(self.chunk, count)))
        missing = wanted - len(out)
        return [*(self._last_of_before()[-missing:] if missing else []), *out[::-1]]

    def _below(self, start: int, wanted: int) -> list[tuple[str, int]]:
        out: list[tuple[str, int]] = []
        count = self._count(start) if wanted else 0
        position = self.end(start) + 1
        while len(out) < wanted and position < len(self._data):
            count += 1
            out.append((self.text(position), _number(self.chunk, count)))
            position = self.end(position) + 1
        return out + self._first_of_after()[: wanted - len(out)]

    def _last_of_before(self) -> list[tuple[str, int]]:
        if self._tail is None:
            self._tail = _neighbours(self._before, last=True) if self._before else []
        return self._tail

    def _first_of_after(self) -> list[tuple[str, int]]:
        if self._head is None:
            self._head = _neighbours(self._after, last=False) if self._after else []
        return self._head


def _neighbours(chunk: Chunk, last: bool) -> list[tuple[str, int]]:
    """The whole lines in the last or the first EDGE bytes of a chunk."""
    data, count = chunk.data, 0
    if last and len(data) > EDGE:
        start = data.find(b"\n", len(data) - EDGE) + 1
        count = data.count(b"\n", 0, start)
        data = data[start:]
    elif len(data) > EDGE:
        data = data[: data.rfind(b"\n", 0, EDGE) + 1]
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    return [(_decoded(line, 0, len(line), 0), _number(chunk, count + index)) for index, line in enumerate(lines)]


def _number(chunk: Chunk, count: int) -> int:
    if chunk.lines:
        return chunk.lines[min(max(count, 0), len(chunk.lines) - 1)]
    return chunk.first_line + count


def _decoded(data: bytes, start: int, end: int, at: int) -> str:
    if end - start > LINE:
        start = min(max(start, at - LINE // 2), end - LINE) if at > start else start
        end = start + LINE
    return data[start:end].decode("utf-8", "replace")


def edge(chunk: Chunk) -> Chunk:
    """The end of a chunk that a window of the next one may need, so that the rest can be forgotten."""
    if len(chunk.data) <= EDGE:
        return chunk
    start = chunk.data.find(b"\n", len(chunk.data) - EDGE) + 1
    count = chunk.data.count(b"\n", 0, start)
    lines = chunk.lines[count:] if chunk.lines else None
    first = _number(chunk, count)
    return Chunk(file=chunk.file, data=chunk.data[start:], first_line=first, lines=lines, last=chunk.last)


def alone(file: File, text: str, number: int) -> Window:
    """A window of one line."""
    return Window(file=file, lines=(text,), numbers=(number,), hit=0)
