"""Answers of NCCL RAS as text, JSON and monitor lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.build import facts, named
from triage.model.event import Fact
from triage.parsers import nccl_ras

HEAD = """NCCL version 2.24.3 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12060

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  {0}

"""
MISMATCH = (
    HEAD.format("MISMATCH")
    + """Warnings
========

#0-0 (27A079B828FF1A75) MISMATCH
  Communicator ranks have different collective operation counts
  30 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 5 -- GPU 5 managed by process 4805 on node node017
  Rank 21 -- GPU 5 managed by process 4821 on node node019
"""
)
DEAD = (
    HEAD.format("INCOMPLETE")
    + """Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 4821 on node 10.0.3.17 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 job process
  Process 4821 on node 10.0.3.17 managing GPU 5
  The missing rank: 21

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data
"""
)


def read(text: str | bytes) -> list[Any]:
    return facts("nccl_ras", text.encode() if isinstance(text, str) else text, "ras.txt")


def test_listed_ranks_have_the_count_above_them() -> None:
    found = [fact for fact in read(MISMATCH) if fact.name == "ras.count"]
    assert [(fact.entity["rank"], fact.value, fact.entity["node"]) for fact in found] == [
        (5, 6649, "node017"),
        (21, 6649, "node019"),
    ]
    assert {fact.entity["group"] for fact in found} == {"27a079b828ff1a75"}


def test_dead_processes_and_missing_ranks() -> None:
    found = read(DEAD)
    assert next((fact.value, fact.entity["pid"]) for fact in found if fact.name == "ras.process") == ("dead", 4821)
    assert [fact.entity["rank"] for fact in found if fact.name == "ras.missing"] == [21]
    assert named(found, "ras.timeouts") == [2]


def test_a_healthy_answer_has_no_errors() -> None:
    assert named(read(HEAD.format("OK")), "ras.comm.error") == []


def test_json() -> None:
    member = {
        "rank": 3,
        "host": "node017",
        "pid": 7,
        "cuda_dev": 0,
        "nvml_dev": 3,
        "status": {"async_error": 6, "abort_flag": True},
        "collective_counts": {"AllReduce": 9, "Reduce": 0},
    }
    missing = {"rank": 4, "host": "node018", "pid": 8, "status": {"unresponsive": True, "considered_dead": True}}
    comm = {"hash": "0xabc", "size": 2, "missing_ranks_count": 1, "ranks": [member], "missing_ranks": [missing]}
    found = read(json.dumps({"communicators_count": 1, "communicators": [comm], "timestamp": "2026-01-01 00:00:01"}))
    assert named(found, "ras.count") == [9]
    assert named(found, "ras.missing") == ["dead"]
    assert named(found, "ras.async_error") == [6]
    assert [fact.entity for fact in found if fact.name == "ras.count"] == [
        {"group": "0000000000000abc", "rank": 3, "node": "node017", "pid": 7, "gpu": 3}
    ]


def test_monitor_lines() -> None:
    line = "[2026-01-01 10:00:00] PEER_DEAD: Process 3042 on node node017 managing GPU 1\n"
    assert [(fact.value, fact.entity) for fact in read(line) if fact.name == "ras.process"] == [
        ("dead", {"pid": 3042, "node": "node017", "gpu": 1})
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"communicators": 5}',
        '{"communicators": [5, null, {"ranks": [3, {"collective_counts": [1]}]}]}',
        '{"communicators": [{"hash": 7, "ranks": [{"rank": "x", "collective_counts": {"AllReduce": 1e999}}]}]}',
        "[" * 50_000,
        "#0-0 (zz) MISMATCH\n",
        "  Rank " + "9" * 6000 + " has launched up to operation 1\n",
        "  The missing ranks: " + "9," * 5000,
        "#1-1 (ab) TIMEOUT\n  Rank 1 -- \n",
    ],
)
def test_hostile_content_gives_no_exception(text: str) -> None:
    read(text)


def test_recognition() -> None:
    assert nccl_ras.recognises(MISMATCH.encode(), MISMATCH.encode()) == 2
    for other in (b"", b"NCCL version 2.24.3+cuda12.6", b"Job summary: 3 failed", b'{"ranks": []}'):
        assert nccl_ras.recognises(other, other) == 0


def recorded(name: str) -> list[Fact]:
    path = Path(__file__).parents[2] / "fixtures" / "parsers" / "nccl_ras" / name
    return facts("nccl_ras", path.read_bytes(), path.name)


def counts(found: list[Fact]) -> dict[Any, Any]:
    return {fact.entity["rank"]: fact.value for fact in found if fact.name == "ras.count"}


def test_answers_of_a_job_on_two_gpus() -> None:
    """NCCL 2.28.9, as recorded: it runs; rank 1 stays away; rank 1 leaves a call out; rank 1 calls another one."""
    assert named(recorded("running-28.txt"), "ras.comm.error") == []
    assert counts(recorded("running-28.json")) == {0: 1249, 1: 1249}
    assert counts(recorded("stalled-28.txt")) == counts(recorded("stalled-28.json")) == {0: 11, 1: 10}
    assert named(recorded("missing-call-28.txt"), "ras.comm.operation") == ["AllGather", "AllReduce"]
    assert counts(recorded("other-operation-28.txt")) == {0: 0, 1: 1}
    assert named(recorded("other-operation-28.json"), "ras.count.Broadcast") == [1]
