"""Unions, intersections and differences of spans, beside the same on whole numbers one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.parsers import _spans
from triage.parsers._spans import Merged, left_of, merged, overlap, shared, spans_of, without

PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)).map(lambda pair: (pair[0], pair[0] + pair[1])))


def cells(pairs: Iterable[tuple[float, float]]) -> set[int]:
    """The whole numbers at which something ran."""
    return {at for start, end in pairs for at in range(int(start), int(end))}


def made(pairs: list[tuple[int, int]]) -> Merged:
    return merged([spans_of(pairs[::2]), spans_of(pairs[1::2])])


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Iterator[None]:
    """So that few spans are more than one piece."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_spans, "PIECE", 3)
        yield


@settings(deadline=None)  # the first imports numpy
@given(one=PAIRS, two=PAIRS)
def test_as_sets(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> None:
    first, second = made(one), made(two)
    assert cells(first.pairs()) == cells(one)
    assert cells(overlap(first, second).pairs()) == cells(one) & cells(two)
    assert cells(without(first, second).pairs()) == cells(one) - cells(two)
    assert without(first, second).total() == left_of(first, second) == len(cells(one) - cells(two))
    assert overlap(first, second).total() == shared(first, second) == len(cells(one) & cells(two))


@settings(deadline=None)  # the first imports numpy
@given(one=PAIRS)
def test_a_union_is_sorted_and_nothing_in_it_touches(one: list[tuple[int, int]]) -> None:
    pairs = made(one).pairs()
    assert all(start < end for start, end in pairs)
    assert all(before[1] < after[0] for before, after in pairwise(pairs))
