"""Cutting the lines around a hit out of a chunk and, where it ends too early, out of its neighbours."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from triage.model.bundle import Chunk, File, Window
from triage.model.lines import Place

LINE = 8_192  # bytes of a line that are looked at; a longer one is cut around the hit
_SEAMS = 1_000  # seams of one line that are looked at
_DENSE = 64  # wide windows of one chunk after which all its lines are decoded: windows of a storm overlap
_SMALL = 262_144  # bytes of a chunk all of whose lines are decoded at once
_WIDE = 20  # lines around the hit
EDGE = 262_144  # bytes of the neighbouring chunks that a window may reach into

_Cut = tuple[list[str], Sequence[int], int]  # lines, their numbers, and which of them is the hit


class View:
    """A chunk with the end of the one before and the start of the one after.

    Lines are told by the offset of their first byte in the chunk's data; numbers are those of the file on disk.
    """

    def __init__(self, chunk: Chunk, before: Chunk | None = None, after: Chunk | None = None) -> None:
        self.chunk, self.file = chunk, chunk.file
        self._data = chunk.data
        self._before, self._after = before, after
        self._read: dict[int, str] = {}
        self._place = Place(chunk.data)
        self._wide = 0  # wide windows so far
        self._every: list[str] = []  # all lines, once windows are many
        self._numbers: Sequence[int] = ()  # and theirs

    def window(self, start: int, before: int, after: int, at: int = 0) -> Window:
        """The line that starts at an offset with up to so many lines around it.

        at: offset of a byte of the match, around which a line of more than LINE bytes is cut.
        """
        self._wide += before + after >= _WIDE
        dense = len(self._data) <= _SMALL or self._wide > _DENSE
        texts, numbers, hit = (self._of_all if dense else self._of_some)(start, before, after)
        texts[hit : hit + 1] = [self.text(start, at)]
        above, below = _last(self._before, before - hit), _first(self._after, after - (len(texts) - hit - 1))
        if above or below:
            texts = [*(text for text, _ in above), *texts, *(text for text, _ in below)]
            numbers = [*(number for _, number in above), *numbers, *(number for _, number in below)]
        return Window(file=self.file, lines=tuple(texts), numbers=numbers, hit=len(above) + hit)

    def _of_all(self, start: int, before: int, after: int) -> _Cut:
        """The lines around one cut out of all lines of the chunk."""
        if not self._every:
            self._every = _texts(self._data.removesuffix(b"\n"))
            self._numbers = self.chunk.lines.every()
        hit = self._place.feeds(start)
        first, stop = max(hit - before, 0), hit + after + 1
        return self._every[first:stop], self._numbers[first:stop], hit - first

    def _of_some(self, start: int, before: int, after: int) -> _Cut:
        """The same where the others are of no use."""
        first, hit = start, 0
        while hit < before and first > 0:
            first, hit = self._data.rfind(b"\n", 0, first - 1) + 1, hit + 1
        stop = self.end(start)
        while after > 0 and stop + 1 < len(self._data):
            stop, after = self.end(stop + 1), after - 1
        return _texts(self._data[first:stop]), self.chunk.lines.between(first, stop), hit

    def text(self, start: int, at: int = 0) -> str:
        """The line that starts at an offset."""
        found = self._read.get(start)
        if found is None:
            found = self._read[start] = _decoded(self._data, start, self.end(start), at)
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
        return self.chunk.lines.at(start)

    def lines(self) -> int:
        """Number in the file of the chunk's last line; one that is empty because the file ends there does not count."""
        return self.number(self._data.rfind(b"\n", 0, max(len(self._data) - 1, 0)) + 1)


def _first(chunk: Chunk | None, wanted: int) -> list[tuple[str, int]]:
    """The first lines that are whole within EDGE bytes of a chunk."""
    out: list[tuple[str, int]] = []
    start, room = 0, min(len(chunk.data), EDGE) if chunk else 0
    while chunk and len(out) < wanted and start < room:
        end = chunk.data.find(b"\n", start, room)
        if end < 0 and room < len(chunk.data):
            break
        end = room if end < 0 else end
        out.append((_decoded(chunk.data, start, end, 0), chunk.lines.at(start)))
        start = end + 1
    return out


def _last(chunk: Chunk | None, wanted: int) -> list[tuple[str, int]]:
    """The last lines that are whole within EDGE bytes of a chunk, in order."""
    out: list[tuple[str, int]] = []
    if chunk is None or not wanted:
        return out
    end, room = len(chunk.data.removesuffix(b"\n")), max(len(chunk.data) - EDGE, 0)
    while len(out) < wanted and end > room:
        start = chunk.data.rfind(b"\n", room, end) + 1
        if not start and room:
            break
        out.append((_decoded(chunk.data, start, end, 0), chunk.lines.at(start)))
        end = start - 1
    return out[::-1]


def _decoded(data: bytes, start: int, end: int, at: int) -> str:
    if end - start > LINE:
        start = min(max(start, at - LINE // 2), end - LINE) if at > start else start
        end = start + LINE
    return data[start:end].decode("utf-8", "replace")


def _texts(data: bytes) -> list[str]:
    """Lines as text, each up to LINE bytes."""
    texts = data.decode("utf-8", "replace").split("\n")
    if len(data) > LINE // 4 and max(map(len, texts)) > LINE // 4:  # characters of four bytes at most
        return [line[:LINE].decode("utf-8", "replace") for line in data.split(b"\n")]
    return texts


def edge(chunk: Chunk) -> Chunk:
    """The end of a chunk that a window of the next one may need, so that the rest can be forgotten."""
    if len(chunk.data) <= EDGE:
        return chunk
    start = chunk.data.find(b"\n", len(chunk.data) - EDGE) + 1
    return Chunk(file=chunk.file, data=chunk.data[start:], lines=chunk.lines.since(start), last=chunk.last)


def alone(file: File, text: str, number: int) -> Window:
    """A window of one line."""
    return Window(file=file, lines=(text,), numbers=(number,), hit=0)
