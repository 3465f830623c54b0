"""Which signatures (and marks) match on which lines of a chunk: one pass for all of them.

The scanner only says "this line may be that signature"; extraction on the line alone decides. Its answer depends on
the chunk alone, never on time, threads or the engine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from triage.matching.engines import STORM, Engine, Expression, Hyperscan, best
from triage.model.signature import Signature

KEPT = 4_000  # lines kept of one signature at either end of a chunk: a line of each of 4,000 ranks fits
_SIEVE = 16_384  # bytes of a block in a storm; some hundred lines
_ENDS = 16_384  # bytes at either end of a chunk that are scanned for everything, even if nothing more of it is read
_FEW = 1_000  # dull lines of a chunk that an engine may find before another is worth a second
_AGAIN = 2 << 20  # bytes of such chunks before the first engine; then twice as many, and so on
STRIDE = 1 << 20  # bytes of a large chunk from one sample of frequent marks to the next
_SAMPLE = 8_192  # bytes of such a sample
OFTEN = frozenset({"step", "stamp"})  # marks on every other line: scanned by samples, never all of them


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
    """What an engine reports of one chunk; None when that is a storm, or was not asked.

    part, inner: in a storm, an engine without what is dull, if there is one, and what it reports between the ends.
    """

    asked: bool
    found: list[tuple[int, int]] | None
    part: _Part | None = None
    inner: list[tuple[int, int]] | None = None


class Found(NamedTuple):
    """Hits of one chunk, sorted, per number how many more lines there are at least, and whether that was a storm."""

    hits: list[Hit]
    more: dict[int, int]
    stormy: bool = False


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
        self._rare, self._often = (
            _Part(engine([expression for expression, _ in some]), [number for _, number in some])
            for some in (rare, often)
        )
        self._rest: tuple[frozenset[int], _Part] = frozenset(), self._rare
        self._stormed, self._again = 0, _AGAIN

    @property
    def uses_hyperscan(self) -> bool:
        """Not the fallback."""
        return isinstance(self._rare.engine, Hyperscan)

    def probe(self, data: bytes, stormy: bool = False) -> Ends:
        """The part of `scan` that needs no interpreter: the one to run in threads. stormy: a storm is expected."""
        left_out, part = self._rest
        asked = not (stormy and left_out)
        found = self._rare.engine.ends(data) if asked else None
        if found is not None or not left_out:
            return Ends(asked, found)
        first, last = _inside(data)
        return Ends(asked, None, part, part.engine.ends(data[first:last]))

    def scan(
        self,
        data: bytes,
        ends: Ends | None = None,
        room: Room = lambda number: KEPT,
        dull: Callable[[], frozenset[int]] = frozenset,
        stormy: bool = False,
    ) -> Found:
        """Signatures and rare marks in a chunk of whole lines.

        ends: what `probe` said of it, if it was asked. room: in a storm, so many lines of a number are kept at either
        end of the chunk; looking at more of them than anybody will read is what makes storms slow. dull: numbers that
        are not looked for in a storm but near the ends of the chunk; asked in a storm only. stormy: the chunk before
        was a storm, and so this one counts as its continuation.
        """
        ends = ends or self.probe(data, stormy)
        left_out = dull() if stormy else frozenset()
        if not left_out:
            found = ends.found if ends.asked else self._rare.engine.ends(data)
            left_out = dull() if found is None else left_out
        return self._thinned(data, ends, room, left_out) if left_out else self._rare.read(data, found, room)

    def _thinned(self, data: bytes, ends: Ends, room: Room, dull: frozenset[int]) -> Found:
        """A storm of lines that nobody reads any more: between its ends only what is not dull is looked for.

        An engine without what is dull is several times faster, but takes a second to make. So it is made seldom, and
        one that leaves out less, or nothing, gives the same answer.
        """
        (first, last), part = _inside(data), self._without(dull)
        found = ends.inner if part is ends.part else part.engine.ends(data[first:last])
        inner = part.read(data[first:last], found, room)
        if inner.more or sum(hit.number in dull for hit in inner.hits) > _FEW:
            self._stormed += last - first
        head, tail = (
            self._rare.read(piece, self._rare.engine.ends(piece), room) for piece in (data[:first], data[last:])
        )
        stormy = (len(head.hits) + len(tail.hits)) * len(data) > STORM * (first + len(data) - last)
        return _joined([(0, head), (first, _lively(inner, dull, room)), (last, tail)])._replace(stormy=stormy)

    def _without(self, dull: frozenset[int]) -> _Part:
        """A part without dull numbers, as good as there is."""
        left_out, part = self._rest
        if left_out != dull and self._stormed >= self._again:
            self._rest = left_out, part = dull, self._rare.without(dull)
            self._again = 2 * self._stormed
        return part if left_out <= dull else self._rare

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
        (often if marker.kind in OFTEN else rare).append((Expression(marker.regex), number))
    return rare, often


class _Part:
    """One engine and what each of its expressions stands for."""

    def __init__(self, engine: Engine, index: list[int]) -> None:
        self.engine, self._index = engine, index

    def without(self, dull: frozenset[int]) -> _Part:
        """The same for all that is not dull."""
        kept = [at for at, index in enumerate(self._index) if index not in dull]
        return _Part(self.engine.some(kept), [self._index[at] for at in kept])

    def read(self, data: bytes, ends: list[tuple[int, int]] | None, room: Room) -> Found:
        return self.storm(data, room)._replace(stormy=True) if ends is None else self.of(data, ends)

    def of(self, data: bytes, ends: list[tuple[int, int]]) -> Found:
        return _capped(set(self._lines(data, ends)))

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

    def storm(self, data: bytes, room: Room) -> Found:
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


def _inside(data: bytes) -> tuple[int, int]:
    """Offsets between which a chunk is neither start nor end; whole lines."""
    first = data.find(b"\n", min(_ENDS, len(data))) + 1 or len(data)
    return first, max(data.rfind(b"\n", 0, max(len(data) - _ENDS, 0)) + 1, first)


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


def _lively(found: Found, dull: frozenset[int], room: Room) -> Found:
    """Without dull numbers; of others as many lines as there is room for at either end, however they were counted."""
    by_number: dict[int, list[Hit]] = defaultdict(list)
    for hit in found.hits:
        if hit.number not in dull:
            by_number[hit.number].append(hit)
    hits: list[Hit] = []
    more: dict[int, int] = {}
    for number, some in by_number.items():
        most = min(room(number), KEPT)
        kept = some[:most] + some[most:][-most:]
        hits += kept
        if len(kept) < len(some) or number in found.more:
            more[number] = 1
    return Found(sorted(hits), more)


def _joined(parts: list[tuple[int, Found]]) -> Found:
    """What was found in pieces of a chunk, each with its offset."""
    hits = [Hit(hit.start + at, hit.end + at, hit.number, hit.at + at) for at, found in parts for hit in found.hits]
    more: dict[int, int] = defaultdict(int)
    for _, found in parts:
        for number, count in found.more.items():
            more[number] += count
    return Found(hits, dict(more))


def _capped(hits: set[Hit]) -> Found:
    """The first and the last KEPT lines of each index."""
    by_index: dict[int, list[Hit]] = defaultdict(list)
    for hit in sorted(hits):
        by_index[hit.number].append(hit)
    more = {index: len(some) - 2 * KEPT for index, some in by_index.items() if len(some) > 2 * KEPT}
    kept = [hit for index, some in by_index.items() for hit in (some[:KEPT] + some[-KEPT:] if index in more else some)]
    return Found(sorted(kept), more)
