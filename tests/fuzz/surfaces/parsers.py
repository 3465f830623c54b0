"""Each parser: is the file of its source, its document, its lines, its marks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from types import ModuleType

import msgspec
import regex

from tests.fuzz.samples import of_parser
from tests.fuzz.surfaces.pickles import unpickled, unpickled_rows
from tests.fuzz.targets import Target
from triage.bundle.gathering import SAMPLE
from triage.bundle.normalise import normalise
from triage.matching.extract import compiled
from triage.matching.windows import LINE
from triage.model.bundle import Document, File, Window
from triage.model.event import Event
from triage.parsers import parsers

FACTS = 200_000  # facts of one document
_HITS = 2  # lines of an input that are read as if a signature stood there


def targets() -> Iterator[Target]:
    """One for each file of triage/parsers."""
    for source, module in parsers().items():
        yield Target(source, of_parser(source), partial(_run, module))


def _run(module: ModuleType, data: bytes) -> None:
    score = module.recognises(data[:SAMPLE], data[-SAMPLE:])
    assert score in (0, 1, 2), score
    if hasattr(module, "facts"):
        run_facts(module, data)
    if hasattr(module, "parse") or getattr(module, "MARKS", ()):
        _lines(module, data)


def run_facts(module: ModuleType, data: bytes) -> None:
    """Read a document. ValueError is how a parser says that it is none; everything else is a fault."""
    file = File(path="job/rank_3.log", size=len(data))
    document = Document(file=file, data=data, unpickle=unpickled, unpickle_rows=unpickled_rows)
    try:
        told = list(module.facts(document))
    except ValueError as error:
        assert not isinstance(error, UnicodeError), "a bare UnicodeError is no reason that a user understands"
        return
    assert len(told) < FACTS, len(told)
    assert not [fact for fact in told if isinstance(fact.value, float) and not math.isfinite(fact.value)]
    msgspec.json.encode(told)  # a lone surrogate, for one, cannot be written to a report


def _lines(module: ModuleType, data: bytes) -> None:
    lines = normalise(data, 1).data.decode("utf-8", "replace").split("\n")
    before, after = getattr(module, "BEFORE", 0), getattr(module, "AFTER", 0)
    step = max(1, len(lines) // _HITS)
    for at in range(len(data) % step, len(lines), step):
        first = max(0, at - before)
        near = tuple(line[:LINE] for line in lines[first : at + after + 1])
        numbers = tuple(range(first + 1, first + 1 + len(near)))
        window = Window(file=File(path="a.log", size=len(data)), lines=near, numbers=numbers, hit=at - first)
        if hasattr(module, "parse"):
            _event(module.parse(window), window)
        for _kind, mark in getattr(module, "MARKS", ()):
            _marked(compiled(mark), near[at - first])


def _event(event: Event, window: Window) -> None:
    assert event.where.line is not None
    assert window.numbers[0] <= event.where.line <= window.numbers[-1], "the line that is cited is not in the window"
    msgspec.json.encode(event)


def _marked(mark: regex.Pattern[str], line: str) -> None:
    mark.search(line, timeout=1)
