"""Of many files each gives few marks; what is left out is in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from triage.matching.loading import catalogue
from triage.matching.matcher import _here_and_there, match
from triage.model.bundle import Chunk, File
from triage.model.lines import Counted
from triage.parsers import parser, parsers

STEPS = 4000
LOG = "".join(
    f"iteration {step}/ 9000 | elapsed time per iteration (ms): 450.0 | lm loss: 2.1E+00\n" for step in range(STEPS)
)
FILE = File(path="rank_3.log", size=len(LOG), sources=("training_log",))


def chunks(file: File) -> Iterator[Chunk]:
    yield Chunk(file=file, data=LOG.encode(), lines=Counted(1, LOG.encode()), last=True)


def steps(limit: int) -> dict[object, int | None]:
    """Steps that were kept, with the numbers of their lines."""
    found = match([FILE], chunks, catalogue(), parser, parsers(), limit=limit)
    return {mark.fields["step"]: mark.event.where.line for mark in found.marks if mark.kind == "step"}


def test_the_first_and_the_last_step_are_among_few() -> None:
    kept = steps(16)
    assert {0, STEPS - 1} <= kept.keys()
    assert 8 <= len(kept) <= 20
    assert all(line == step + 1 for step, line in kept.items())
    numbers = sorted(kept)
    assert max(after - before for before, after in pairwise(numbers)) < STEPS // 3


def test_one_file_of_few_is_read_whole() -> None:
    assert len(steps(STEPS)) == STEPS


@given(lines=st.lists(st.integers(0, 400), min_size=1, max_size=300), count=st.integers(1, 40))
def test_groups_are_whole_lines_in_order_with_both_ends(lines: list[int], count: int) -> None:
    data = b"".join(b"x" * length + b"\n" for length in lines)
    groups = list(_here_and_there(data, count))
    edges = [edge for group in groups for edge in group]
    assert edges == sorted(edges)
    assert (edges[0], edges[-1]) == (0, len(data))
    assert all(edge == 0 or data[edge - 1 : edge] == b"\n" for edge in edges)
