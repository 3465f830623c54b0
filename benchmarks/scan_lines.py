"""How many lines of a log any signature matches: the matching engine alone, as a whole process.

    python -m benchmarks.scan_lines LOG [THREADS]

Opens, normalises, scans and confirms each hit on its line with the signature's own regex, as `triage explain` does, and
prints the number of lines on disk: what `rg -c` prints of the same regexes. Nothing is sampled, but a chunk keeps at
most 8,000 lines of one signature.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain

from triage.bundle.opening import open_evidence
from triage.matching.extract import compiled
from triage.matching.loading import catalogue
from triage.matching.scanner import Ends, Scanner
from triage.matching.windows import View
from triage.model.bundle import Chunk


def count(path: str, threads: int) -> int:
    """Lines on disk that some signature matches."""
    scanner = Scanner([each for each in catalogue().values() if each.match])
    total = 0
    waiting: deque[tuple[Chunk, Future[Ends] | None]] = deque()
    with open_evidence([path]) as evidence, ThreadPoolExecutor(threads) as pool:
        for chunk in chain.from_iterable(evidence.chunks(file) for file in evidence.files):
            waiting.append((chunk, pool.submit(scanner.probe, chunk.data) if threads > 1 else None))
            if len(waiting) >= threads:
                total += _lines(scanner, *waiting.popleft())
        total += sum(_lines(scanner, *each) for each in waiting)
    return total


def _lines(scanner: Scanner, chunk: Chunk, probing: Future[Ends] | None) -> int:
    return len(set(confirmed(scanner, chunk, probing.result() if probing else None)))


def confirmed(scanner: Scanner, chunk: Chunk, ends: Ends | None) -> Iterator[int]:
    """Numbers of the lines of a chunk; a line that is confirmed already is not asked again."""
    view, done = View(chunk), -1
    for hit in scanner.scan(chunk.data, ends).hits:
        if hit.start == done:
            continue
        line = view.text(hit.start, hit.at)
        if any(compiled(pattern.regex).search(line) for pattern in scanner.signatures[hit.number].match):
            done = hit.start
            yield view.number(hit.start)


if __name__ == "__main__":
    print(count(sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 1))
