"""Which signatures (and marks) match on which lines of a chunk: one pass for all of them.

The scanner only says "this line may be that signature"; extraction on the line alone decides. Its answer depends on
the chunk alone, never on time, threads or the engine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from triage.matching.engines import Engine, Expression, Hyperscan, best
from triage.model.signature import Signature

KEPT = 4_000  # lines kept of one signature at either end of a chunk: a line of each of 4,000 ranks fits
_SIEVE = 16_384  # bytes of a block in a storm; some hundred lines
STRIDE = 1 << 20  # bytes of a large chunk from one sample of frequent marks to the next
_SAMPLE = 8_192  # bytes of such a sample
_OFTEN = frozenset({"step", "stamp"})  # marks on every other line: scanned by samples, never all of them


Maker = Callable[[Sequence[Expression]], Engine]
Room = Callable[[int], int]


class Marker(NamedTuple):
    """A line worth sampling: the source whose parser reads it, the kind of mark, the regex with its named groups."""

    source: str
    kind: str
    regex: str


class Hit(NamedTuple):
    """A line (offsets in the chunk, end without the line feed) and the number of what matched there.

    number: below the number of signatures the signature, else that many plus the number of the marker.
    at: a byte of the match on the line, so that a very long line can be cut around it.
    """

    start: int
    end: int
    number: int
    at: int


class Ends(NamedTuple):
    """What an engine reports of one chunk; None when that is a storm."""

    found: list[tuple[int, int]] | None


class Found(NamedTuple):
    """Hits of one chunk, sorted, and per number how many more lines there are at least."""

    hits: list[Hit]
    more: dict[int, int]


class Scanner:
    """All signatures and markers, compiled at the first scan. Safe to use from many threads at once.

    signatures, marks: their positions are the `number` of a Hit.
    engine: makes an Engine from expressions; hyperscan, else RE2, when absent.
    Scanning raises ContentError when a regex is refused by the engine.
    """

    def __init__(
        self,
        signatures: Sequence[Signature],
        marks: Sequence[Marker] = (),
        engine: Maker = best,
    ) -> None:
        self.signatures, self.marks = tuple(signatures), tuple(marks)
        rare, often = _split(self.signatures, self.marks)
        self._rare, self._often = _Part(rare, engine), _Part(often, engine)

    @property
    def uses_hyperscan(self) -> bool:
        """Not the fallback."""
        return isinstance(self._rare.engine, Hyperscan)

    def probe(self, data: bytes) -> Ends:
        """The part of `scan` that needs no interpreter: the one to run in threads."""
        return self._rare.probe(data)

    def scan(self, data: bytes, ends: Ends | None = None, room: Room = lambda number: KEPT) -> Found:
        """Signatures and rare marks in a chunk of whole lines.

        ends: what `probe` said of it, if it was asked. room: in a storm, so many lines of a number are kept at either
        end of the chunk; looking at more of them than anybody will read is what makes storms slow.
        """
        return self._rare.scan(data, ends or self.probe(data), room)

    def scan_often(self, data: bytes, stride: int = 0) -> Found:
        """Frequent marks (steps): every line, or those of samples so many bytes apart."""
        return self._often.sample(data, stride) if stride else self._often.every(data)

    def first_often(self, data: bytes) -> list[Hit]:
        """The first line of each frequent mark in a few lines."""
        return self._often.first(data)


def _split(
    signatures: Sequence[Signature], marks: Sequence[Marker]
) -> tuple[list[tuple[Expression, int]], list[tuple[Expression, int]]]:
    rare = [
        (Expression(pattern.regex, pattern.prefilter is not None), number)
        for number, signature in enumerate(signatures)
        for pattern in signature.match
    ]
    often: list[tuple[Expression, int]] = []
    for number, marker in enumerate(marks, len(signatures)):
        (often if marker.kind in _OFTEN else rare).append((Expression(marker.regex), number))
    return rare, often


class _Part:
    """One engine and what each of its expressions stands for."""

    def __init__(self, expressions: list[tuple[Expression, int]], engine: Maker) -> None:
        self.engine = engine([expression for expression, _ in expressions])
        self._index = [index for _, index in expressions]

    def probe(self, data: bytes) -> Ends:
        return Ends(self.engine.ends(data))

    def scan(self, data: bytes, ends: Ends, room: Room) -> Found:
        return self._storm(data, room) if ends.found is None else _capped(set(self._lines(data, ends.found)))

    def every(self, data: bytes) -> Found:
        """All hits, without a cap: for parts of a file that are small by themselves."""
        ends = self.engine.ends(data)
        if ends is not None:
            return Found(sorted(self._lines(data, ends)), {})
        blocks = (block for block in _blocks(data) if self.engine.which(data[block[0] : block[1]]))
        return Found([hit for block in blocks for hit in self._line_hits(data, *block)], {})

    def first(self, data: bytes) -> list[Hit]:
        """The first line of each index."""
        return list(_first_lines(self._lines(data, self.engine.firsts(data))))

    def sample(self, data: bytes, stride: int) -> Found:
        hits: set[Hit] = set()
        for start in range(0, len(data), stride):
            first = data.rfind(b"\n", 0, start) + 1
            last = data.find(b"\n", min(first + _SAMPLE, len(data)))
            last = len(data) if last < 0 else last
            if self.engine.which(data[first:last]):
                hits.update(_first_lines(self._line_hits(data, first, last)))
        return _capped(hits)

    def _lines(self, data: bytes, ends: list[tuple[int, int]]) -> Iterator[Hit]:
        start = end = -1
        seen: set[int] = set()
        for at, number in sorted(ends):
            if at > end:
                start, end = _line(data, at)
                seen = set()
            index = self._index[number]
            if index not in seen:
                seen.add(index)
                yield Hit(start, end, index, at)

    def _storm(self, data: bytes, room: Room) -> Found:
        """Ask block by block what matches, then look at lines only in the blocks whose lines are kept."""
        blocks = list(_blocks(data))
        inside: dict[int, list[int]] = defaultdict(list)
        for number, (start, stop) in enumerate(blocks):
            for index in {self._index[each] for each in self.engine.which(data[start:stop])}:
                inside[index].append(number)
        wanted: set[Hit] = set()
        more: dict[int, int] = {}
        lines: dict[int, list[Hit]] = {}
        for index, numbers in sorted(inside.items()):
            kept, left = self._ends_of(data, index, numbers, blocks, lines, min(room(index), KEPT))
            wanted.update(kept)
            if left:
                more[index] = left
        return Found(sorted(wanted), more)

    def _ends_of(
        self,
        data: bytes,
        index: int,
        numbers: list[int],
        blocks: list[tuple[int, int]],
        lines: dict[int, list[Hit]],
        most: int,
    ) -> tuple[list[Hit], int]:
        def take(order: Sequence[int]) -> tuple[list[Hit], int]:
            taken: list[Hit] = []
            for count, number in enumerate(order):
                if len(taken) >= most:
                    return taken, count
                if number not in lines:
                    lines[number] = list(self._line_hits(data, *blocks[number]))
                taken += [hit for hit in lines[number] if hit.number == index]
            return taken, len(order)

        first, used = take(numbers)
        last, more_used = take(numbers[used:][::-1])
        head, tail = sorted(first), sorted(last)
        kept = head[:most] + (head[most:] + tail)[-most:]
        return kept, len(head) + len(tail) - len(kept) + len(numbers) - used - more_used

    def _line_hits(self, data: bytes, start: int, stop: int) -> Iterator[Hit]:
        """Hits of whole lines of the chunk; one by one, and so at most one report for each, where these are a storm."""
        part = data[start:stop]
        ends = self.engine.ends(part)
        if ends is not None:
            for hit in self._lines(part, ends):
                yield Hit(hit.start + start, hit.end + start, hit.number, hit.at + start)
            return
        while start < stop:
            end = data.find(b"\n", start, stop)
            end = stop if end < 0 else end
            for index in sorted({self._index[each] for each in self.engine.which(data[start:end])}):
                yield Hit(start, end, index, start)
            start = end + 1


def _line(data: bytes, at: int) -> tuple[int, int]:
    """Start and end of the line that holds a byte; a line feed belongs to the line that it ends."""
    end = data.find(b"\n", at)
    return data.rfind(b"\n", 0, at) + 1, len(data) if end < 0 else end


def _blocks(data: bytes) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(data):
        stop = data.find(b"\n", min(start + _SIEVE, len(data))) + 1 or len(data)
        yield start, stop
        start = stop


def _first_lines(hits: Iterator[Hit]) -> Iterator[Hit]:
    """The first hit of each index: a sample needs no more."""
    seen: set[int] = set()
    for hit in hits:
        if hit.number not in seen:
            seen.add(hit.number)
            yield hit


def _capped(hits: set[Hit]) -> Found:
    """The first and the last KEPT lines of each index."""
    by_index: dict[int, list[Hit]] = defaultdict(list)
    for hit in sorted(hits):
        by_index[hit.number].append(hit)
    more = {index: len(some) - 2 * KEPT for index, some in by_index.items() if len(some) > 2 * KEPT}
    kept = [hit for index, some in by_index.items() for hit in (some[:KEPT] + some[-KEPT:] if index in more else some)]
    return Found(sorted(kept), more)
