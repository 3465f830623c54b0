"""Numbers of lines, asked for by offset in any order and all at once, are those of counting by hand."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.model.lines import LARGE, Counted, Lines, Listed, feeds

DATA = st.binary(max_size=60).map(lambda data: data.translate(bytes(b"\r\nax"[each % 4] for each in range(256))))


def by_hand(data: bytes, first: int) -> list[tuple[int, int]]:
    """(offset, number) of each line: CR and LF end one, and only LF counts."""
    found, number, start = [], first, 0
    for at, byte in enumerate(data):
        if byte in b"\r\n":
            found.append((start, number))
            number, start = number + (byte == ord("\n")), at + 1
    return [*found, (start, number)] if start < len(data) or not data else found


@given(DATA, st.integers(1, 9), st.randoms(use_true_random=False))
def test_lines_by_offset_and_all_at_once(data: bytes, first: int, chance: Random) -> None:
    wanted = by_hand(data, first)
    numbers = [number for _, number in wanted]
    assert list(Counted(first, data).every()) == numbers
    agree(Counted(first, data), wanted, chance)
    agree(Listed(numbers, data.replace(b"\r", b"\n")), wanted, chance)


def agree(lines: Lines, wanted: list[tuple[int, int]], chance: Random) -> None:
    for offset, number in chance.sample(wanted, len(wanted)):
        assert lines.at(offset) == number
    offset, _ = chance.choice(wanted)
    since = lines.since(offset)
    assert [(start, since.at(start - offset)) for start, _ in wanted if start >= offset] == [
        row for row in wanted if row[0] >= offset
    ]


def test_a_line_behind_the_last_has_the_number_of_the_last() -> None:
    assert Listed([3, 9], b"a\nb\n").at(4) == 9


@pytest.mark.parametrize("size", [LARGE - 1, LARGE, 3 * LARGE + 5])
def test_large_pieces_are_counted_the_same(size: int) -> None:
    data = (b"x" * 61 + b"\n") * (size // 62 + 1)
    for start, stop in ((0, size), (17, size - 1), (size // 2, size // 2 + 10)):
        assert feeds(data, start, stop) == data[start:stop].count(b"\n")


def test_questions_that_jump_to_and_fro() -> None:
    data = b"".join(b"x" * (number % 90) + b"\n" for number in range(2_000))
    chance, lines = Random(3), Counted(1, data)
    for _ in range(200):
        offset = chance.randrange(len(data) + 1)
        assert lines.at(offset) == 1 + data[:offset].count(b"\n")
    assert Counted(1, b"y" * 90_000).at(90_000) == Counted(1, b"").at(0) == 1
