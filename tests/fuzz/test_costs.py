"""No parser, mark or signature takes more than linear time, whatever stands in the file."""

from __future__ import annotations

import time
from types import ModuleType

import pytest

from tests.fuzz.pumping import pumped
from tests.fuzz.samples import of_parser
from tests.fuzz.surfaces.parsers import run_facts
from triage.matching.lint_regex import slowness
from triage.parsers import parser, parsers

SECONDS = 0.3  # of processor time; what is linear takes less than a tenth of it for these sizes
HEAD = 24 << 10
DOCUMENT = 24 << 10


@pytest.mark.parametrize("source", parsers())
def test_recognition_is_linear(source: str) -> None:
    module = parser(source)
    for data in pumped(of_parser(source), HEAD, 2):
        assert _seconds(module, "recognises", data) < SECONDS, data[:100]


@pytest.mark.parametrize("source", [name for name, module in parsers().items() if hasattr(module, "facts")])
def test_documents_are_linear(source: str) -> None:
    module = parser(source)
    for data in pumped(of_parser(source), DOCUMENT, 2):
        assert _seconds(module, "facts", data) < SECONDS, data[:100]


def _seconds(module: ModuleType, what: str, data: bytes) -> float:
    begin = time.process_time()
    if what == "facts":
        run_facts(module, data)
    else:
        module.recognises(data, data)
    return time.process_time() - begin


@pytest.mark.parametrize("source", [name for name, module in parsers().items() if getattr(module, "MARKS", ())])
def test_marks_are_linear(source: str) -> None:
    lines = tuple(line for sample in of_parser(source) for line in sample.decode("utf-8", "replace").split("\n"))
    for _kind, mark in parser(source).MARKS:
        assert slowness(mark, lines) is None, mark


def test_a_quadratic_one_would_be_noticed() -> None:
    assert "super-linear" in (slowness(r"\d+%\|", ("50%|",)) or "")
