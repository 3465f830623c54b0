"""The lines around each cited line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from triage.model.bundle import Chunk
from triage.model.report import Report

AROUND = 3  # lines before and after
LONGEST = 400  # characters kept of a line
Contexts = dict[tuple[str, int], tuple[tuple[int, str], ...]]


def cited(report: Report) -> dict[str, set[int]]:
    """Every line that the hypotheses cite, by file."""
    wanted: dict[str, set[int]] = defaultdict(set)
    for each in (each for hypothesis in report.hypotheses for each in hypothesis.evidence):
        if each.line is not None:
            wanted[each.file].add(each.line)
    return wanted


def excerpts(wanted: dict[str, set[int]], chunks: Callable[[str], Iterable[Chunk]], around: int = AROUND) -> Contexts:
    """The lines around the wanted ones; a file is read no further than needed."""
    found: Contexts = {}
    for file, lines in sorted(wanted.items()):
        near = dict(_near(chunks(file), {number for line in lines for number in _around(line, around)}))
        for line in lines:
            context = tuple((number, near[number]) for number in _around(line, around) if number in near)
            if context:
                found[file, line] = context
    return found


def _around(line: int, around: int) -> range:
    return range(max(1, line - around), line + around + 1)


def _near(chunks: Iterable[Chunk], wanted: set[int]) -> Iterator[tuple[int, str]]:
    last = max(wanted, default=0)
    for chunk in chunks:
        if chunk.lines.at(0) > last:
            return
        for raw, number in zip(chunk.data.removesuffix(b"\n").split(b"\n"), chunk.lines.every(), strict=False):
            if number in wanted:
                yield number, raw[: 4 * LONGEST].decode("utf-8", "replace")[:LONGEST]
