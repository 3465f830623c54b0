"""Groups that only send and receive: who waits for whom, from what each rank issued and what of it is done."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pytest

from tests.analysis.build import facts, incident, named
from tests.analysis.jobs import Op, entry
from triage.analysis import hangs
from triage.model.event import Fact

Way = tuple[str, int, bool]  # send or recv, the peer, done


def dump(rank: int, ranks: int, ways: Sequence[Way], record: int = 0) -> dict[str, Any]:
    """What a rank leaves that issued these transfers in the group of all, since its start."""
    whole = tuple(range(ranks))
    entries = []
    for place, (way, peer, done) in enumerate(ways):
        ends = (rank, peer) if way == "send" else (peer, rank)
        row = entry(Op("pp", ends, place + 1, "send", whole), rank, 0, place, done, 1_790_000_000)
        entries.append(row | {"record_id": record + place})
    count = {"last_enqueued_collective": len(ways), "last_started_collective": -1,
             "last_completed_collective": sum(done for _, _, done in ways)}  # fmt: skip
    config = {"pp": {"name": "pp", "desc": "pipeline", "ranks": str(list(whole))}}
    return {"version": "2.10", "pg_config": config, "pg_status": {"0": count}, "entries": entries}


def told(programs: dict[int, Sequence[Way]], ranks: int | None = None, record: int = 0) -> list[Fact]:
    found: list[Fact] = []
    for rank, ways in programs.items():
        data = pickle.dumps(dump(rank, ranks or len(programs), ways, record), protocol=2)
        found += facts("flight_recorder", data, f"fr_rank{rank}")
    return list(hangs.derive(incident(found)))


def culprits(derived: list[Fact]) -> dict[Any, Any]:
    return {fact.entity["rank"]: fact.value for fact in derived if fact.name == "hang.culprit"}


@pytest.mark.parametrize("way", ["send", "recv"])
def test_two_that_both_begin_with_the_same(way: str) -> None:
    """After a round that went well, each waits for the half that the other has not issued."""
    well = {0: [("send", 1, True), ("recv", 1, True)], 1: [("recv", 0, True), ("send", 0, True)]}
    derived = told({rank: [*well[rank], (way, 1 - rank, False)] for rank in (0, 1)})
    assert culprits(derived) == {0: "order-inversion", 1: "order-inversion"}


def test_issued_behind_the_other_is_no_way_out() -> None:
    derived = told({rank: [("recv", 1 - rank, False), ("send", 1 - rank, False)] for rank in (0, 1)})
    assert set(culprits(derived).values()) == {"order-inversion"}


def test_a_ring_in_which_nobody_receives_first() -> None:
    ring = {rank: [("send", (rank + 1) % 4, False)] for rank in range(4)}
    assert culprits(told(ring)) == dict.fromkeys(range(4), "order-inversion")


def test_a_ring_of_many_names_the_order_and_no_rank() -> None:
    ring = {rank: [("recv", (rank + 1) % 24, False)] for rank in range(24)}
    derived = told(ring)
    assert (culprits(derived), named(derived, "hang.verdict")) == ({}, ["order-inversion"])


def test_the_rank_that_never_sent() -> None:
    """Its peers wait along the pipeline; it has nothing outstanding."""
    line: dict[int, list[Way]] = {0: [("send", 1, True)], 1: [("recv", 0, True), ("recv", 0, False)],
                                  2: [("recv", 1, False)], 3: [("recv", 2, False)]}  # fmt: skip
    derived = told(line)
    assert culprits(derived) == {0: "never-arrived"}
    assert named(derived, "hang.collective")[0].endswith("recv 1<-0")


def test_without_whole_dumps_a_cycle_proves_nothing() -> None:
    """What was issued and done before the oldest record is not known: the peer may have had its half."""
    derived = told({rank: [("recv", 1 - rank, False)] for rank in (0, 1)}, record=500)
    assert culprits(derived) == {}


def test_a_transfer_that_both_are_in_is_no_inversion() -> None:
    derived = told({0: [("send", 1, False)], 1: [("recv", 0, False)]})
    assert culprits(derived) == {}
    assert named(derived, "hang.verdict") == ["transport"]
