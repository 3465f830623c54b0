"""Calls that torch's debug wrapper compared: who differs from most."""

from __future__ import annotations

from tests.analysis.build import incident, signal
from triage.analysis import _compared, hangs
from triage.model.incident import Placed

USUAL = "OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float"
LONGER = "OpType=ALLREDUCE, TensorShape=[9], TensorDtypes=Float"
ENDING = ", TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu))"


def line(rank: int, own: str, other: int, others: str) -> Placed:
    text = (
        f"RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running collective: "
        f"CollectiveFingerPrint(SequenceNumber=3, {own}{ENDING}, but Rank {other} is running collective: "
        f"CollectiveFingerPrint(SequenceNumber=3, {others}{ENDING}.Collectives differ in the following aspects: "
    )
    return signal("collective/mismatch-detected", text, rank)


def test_the_rank_that_differs_from_most_is_the_culprit() -> None:
    lines = [line(0, USUAL, 1, LONGER), line(2, USUAL, 1, LONGER), line(1, LONGER, 0, USUAL)]
    found = _compared.stall(incident([], lines))
    assert found is not None
    assert (found.kind, found.culprits, found.op, found.seq) == ("mismatch", (1,), "allreduce", 3)
    derived = {fact.name: fact for fact in hangs.derive(incident([], lines))}
    assert derived["hang.culprit"].entity == {"rank": 1}
    assert derived["hang.culprit"].where.file == "rank1.log"


def test_two_ranks_do_not_tell_which_is_wrong() -> None:
    assert _compared.stall(incident([], [line(0, USUAL, 1, LONGER)])) is None


def test_without_a_majority_nobody_is_named() -> None:
    lines = [line(0, USUAL, 1, LONGER), line(2, USUAL, 3, LONGER)]
    assert _compared.stall(incident([], lines)) is None
