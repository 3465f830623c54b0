"""Culprits of made-up hangs, and of each kind by itself."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.analysis.build import facts, incident, named, signal
from tests.analysis.jobs import Fault, Job, dump, layouts, reached, run
from triage.analysis import hangs
from triage.model.event import Event, Fact, Mark, Where
from triage.model.incident import Rank


def told(dumps: dict[int, dict[str, Any]], as_json: bool = False, **more: Any) -> list[Fact]:
    """What the analysis says of dumps."""
    found = []
    for rank, content in dumps.items():
        data = json.dumps(content).encode() if as_json else pickle.dumps(content, protocol=2)
        found += facts("flight_recorder", data, f"fr_rank{rank}")
    return list(hangs.derive(incident(found, **more)))


def culprits(derived: list[Fact]) -> dict[Any, Any]:
    """Rank -> kind."""
    return {fact.entity["rank"]: fact.value for fact in derived if fact.name == "hang.culprit"}


def dumps_of(job: Job, faults: list[Fault], **more: Any) -> dict[int, dict[str, Any]]:
    states = run(job, faults)
    return {rank: dump(job, states, rank, **more) for rank in job.programs}


@pytest.mark.parametrize(("active_only", "least"), [(False, 0.95), (True, 0.9)])
@pytest.mark.long
def test_planted_faults_are_found_exactly(active_only: bool, least: float) -> None:
    """Without the finished records some dead GPUs cannot be told from a deadlock: then nothing is said."""
    exact = wrong = wanted = 0
    for job, faults in layouts(seed=7, count=60):
        states = run(job, faults)
        if hit := reached(job, states, faults):
            found = set(culprits(told({rank: dump(job, states, rank, active_only) for rank in job.programs})))
            wanted, exact, wrong = wanted + 1, exact + (found == hit), wrong + (not found <= hit)
    assert wanted > 40
    assert exact >= least * wanted, f"{exact} of {wanted}"
    assert wrong == 0


def test_a_finished_job_hangs_nowhere() -> None:
    job = Job(2, 2, 2).write()
    assert told(dumps_of(job, [])) == []


def test_the_stalled_rank_has_nothing_outstanding() -> None:
    derived = told(dumps_of(Job(2, 1, 2).write(), [Fault(3, "host", 6)]))
    assert culprits(derived) == {3: "never-arrived"}
    assert named(derived, "hang.missing_ranks") == [[3]]
    assert named(derived, "hang.frame") == ["/data/run/train.py:41 step"]
    assert all(fact.evidence for fact in derived)


def test_the_dead_gpu_has_work_that_its_peers_finished() -> None:
    assert culprits(told(dumps_of(Job(2, 1, 2).write(), [Fault(1, "gpu", 6)]))) == {1: "gpu-dead"}


def test_json_says_the_same() -> None:
    dumps = dumps_of(Job(2, 2, 2).write(), [Fault(5, "host", 7)])
    for content in dumps.values():
        content["pg_status"] = {
            key: {name: str(count) for name, count in item.items()} for key, item in content["pg_status"].items()
        }
    assert culprits(told(dumps, as_json=True)) == {5: "never-arrived"}


def test_a_missing_dump_among_many() -> None:
    dumps = dumps_of(Job(4, 1, 2).write(), [Fault(2, "host", 5)])
    del dumps[2]
    assert culprits(told(dumps)) == {2: "rank-dead"}


def test_dumps_of_one_node_only_blame_nobody() -> None:
    dumps = dumps_of(Job(2, 1, 4).write(), [Fault(6, "host", 9)])
    assert culprits(told({rank: dumps[rank] for rank in (0, 1)})) == {}


def test_an_unreadable_dump_is_not_a_missing_one() -> None:
    dumps = dumps_of(Job(2, 1, 2).write(), [Fault(3, "host", 6)])
    found = []
    for rank, content in dumps.items():
        data = pickle.dumps(content, protocol=2)
        found += facts("flight_recorder", data[: len(data) // 2] if rank == 3 else data, f"fr_rank{rank}")
    assert culprits(list(hangs.derive(incident(found)))) == {}


def mismatched(change: dict[str, Any], ranks: tuple[int, ...] = (2,)) -> list[Fact]:
    job = Job(1, 1, 4, steps=1)
    for _ in range(3):
        job.add("world", [0, 1, 2, 3], "nccl:all_reduce")
    states = run(job, [])
    for state in states.values():
        state.issued, state.finished = 3, 2
    dumps = {rank: copy.deepcopy(dump(job, states, rank)) for rank in job.programs}
    for rank in ranks:
        dumps[rank]["entries"][-1].update(change)
    return told(dumps)


def test_another_operation_at_the_same_number() -> None:
    derived = mismatched({"profiling_name": "nccl:broadcast"})
    assert culprits(derived) == {2: "mismatch"}
    assert named(derived, "hang.verdict") == ["mismatch"]


def test_another_size_of_a_reduction() -> None:
    assert culprits(mismatched({"input_sizes": [[17]]})) == {2: "mismatch"}


def test_calls_that_differ_may_have_ended() -> None:
    """The rank with another call has gone on; the hang shows one operation later, where all call the same."""
    job = Job(1, 1, 4, steps=1)
    for _ in range(5):
        job.add("world", [0, 1, 2, 3], "nccl:all_reduce")
    states = run(job, [])
    for rank, state in states.items():
        state.issued, state.finished = (5, 4) if rank == 2 else (4, 3)
    dumps = {rank: copy.deepcopy(dump(job, states, rank)) for rank in job.programs}
    dumps[2]["entries"][2]["profiling_name"] = "nccl:broadcast"
    derived = told(dumps)
    assert culprits(derived) == {2: "mismatch"}
    assert named(derived, "hang.sequence") == [3]


def test_sizes_of_an_all_to_all_may_differ() -> None:
    derived = mismatched({"profiling_name": "nccl:all_to_all"}, ranks=(0, 1, 2, 3))
    assert named(derived, "hang.verdict") == ["transport"]


def test_of_equal_sides_both_are_named() -> None:
    assert set(culprits(mismatched({"input_sizes": [[17]]}, ranks=(2, 3)))) == {0, 1, 2, 3}


def test_all_in_the_same_operation_names_no_rank() -> None:
    derived = mismatched({})
    assert named(derived, "hang.verdict") == ["transport"]
    assert culprits(derived) == {}


def test_two_groups_in_opposite_order() -> None:
    job = Job(1, 1, 2, steps=1)
    job.add("a", [0, 1], "nccl:all_reduce")
    job.add("b", [0, 1], "nccl:all_reduce")
    job.programs[1].reverse()
    states = run(job, [Fault(0, "host", 1), Fault(1, "host", 1)])
    assert culprits(told({rank: dump(job, states, rank) for rank in (0, 1)})) == {
        0: "order-inversion",
        1: "order-inversion",
    }


def test_a_rank_that_said_that_it_was_done_had_less_work() -> None:
    dumps = dumps_of(Job(2, 1, 2).write(), [Fault(3, "host", 6)])
    event = Event(where=Where(file="rank3.log", line=9), text="done", body="done", source="training_log", rank=3)
    assert culprits(told(dumps, marks=[Mark(kind="end", event=event)])) == {3: "uneven-work"}


def test_a_fault_of_that_rank_explains_it() -> None:
    dumps = dumps_of(Job(2, 1, 2).write(), [Fault(3, "host", 6)])
    fault = signal("code/python-exception", rank=3, role="root-cause")
    assert named(told(dumps, signals=[fault]), "hang.explained") == ["yes"]
    other = signal("code/python-exception", rank=1, role="root-cause")
    assert named(told(dumps, signals=[other]), "hang.explained") == ["no"]


def ras(counts: dict[int, int], at: int) -> list[Fact]:
    """One answer of RAS."""
    ranks = [
        {
            "rank": rank,
            "host": "node017",
            "pid": 100 + rank,
            "cuda_dev": rank,
            "collective_counts": {"AllReduce": count, "Broadcast": 2},
        }
        for rank, count in counts.items()
    ]
    answer = {
        "nccl_version": "2.28.9",
        "timestamp": f"2026-01-01 10:00:{at:02}",
        "communicators_count": 1,
        "communicators": [{"hash": "0xabc", "size": 4, "missing_ranks_count": 0, "ranks": ranks}],
    }
    return facts("nccl_ras", json.dumps(answer).encode(), f"ras-{at}.json")


def test_ras_counts_that_stand_still() -> None:
    counts = {0: 57, 1: 49, 2: 57, 3: 57}
    assert culprits(list(hangs.derive(incident([*ras(counts, 10), *ras(counts, 20)])))) == {1: "never-arrived"}


def test_ras_counts_that_move_are_a_running_job() -> None:
    found = [*ras({0: 57, 1: 49}, 10), *ras({0: 60, 1: 58}, 20)]
    assert list(hangs.derive(incident(found))) == []


@pytest.mark.parametrize(("name", "blamed"), [("stalled-28.txt", {1: "never-arrived"}), ("missing-call-28.txt", {})])
def test_ras_text_counts_each_kind_of_operation(name: str, blamed: dict[int, str]) -> None:
    """Behind in one kind and ahead in another is not behind."""
    data = Path(__file__).parents[2].joinpath("fixtures/parsers/nccl_ras", name).read_bytes()
    samples = [*facts("nccl_ras", data, "ras-1.txt"), *facts("nccl_ras", data, "ras-2.txt")]
    assert culprits(list(hangs.derive(incident(samples)))) == blamed


def test_one_ras_sample_alone_does_not_tell() -> None:
    assert list(hangs.derive(incident(ras({0: 57, 1: 49}, 10)))) == []


def timeout(rank: int, seq: int, op: str = "ALLREDUCE", numel: int = 64) -> Any:
    return signal("torch/watchdog-timeout", rank=rank, seq=seq, op=op, numel_in=numel, numel_out=numel)


def status(rank: int, enqueued: int, completed: int, line: int = 2) -> Any:
    return signal("torch/watchdog-status", rank=rank, enqueued=enqueued, completed=completed, line=line)


def test_the_rank_that_had_not_issued_the_operation() -> None:
    signals = [timeout(0, 57), status(0, 64, 56), status(1, 56, 56)]
    derived = list(hangs.derive(incident(signals=signals)))
    assert culprits(derived) == {1: "never-arrived"}
    assert named(derived, "hang.collective") == ["ALLREDUCE"]


def test_unset_counters_are_not_large_numbers() -> None:
    signals = [timeout(0, 1), status(0, 1, 18446744073709551615), status(1, 18446744073709551615, 3452013982)]
    assert culprits(list(hangs.derive(incident(signals=signals)))) == {1: "never-arrived"}


def test_ranks_that_time_out_in_other_calls() -> None:
    signals = [timeout(0, 2667, "_REDUCE_SCATTER_BASE"), timeout(2, 2667, "_REDUCE_SCATTER_BASE"), timeout(1, 2635)]
    assert culprits(list(hangs.derive(incident(signals=signals)))) == {1: "mismatch"}


def test_all_time_out_alike() -> None:
    signals = [item for rank in range(4) for item in (timeout(rank, 9), status(rank, 9, 8))]
    derived = list(hangs.derive(incident(signals=signals)))
    assert named(derived, "hang.verdict") == ["transport"]
    assert culprits(derived) == {}


def test_the_rank_without_a_word() -> None:
    ranks = {rank: Rank(rank=rank, last_line=("job.out", rank + 1)) for rank in range(8)}
    signals = [timeout(rank, 9) for rank in range(8) if rank != 5]
    assert culprits(list(hangs.derive(incident(signals=signals, ranks=ranks, world_size=8)))) == {5: "never-arrived"}


def in_one_log(*ranks: int) -> list[Any]:
    found = [timeout(rank, 2) for rank in ranks]
    events = [each.signal.event for each in found]
    where = Where(file="job.out", line=1)
    return [
        msgspec.structs.replace(
            each, signal=msgspec.structs.replace(each.signal, event=msgspec.structs.replace(event, where=where))
        )
        for each, event in zip(found, events, strict=True)
    ]


@pytest.mark.parametrize(
    ("ranks", "world", "wanted"),
    [((1, 2, 3), None, [0]), ((3, 1, 2), 4, [0]), ((1, 2, 3), 8, []), ((1, 2), None, []), ((0, 1, 2, 3), 4, []),
     ((1, 2, 4), None, [])],
)  # fmt: skip
def test_the_first_rank_that_alone_says_nothing(ranks: tuple[int, ...], world: int | None, wanted: list[int]) -> None:
    derived = list(hangs.derive(incident(signals=in_one_log(*ranks), world_size=world)))
    assert named(derived, "hang.silent_rank") == wanted
    assert culprits(derived) == {}


def test_one_rank_s_log_alone_names_nobody() -> None:
    assert culprits(list(hangs.derive(incident(signals=[timeout(0, 9)], world_size=64)))) == {}


def test_the_desync_report_names_the_rank() -> None:
    text = "     [1, 5] finished collective #2, but didn't join collective #3 (count from 1)"
    derived = list(hangs.derive(incident(signals=[signal("collective/desync-rank-behind", text, rank=0)])))
    assert culprits(derived) == {1: "never-arrived", 5: "never-arrived"}
    assert named(derived, "hang.sequence") == [3]


def test_the_analyser_of_dumps_names_the_ranks_in_another_call() -> None:
    odd = "Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[1025]]' does not match found '[[64]]'"
    text = f"error msg: Culprit rank 22; {odd}, Culprit rank 110; {odd}"
    derived = list(hangs.derive(incident(signals=[signal("collective/trace-mismatch", text)])))
    assert culprits(derived) == {22: "mismatch", 110: "mismatch"}
    unfinished = "error msg: Culprit rank 5; Error type: COLLECTIVE_STATE_MISMATCH"
    assert culprits(list(hangs.derive(incident(signals=[signal("collective/trace-mismatch", unfinished)])))) == {}


def waits_for_id(rank: int, root: int, error: str) -> Any:
    text = (
        f"[{rank}] is setting up NCCL communicator and retrieving ncclUniqueId from [{root}] via c10d key-value store "
        f"by key '0', but store->get('0') got error: {error}"
    )
    return signal("torch/unique-id-timeout", text, rank=rank)


@pytest.mark.parametrize(
    ("signals", "wanted"),
    [
        ([waits_for_id(1, 0, "Socket Timeout"), waits_for_id(2, 0, "Socket Timeout")], {0: "never-arrived"}),
        ([waits_for_id(1, 0, "wait timeout after 600000ms")], {0: "never-arrived"}),
        ([waits_for_id(1, 0, "Connection reset by peer")], {}),
        ([waits_for_id(5, 4, "Socket Timeout"), waits_for_id(1, 0, "Socket Timeout")], {}),
    ],
)
def test_the_rank_that_never_gave_its_id(signals: list[Any], wanted: dict[int, str]) -> None:
    assert culprits(list(hangs.derive(incident(signals=signals)))) == wanted


def test_what_is_cited_stands_at_the_line() -> None:
    signals = [timeout(0, 57), status(0, 64, 56), status(1, 56, 56)]
    signals = [
        signal(
            item.signal.signature.id,
            f"line of {item.signal.event.rank}",
            item.signal.event.rank,
            item.signal.event.where.line or 1,
            **item.signal.fields,
        )
        for item in signals
    ]
    for fact in hangs.derive(incident(signals=signals)):
        assert fact.where.line is None or fact.text.startswith("line of ")


def at_several_times(missing_later: int | None = None) -> list[Fact]:
    """Dumps while the job still ran, and again after rank 3 stopped; the later ones are read first, or last."""
    job = Job(2, 1, 2).write()
    found = []
    for folder, at in sorted({"a": 14, "b": 9}.items(), reverse=missing_later is not None):
        states = run(job, [Fault(3, "host", at), Fault(0, "host", at + 2)] if at == 9 else [Fault(3, "host", at)])
        for rank in job.programs:
            if folder == "b" or rank != missing_later:
                data = pickle.dumps(dump(job, states, rank), protocol=2)
                found += facts("flight_recorder", data, f"{folder}/fr_rank{rank}")
    return list(hangs.derive(incident(found)))


def test_of_several_dumps_the_last_counts() -> None:
    derived = at_several_times()
    assert culprits(derived) == {3: "never-arrived"}
    assert {fact.where.file[0] for fact in derived} == {"a"}


def test_who_left_only_an_older_dump_is_not_behind() -> None:
    """The others went on since then: where that rank stands now is not known."""
    assert 1 not in culprits(at_several_times(missing_later=1))


def test_of_ranks_locked_by_order_the_fewer_went_against_it() -> None:
    """Three ranks wait in the first group, one in the second: it took them in the other order."""
    dumps = {}
    for rank in range(4):
        first, second = (("a", 5), ("b", 4)) if rank != 2 else (("b", 5), ("a", 4))
        dumps[rank] = {
            "version": "2.10",
            "pg_config": {name: {"name": name, "desc": name, "ranks": "[0, 1, 2, 3]"} for name in ("a", "b")},
            "pg_status": {
                str("ab".index(name)): {
                    "last_enqueued_collective": issued,
                    "last_started_collective": -1,
                    "last_completed_collective": 4,
                }
                for name, issued in (first, second)
            },
            "entries": [
                {
                    "record_id": 9, "pg_id": "ab".index(first[0]), "process_group": [first[0], first[0]],
                    "collective_seq_id": 5, "p2p_seq_id": 0, "op_id": 9, "profiling_name": "nccl:all_reduce",
                    "time_created_ns": 1_700_000_000_000_000_000, "input_sizes": [[8]], "output_sizes": [[8]],
                    "input_dtypes": ["Float"], "output_dtypes": ["Float"], "state": "scheduled", "retired": False,
                    "is_p2p": False,
                }
            ],
        }  # fmt: skip
    assert culprits(told(dumps)) == {2: "order-inversion"}
