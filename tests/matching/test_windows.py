"""Lines around a hit, with their numbers, across the borders of chunks."""

from __future__ import annotations

import pytest

from tests.matching.building import cut
from triage.matching.windows import LINE, View, edge
from triage.model.bundle import Chunk, File
from triage.model.lines import Counted, Listed

FILE = File(path="a.log", size=0)
TEXT = "".join(f"line {number}\n" for number in range(1, 31))


@pytest.mark.parametrize("size", [1, 20, 50, 1000])
def test_windows_are_the_same_however_the_file_is_cut(size: int) -> None:
    chunks = list(cut(TEXT, FILE, size))
    around = [None, *chunks, None]
    for before, chunk, after in zip(around, chunks, around[2:], strict=False):
        view, start = View(chunk, before and edge(before), after), 0
        for text in chunk.data.decode().splitlines():
            window = view.window(start, 2, 2)
            assert window.lines[window.hit] == text
            assert [f"line {number}" for number in window.numbers] == list(window.lines)
            assert size < 20 or 3 <= len(window.lines) <= 5
            start = view.end(start) + 1


def test_numbers_of_a_file_with_added_line_ends() -> None:
    data = b"a\n10%\n20%\nb\n"
    chunk = Chunk(file=FILE, data=data, lines=Listed([1, 2, 2, 3], data), last=True)
    window = View(chunk).window(6, 2, 1)
    assert (window.lines, tuple(window.numbers), window.hit) == (("a", "10%", "20%", "b"), (1, 2, 2, 3), 2)
    assert View(chunk).lines() == 3


def test_a_long_line_is_cut_around_its_match() -> None:
    data = b"x" * 50_000 + b"card 3 is lost" + b"y" * 50_000
    view = View(Chunk(file=FILE, data=data, lines=Counted(1, data), last=True))
    text = view.window(0, 0, 0, at=50_010).lines[0]
    assert len(text) == LINE
    assert "card 3 is lost" in text


def test_the_edge_of_a_chunk_keeps_its_numbers() -> None:
    data = b"".join(b"%06d\n" % number for number in range(1, 60_001))
    end = edge(Chunk(file=FILE, data=data, lines=Counted(1, data)))
    assert int(end.data[:6]) == end.lines.at(0)
    assert len(end.data) < len(data)


def test_a_text_that_stands_on_disk_in_one_piece() -> None:
    data = b"ERROR: card 3 is lost\nplain\n"
    view = View(Chunk(file=FILE, data=data, lines=Counted(1, data), last=True, seams=[5, 12]))
    assert view.standing(0, "ERROR: card 3 is lost") == "3 is lost"
    assert view.standing(22, "plain") == "plain"
    view = View(Chunk(file=FILE, data=data, lines=Counted(1, data)))
    assert view.standing(0, "ERROR: card 3 is lost") == "ERROR: card 3 is lost"
