"""Parsers that are not asked because no sign of theirs was found would have said no."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from triage import recognising
from triage.matching.engines import FAST, Hyperscan, Re2
from triage.parsers import parsers, recognise
from triage.recognising import recogniser

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
SAMPLE = 65_536
HEADERS = (b"\xef\xbb\xbfindex, name\n0, NVIDIA H100\n", b"utilization.gpu [%], index\n9 %, 0\n")


def samples(step: int) -> Iterator[tuple[Path, bytes, bytes]]:
    """Head and tail of every `step`-th file, as the opener takes them."""
    for path in sorted(path for path in FIXTURES.rglob("*") if path.is_file())[::step]:
        data = path.read_bytes()
        yield path, data[:SAMPLE], data[-SAMPLE:]


@pytest.mark.parametrize(("engine", "step"), [("Hyperscan", 8), ("Re2", 32)])
def test_the_same_answers(engine: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "Hyperscan" and not FAST:
        pytest.skip("hyperscan is not installed")
    monkeypatch.setattr(recognising, "best", {"Hyperscan": Hyperscan, "Re2": Re2}[engine])
    quick, sources = recogniser(), set()
    for path, head, tail in samples(step):
        found = recognise(head, tail)
        sources |= set(found)
        assert quick(head, tail) == found, path
    assert {"kernel_log", "torch_log"} <= sources


@pytest.mark.parametrize("header", HEADERS)
def test_a_table_without_a_title_has_a_sign(header: bytes) -> None:
    assert recogniser()(header, header) == recognise(header, header) == ("nvidia_smi",)


def test_a_file_without_signs_is_shown_to_few(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, asked = recogniser(), []
    for source, module in parsers().items():
        monkeypatch.setattr(module, "recognises", lambda head, tail, name=source: asked.append(name) or 0)
    quick(b"nothing at all\n" * 9, b"")
    assert asked
    assert not {source for source in asked if hasattr(parsers()[source], "SIGNS")}
