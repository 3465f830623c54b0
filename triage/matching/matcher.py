"""The evidence against the whole catalogue: signals, marks, gaps and a summary of each text file.

A pure function of its arguments: the order of files, the number of cores and the clock change nothing.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from triage.errors import TriageError
from triage.matching import sampling, summaries
from triage.matching.engines import sound
from triage.matching.fact_signals import match_facts
from triage.matching.merging import Merger
from triage.matching.readings import Parser, Reader, Reading
from triage.matching.scanner import STRIDE, Ends, Hit, Marker, Scanner
from triage.matching.windows import View, edge
from triage.model.base import Record
from triage.model.bundle import Chunk, File, Gap
from triage.model.event import Mark, Signal, Stamp
from triage.model.signature import Signature
from triage.model.summary import Summary

__all__ = ["Matched", "cores", "markers", "match", "match_facts"]

SMALL = 8 << 20  # bytes of a file whose step lines are all looked at
WORTH = 8  # lines looked at for each mark that a file may give
_LINE = 100  # bytes of a usual line
_GROUP = 16  # lines among which there is a step
FAR = 64 << 20  # bytes of a file after which its chunks are sampled more thinly, but for the last
FULL = 4_000  # lines of one signature read in a file before only the ends of each further chunk are
MILD = 600  # the same for context and warnings: nobody is named by how many ranks print these
EVERY, SPARE = 8_000, 10  # lines of all signatures read in a file in full; when that is spent so many of each
ENDS = 2  # lines read of a signature beyond that at either end of a further chunk
_INLINE = 65_536  # bytes of a chunk that is scanned faster than another thread is woken
_WIDEST = 16  # chunks in memory at once, of 5 MiB at most
_MANY = 64  # small chunks that wait to be read at most

Chunks = Callable[[File], Iterator[Chunk]]


class Matched(Record, frozen=True, kw_only=True):
    """What was found in the text files, sorted by file and line."""

    signals: tuple[Signal, ...]
    marks: tuple[Mark, ...]
    gaps: tuple[Gap, ...]
    summaries: tuple[Summary, ...]


def cores() -> int:
    """Threads to scan with: TRIAGE_CORES, else the processors that this process may use (a job step has its share)."""
    wanted = os.environ.get("TRIAGE_CORES", "")
    if wanted.isdigit():
        return max(1, int(wanted))
    affinity = getattr(os, "sched_getaffinity", None)
    return (len(affinity(0)) if affinity else os.cpu_count()) or 1


def markers(parser: Parser, sources: Iterable[str]) -> list[Marker]:
    """The marks of all parsers, in the order in which each lists them."""
    listed = ((source, getattr(parser(source), "MARKS", ())) for source in sorted(sources))
    return [Marker(source, kind, regex) for source, marks in listed for kind, regex in marks]


def match(
    files: Iterable[File],
    chunks: Chunks,
    catalogue: dict[str, Signature],
    parser: Parser,
    sources: Iterable[str],
    threads: int | None = None,
    scanner: Scanner | None = None,
    limit: int | None = None,
) -> Matched:
    """Scan text files for all signatures and marks.

    chunks: gives the chunks of a file, in order. parser: gives the module of a source.
    sources: those whose marks count. threads: `cores()` when None.
    scanner: one made before from the same catalogue and sources.
    limit: marks of one file; by the number of files when None.
    Raises ContentError when a regex of the catalogue is refused by the engine.
    """
    scanner = scanner or Scanner([each for each in catalogue.values() if each.match], markers(parser, sources))
    texts = sorted((file for file in files if file.text), key=lambda file: file.path)
    limit = sampling.quota(len(texts)) if limit is None else limit
    done = [_Work(file, scanner, parser, limit) for file in texts]
    _read_all(done, chunks, scanner, threads or cores())
    return Matched(
        signals=tuple(signal for work in done for signal in work.signals()),
        marks=tuple(mark for work in done for mark in work.sampler.marks()),
        gaps=(*_of_engine(scanner), *(gap for work in done for gap in work.gaps())),
        summaries=tuple(work.summary for work in done),
    )


def _of_engine(scanner: Scanner) -> Iterator[Gap]:
    """What a faulty build of the engine may have missed."""
    if scanner.uses_hyperscan and not sound():
        how = "python -m pip install google-re2, or 'hyperscan<0.7.23'"
        yield Gap(what="lines that the installed build of hyperscan skips by mistake", why="unparsable", how=how)


def _read_all(done: list[_Work], chunks: Chunks, scanner: Scanner, threads: int) -> None:
    """Scan some chunks at a time in threads, while the next are made plain, then read their hits in order in this one.

    Never scan and read at once: a hit needs the interpreter, and would wait for it as long as reading keeps it.
    """
    width = min(threads, _WIDEST)
    queue: deque[_Step] = deque()
    waiting = 0  # large chunks of the queue that are not settled
    with ThreadPoolExecutor(width) as pool:
        for step in itertools.chain.from_iterable(work.steps(chunks) for work in done):
            large = len(step.chunk.data) > _INLINE
            if large and width > 1:
                step.probing = pool.submit(scanner.probe, step.chunk.data, step.work.stormy)
            queue.append(step)
            waiting += large
            if waiting >= width or len(queue) > _MANY:
                _settle(queue, scanner)
                waiting = 0
                while len(queue) > 1:  # the last waits for its successor, which lends it lines
                    _take(queue)
        _settle(queue, scanner)
        while queue:
            _take(queue)


class _Step:
    """A chunk to be read, and what the engine said of it.

    stride: bytes between samples of frequent marks, 0 when every line is looked at. far: one of many, none of the ends.
    """

    def __init__(self, work: _Work, chunk: Chunk, offset: int) -> None:
        self.work, self.chunk = work, chunk
        self.far = offset >= FAR and not chunk.last
        inside = offset > 0 and not chunk.last and work.file.size > SMALL
        self.stride = 0 if not inside else FAR if self.far else STRIDE
        self.ends: Ends | None = None
        self.probing: Future[Ends] | None = None


def _settle(queue: deque[_Step], scanner: Scanner) -> None:
    """Wait for what is being scanned, and scan the rest here."""
    for step in queue:
        if step.ends is None:
            step.ends = step.probing.result() if step.probing else scanner.probe(step.chunk.data, step.work.stormy)
            step.probing = None


def _take(queue: deque[_Step]) -> None:
    """Read the hits of the oldest chunk; its successor, when it is of the same file, lends its first lines."""
    step = queue.popleft()
    after = queue[0].chunk if queue and queue[0].work is step.work else None
    step.work.read(step, after)


class _Work:
    """One file: its chunks in order, and what was found so far."""

    def __init__(self, file: File, scanner: Scanner, parser: Parser, limit: int) -> None:
        self.file, self._scanner = file, scanner
        self._reader, self._merger = Reader(file, parser), Merger()
        self.sampler, self._limit = sampling.Sampler(scanner.marks, len(scanner.signatures), limit), limit
        self.summary = summaries.unread(file)
        self._before: Chunk | None = None
        self._first: Stamp | None = None
        self._read: dict[int, int] = {}
        self._marked = Counter[int]()
        self.stormy = False  # the chunk that was read last
        self._spent, self._ending = 0, False
        self._left: dict[int, int] = {}
        self._gaps: list[Gap] = []

    def steps(self, chunks: Chunks) -> Iterator[_Step]:
        """The chunks of the file. What it cannot give becomes a gap."""
        offset = 0
        try:
            for chunk in chunks(self.file):
                yield _Step(self, chunk, offset)
                offset += len(chunk.data)
        except (OSError, EOFError, ValueError, TriageError) as error:
            what = f"the rest of the file after {offset} bytes: {error}" if offset else f"the file: {error}"
            self._gaps.append(Gap(what=what, why="unparsable", node=self.file.node, file=self.file.path))

    def read(self, step: _Step, after: Chunk | None) -> None:
        """Read the hits of one chunk."""
        chunk = step.chunk
        self._ending = chunk.last
        found = self._scanner.scan(chunk.data, step.ends, self._room, self._dull, self.stormy)
        self.stormy = found.stormy
        often = self._often(chunk.data, step.stride)
        view = View(chunk, self._before, after)
        hits, marks = self._split(found.hits)
        self._marked.update(hit.number for hit in marks)
        readings = [reading for hit in self._within_budget(hits, step.far) if (reading := self._reading(view, hit))]
        self._merger.add(readings, view.lines())
        self.sampler.add(view, chunk.data, sorted([*marks, *often]), self._reader, step.far)
        for index, count in found.more.items():
            self._left[index] = self._left.get(index, 0) + count
        if self._before is None:
            self._first = summaries.of_first(view, self._reader)
        self._reader.forget()
        if after is None:
            self.summary = summaries.of_last(view, self._reader, self._first)
        self._before = edge(chunk)

    def _often(self, data: bytes, stride: int) -> list[Hit]:
        """Hits of frequent marks. Of many files each gives few: not all lines of each are looked at to choose them."""
        if stride or len(data) < WORTH * self._limit * _LINE:
            return self._scanner.scan_often(data, stride).hits
        found: list[Hit] = []
        for first, last in _here_and_there(data, self._limit):
            piece = data[first:last]
            hits = self._scanner.first_often(piece)
            if last == len(data):  # who came how far
                hits += sampling.lasts(piece, self._scanner.scan_often(piece).hits)
            found += (Hit(hit.start + first, hit.end + first, hit.number, hit.at + first) for hit in hits)
        return found

    def _split(self, hits: list[Hit]) -> tuple[list[Hit], list[Hit]]:
        first = len(self._scanner.signatures)
        return [hit for hit in hits if hit.number < first], [hit for hit in hits if hit.number >= first]

    def _within_budget(self, hits: list[Hit], far: bool) -> list[Hit]:
        """All hits of a signature until its share of the file was read, then the ends of each chunk alone.

        Of a mild one in a chunk far from the ends of the file the first is enough; where the file's own share is spent,
        too, nothing more of it but at the end of the file.
        """
        by_index: dict[int, list[Hit]] = {}
        for hit in hits:
            by_index.setdefault(hit.number, []).append(hit)
        kept: list[Hit] = []
        for index, some in by_index.items():
            room = self._room(index)
            if room == 0 or (far and room == ENDS and self._mild(index)):
                chosen = some[: min(room, 1)]
            else:
                chosen = some if len(some) <= room + ENDS else some[:room] + some[-ENDS:]
            self._read[index] = self._read.get(index, 0) + len(chosen)
            self._spent += len(chosen)
            self._left[index] = self._left.get(index, 0) + len(some) - len(chosen)
            kept += chosen
        return sorted(kept)

    def _room(self, index: int) -> int:
        """Lines of a signature that may still be read, ENDS when its share is spent; of a mark what a file may give."""
        if index >= len(self._scanner.signatures):
            return sampling.FILE
        most, read = MILD if self._mild(index) else FULL, self._read.get(index, 0)
        if self._spent > EVERY:
            return ENDS if self._ending else max(SPARE - read, 0)
        return max(most - read, 0) + ENDS

    def _dull(self) -> frozenset[int]:
        """Numbers of which the file gave its share: until its end no more is read of them than the ends of chunks."""
        if self._ending:
            return frozenset()
        marks = (number for number, count in self._marked.items() if count >= sampling.FILE)
        return frozenset([*(index for index in self._read if self._room(index) <= ENDS), *marks])

    def _mild(self, index: int) -> bool:
        signature = self._scanner.signatures[index]
        return signature.role == "context" or signature.severity in {"info", "warning"}

    def _reading(self, view: View, hit: Hit) -> Reading | None:
        signature = self._scanner.signatures[hit.number]
        return self._reader.read(view, hit, signature) if self._reader.accepts(signature) else None

    def signals(self) -> list[Signal]:
        """All signals of the file by line."""
        return sorted(self._merger.signals(), key=lambda signal: (signal.event.where.line or 0, signal.signature.id))

    def gaps(self) -> list[Gap]:
        """What could not be read, and which lines were too many to read them all."""
        out = [*self._gaps, *self._reader.gaps.values()]
        for index, count in sorted(self._left.items()):
            if count > 0 and index < len(self._scanner.signatures):
                what = f"{count} or more further lines that look like {self._scanner.signatures[index].id}"
                out.append(Gap(what=what, why="truncated", node=self.file.node, file=self.file.path))
        return out


def _here_and_there(data: bytes, count: int) -> Iterator[tuple[int, int]]:
    """So many groups of whole lines, evenly apart; the first and the last group are larger."""
    end = max(_GROUP, min(2 * count, _GROUP * _GROUP))
    last, at = data.rfind(b"\n", 0, max(len(data) - end * _LINE, 0)) + 1, 0
    for start in range(0, last, max(len(data) // count, 1)):
        begin = max(at, data.rfind(b"\n", 0, start) + 1)
        lines = _GROUP if start else end
        at = min(data.find(b"\n", begin + lines * _LINE) + 1 or last, last)
        if begin < at:
            yield begin, at
    yield max(last, at), len(data)
