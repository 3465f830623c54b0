"""Dumps of all versions, and what is no dump."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.analysis.build import document, facts, named
from tests.analysis.jobs import Fault, Job, dump, run
from triage.bundle.workers import Unpickler
from triage.model.bundle import File
from triage.parsers import flight_recorder
from triage.parsers._documents import rank_of
from triage.parsers._flight_records import WANTED, Row

JOB = Job(2, 2, 2).write()
STATES = run(JOB, [Fault(3, "host", 6)])


def read(content: Any, name: str = "fr_rank1") -> list[Any]:
    return facts("flight_recorder", pickle.dumps(content, protocol=2), name)


def of_group(found: list[Any], group: str) -> dict[str, Any]:
    return {fact.name: fact.value for fact in found if fact.entity.get("group") == group}


def test_pickle_and_json_agree() -> None:
    content = dump(JOB, STATES, 1)
    one, two = read(content), facts("flight_recorder", json.dumps(content).encode(), "fr_rank1")
    assert [(fact.name, fact.value, fact.entity) for fact in one] == [(f.name, f.value, f.entity) for f in two]
    assert {fact.entity["rank"] for fact in one} == {1}


@pytest.fixture(scope="module")
def child() -> Iterator[Unpickler]:
    made = Unpickler()
    yield made
    made.close()


def through(child: Unpickler, data: bytes) -> list[Any]:
    """As a run reads it: records come from the child as rows, without the frames of what is over."""
    whole = document(data, "fr_rank1")
    return list(flight_recorder.facts(msgspec.structs.replace(whole, unpickle=child.load, unpickle_rows=child.rows)))


@pytest.mark.parametrize("rank", range(JOB.ranks))
def test_rows_of_the_child_say_what_whole_records_say(child: Unpickler, rank: int) -> None:
    data = pickle.dumps(dump(JOB, STATES, rank), protocol=2)
    assert through(child, data) == facts("flight_recorder", data, "fr_rank1")


def test_the_child_keeps_frames_where_something_waits(child: Unpickler) -> None:
    content = dump(JOB, STATES, 2)
    _, rows = child.rows(pickle.dumps(content), WANTED, Row)
    waits = [entry["state"] != "completed" for entry in content["entries"]]
    assert [bool(row.frames) for row in rows] == waits
    assert any(waits) and not all(waits)


def test_the_first_unfinished_operation() -> None:
    found = of_group(read(dump(JOB, STATES, 2), "fr_rank2"), "tp0.1")
    assert found["fr.enqueued"] > found["fr.completed"]
    assert found["fr.group.ranks"] == [2, 3]
    assert found["fr.last_op"] == "nccl:_all_gather_base"
    assert found["fr.last_frame"] == "/data/run/train.py:41 step"
    assert found["fr.last_sizes"] == "4096"


def test_entries_alone_as_torch_2_2_wrote_them() -> None:
    entries = [
        {
            "pg_id": 0,
            "seq_id": seq,
            "profiling_name": "nccl:all_reduce",
            "time_created_us": 1000 + seq,
            "input_sizes": [[4]],
            "output_sizes": [[4]],
            "state": "completed" if seq < 5 else "started",
            "retired": seq < 5,
            "frames": [],
        }
        for seq in range(1, 7)
    ]
    found = read(entries, "nccl_trace_rank_3")
    assert named(found, "fr.version") == ["2.0"]
    group = of_group(found, "0")
    assert (group["fr.enqueued"], group["fr.completed"], group["fr.pending"]) == (6, 4, 2)
    assert {fact.entity["rank"] for fact in found} == {3}


def test_counters_without_entries_are_placed_by_number() -> None:
    config = {str(name): {"name": str(name), "desc": "d", "ranks": "[0, 1]"} for name in (0, 7, 41)}
    status = {
        str(at): {
            "last_enqueued_collective": 10 * at,
            "last_started_collective": -1,
            "last_completed_collective": 10 * at,
        }
        for at in (0, 1, 4)
    }
    found = read({"version": "2.9", "pg_config": config, "pg_status": status, "entries": []})
    assert of_group(found, "41")["fr.enqueued"] == 40


def test_gloo_leaves_finished_records_scheduled() -> None:
    content = dump(JOB, run(JOB, []), 1)
    for entry in content["entries"]:
        entry.update(state="scheduled", retired=True, time_discovered_completed_ns=None)
    content["pg_config"] = {"": {"name": "", "desc": "", "ranks": "[]"}}
    assert set(named(read(content), "fr.pending")) == {0}


def test_a_transfer_names_its_peer() -> None:
    job = Job(1, 2, 2, steps=1).write()
    states = run(job, [Fault(0, "host", 0)])
    found = read(dump(job, states, 2), "fr_rank2")
    assert named(found, "fr.last_peer") == [0]
    assert named(found, "fr.p2p") == [True]


def test_an_unsigned_minus_one() -> None:
    content = dump(JOB, STATES, 1)
    content["entries"] = []
    for item in content["pg_status"].values():
        item["last_completed_collective"] = (1 << 64) - 1
    assert set(named(read(content), "fr.completed")) == {-1}


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_12", 12),
        ("comm_lib_trace_rank_0", 0),
        ("fr.rank7.pkl", 7),
        ("_dump_14", 14),
        ("x/fr_rank3.json", 3),
        ("dump.pkl", None),
        ("trace_2024.txt", 2024),
        ("notes", None),
    ],
)
def test_rank_of_a_name(name: str, rank: int | None) -> None:
    assert rank_of(File(path=name, size=1)) == rank


def test_the_number_of_facts_is_bounded() -> None:
    content = dump(JOB, STATES, 1)
    content["entries"] *= 500
    assert len(read(content)) < 120


HOSTILE: list[Any] = [
    {},
    [],
    3,
    None,
    "x",
    {"entries": 5, "pg_config": 7, "pg_status": "x", "version": 2.1},
    {
        "version": "2.10",
        "entries": [None, 3, {"process_group": 5}, {"process_group": []}, {"frames": [3, {"filename": 4}]}],
    },
    {
        "version": "2.10",
        "entries": [{"collective_seq_id": float("nan"), "record_id": 1e400, "input_sizes": [[[[]]], 5]}],
    },
    {"version": "2.10", "pg_config": {"0": {"ranks": "[9999999999999999999999, -4, x]"}}, "entries": []},
    {"version": "2.10", "pg_status": {5: None, "x": [1]}, "pg_config": {"a": None, "b": []}, "entries": []},
    {"version": [], "entries": [{"profiling_name": "nccl:send 9999999->0", "state": [], "is_p2p": True}] * 3},
    {"version": "2.10", "entries": [{"pg_id": {}, "process_group": ("a", None), "time_created_ns": "soon"}]},
]


@pytest.mark.parametrize("content", HOSTILE)
def test_hostile_content_gives_no_exception(child: Unpickler, content: Any) -> None:
    whole = read(content)
    facts("flight_recorder", json.dumps(content).encode(), "fr_rank1")
    found = through(child, pickle.dumps(content, protocol=2))
    assert [(fact.name, str(fact.value)) for fact in found] == [(fact.name, str(fact.value)) for fact in whole]


def test_json_with_what_only_python_writes(child: Unpickler) -> None:
    content = dump(JOB, STATES, 1)
    content["entries"][0]["duration_ms"] = float("nan")
    content["entries"].insert(0, None)
    data = json.dumps(content)
    assert "NaN" in data
    found = facts("flight_recorder", data.encode(), "fr_rank1")
    assert found == facts("flight_recorder", pickle.dumps(dump(JOB, STATES, 1)), "fr_rank1")


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\x80\x02}q\x00", b"{", b"[" * 100_000, b'{"entries": ' + b"9" * 9999, b"\xff{"]
)
def test_broken_data_is_unreadable(data: bytes) -> None:
    assert named(facts("flight_recorder", data, "fr_rank1"), "fr.unreadable")


def test_recognition() -> None:
    data = pickle.dumps(dump(JOB, STATES, 1), protocol=2)
    assert flight_recorder.recognises(data, data) == 2
    assert flight_recorder.recognises(json.dumps(dump(JOB, STATES, 1)).encode(), b"") == 2
    for other in (
        b"",
        b"pg_config and pg_status in a log",
        b'{"loss": 1}',
        b"\x80\x02}q\x00X\x08\x00\x00\x00segmentsq\x01",
    ):
        assert flight_recorder.recognises(other, other) == 0
