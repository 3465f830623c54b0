"""Why memory ran out: all versions of the message, the snapshot, growth."""

from __future__ import annotations

import json

import pytest

from tests.analysis.build import facts, incident, named, signal
from triage.analysis import memory
from triage.analysis._messages import shortage
from triage.model.event import Fact

ADVICE = " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
GIB = 1 << 30


def old(tried: str, total: str, allocated: str, free: str, reserved: str) -> str:
    return (
        f"CUDA out of memory. Tried to allocate {tried} (GPU 3; {total} total capacity; {allocated} already allocated; "
        f"{free} free; {reserved} reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
        "max_split_size_mb to avoid fragmentation."
    )


def new(
    tried: str, free: str, in_use: str, allocated: str, unallocated: str, others: str = "", allowed: str = ""
) -> str:
    return (
        f"CUDA out of memory. Tried to allocate {tried}. GPU 3 has a total capacity of 80.00 GiB of which {free} is "
        f"free.{others} Including non-PyTorch memory, this process has {in_use} memory in use.{allowed} Of the "
        f"allocated memory {allocated} is allocated by PyTorch, and {unallocated} is reserved by PyTorch but "
        f"unallocated.{ADVICE}"
    )


def told(message: str, rank: int | None = 5, found: list[Fact] | None = None) -> list[Fact]:
    return list(memory.derive(incident(found or [], [signal("memory/cuda-oom", message, rank)])))


@pytest.mark.parametrize(
    ("message", "verdict"),
    [
        (old("2.00 GiB", "79.15 GiB", "76.10 GiB", "1.20 GiB", "77.00 GiB"), "capacity"),
        (old("2.00 GiB", "79.15 GiB", "50.10 GiB", "0.20 GiB", "77.00 GiB"), "fragmentation"),
        (old("2.00 GiB", "79.15 GiB", "4.10 GiB", "0.20 GiB", "5.00 GiB"), "shared"),
        (old("200.00 GiB", "79.15 GiB", "4.10 GiB", "70.0 GiB", "5.00 GiB"), "shape"),
        (new("2.00 GiB", "1.00 GiB", "79.00 GiB", "76.00 GiB", "500.00 MiB"), "capacity"),
        (new("900.00 MiB", "200.00 MiB", "79.80 GiB", "60.00 GiB", "18.00 GiB"), "fragmentation"),
        (
            new(
                "4.00 GiB",
                "400.00 MiB",
                "20.00 GiB",
                "19.00 GiB",
                "90.00 MiB",
                " Process 77 has 59.50 GiB memory in use.",
            ),
            "shared",
        ),
        (new("4.00 GiB", "40.00 GiB", "30.00 GiB", "29.00 GiB", "90.00 MiB", allowed=" 32.00 GiB allowed;"), "limit"),
        ("CUDA out of memory. Tried to allocate more than 1EB memory.", "shape"),
        (
            "HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 64.00 GiB of which "
            "1.00 GiB is free. Of the allocated memory 60.00 GiB is allocated by PyTorch, with 1.38 MiB allocated in "
            "private pools (e.g., CUDA Graphs), and 100.00 MiB is reserved by PyTorch but unallocated.",
            "capacity",
        ),
    ],
)
def test_the_verdict(message: str, verdict: str) -> None:
    derived = told(message)
    assert named(derived, "oom.verdict") == [verdict]
    assert all(fact.entity.get("rank") == 5 and fact.evidence for fact in derived)


def test_the_inputs() -> None:
    derived = told(new("900.00 MiB", "200.00 MiB", "79.80 GiB", "60.00 GiB", "18.00 GiB"))
    assert named(derived, "oom.tried") == [900 << 20]
    assert named(derived, "oom.unallocated") == [18 * GIB]
    assert derived[-1].entity == {"rank": 5, "gpu": 3}


def test_the_advice_alone_proves_nothing() -> None:
    assert named(told(new("2.00 GiB", "1.00 GiB", "79.00 GiB", "77.90 GiB", "50.00 MiB")), "oom.verdict") == [
        "capacity"
    ]


def test_in_a_container_one_of_the_processes_is_this_one() -> None:
    found = shortage(
        "CUDA out of memory. Tried to allocate 412.00 MiB. GPU  has a total capacity of 79.15 GiB of which 207.31 "
        "MiB is free. Process 880142 has 78.93 GiB memory in use. Of the allocated memory 76.88 GiB is "
        "allocated by PyTorch, and "
        "301.10 MiB is reserved by PyTorch but unallocated."
    )
    assert found is not None
    assert found.gpu is None
    assert found.others == ()
    assert found.in_use == int(78.93 * GIB)
    assert found.foreign is not None
    assert found.foreign < GIB


def test_a_message_without_numbers_gives_no_verdict() -> None:
    assert named(told("RuntimeError: CUDA error: out of memory"), "oom.verdict") == []
    assert named(told("CUDA out of memory. Tried to allocate 4.31 GiB."), "oom.verdict") == []


def test_absurd_numbers() -> None:
    for size in ("9" * 400 + " GiB", "1.2.3 GiB", "-5 GiB", " GiB", "9" * 14 + " EiB"):
        told(f"CUDA out of memory. Tried to allocate {size} (GPU 0; {size} total capacity; {size} already allocated;")


def snapshot(blocks: list[tuple[int, str]], oom: int | None = None) -> list[Fact]:
    segments = [
        {
            "device": 0,
            "total_size": sum(size for size, _ in blocks),
            "active_size": 1,
            "allocated_size": sum(size for size, state in blocks if state != "inactive"),
            "blocks": [
                {
                    "size": size,
                    "requested_size": size,
                    "state": state,
                    "frames": [{"filename": "/data/run/model.py", "line": 7, "name": "forward"}],
                }
                for size, state in blocks
            ],
        }
    ]
    trace = [{"action": "oom", "size": oom, "device_free": 1 << 20}] if oom else []
    data = json.dumps({"segments": segments, "device_traces": [trace]}).encode()
    return facts("memory_snapshot", data, "snapshot.json")


def test_a_snapshot_of_split_blocks() -> None:
    found = snapshot([(GIB, "active_allocated"), (GIB, "inactive")] * 20, oom=2 * GIB)
    assert named(memory.derive(incident(found)), "oom.verdict") == ["fragmentation"]


def test_a_snapshot_that_is_full() -> None:
    found = snapshot([(GIB, "active_allocated")] * 20, oom=2 * GIB)
    assert named(memory.derive(incident(found)), "oom.verdict") == ["capacity"]


def test_a_snapshot_without_a_shortage() -> None:
    assert list(memory.derive(incident(snapshot([(GIB, "active_allocated"), (GIB, "inactive")] * 20)))) == []


def steps_file(alloc: list[int], rank: int = 5) -> list[Fact]:
    lines = [json.dumps({"step": at, "rank": rank, "step_ms": 10.0, "alloc": value}) for at, value in enumerate(alloc)]
    return facts("step_times", "\n".join(lines).encode(), f"steps.rank{rank}.jsonl")


def test_growth_makes_a_leak() -> None:
    found = steps_file([(10 + at // 2) * GIB for at in range(80)])
    derived = told(new("2.00 GiB", "1.00 GiB", "79.00 GiB", "76.00 GiB", "500.00 MiB"), found=found)
    assert named(derived, "oom.verdict") == ["leak"]
    assert named(derived, "memory.growth")[0] == pytest.approx(GIB / 2, rel=0.1)


def test_memory_that_goes_up_and_down_does_not_grow() -> None:
    assert list(memory.derive(incident(steps_file([(10 + at % 7) * GIB for at in range(80)])))) == []


def test_one_large_request_after_level_steps_is_a_spike() -> None:
    message = new("30.00 GiB", "20.00 GiB", "60.00 GiB", "59.00 GiB", "90.00 MiB")
    assert named(told(message, 0, steps_file([50 * GIB] * 40, 0)), "oom.verdict") == ["spike"]


def test_the_message_of_the_only_process_need_not_name_its_rank() -> None:
    message = new("30.00 GiB", "20.00 GiB", "60.00 GiB", "59.00 GiB", "90.00 MiB")
    assert named(told(message, None, steps_file([50 * GIB] * 40, 0)), "oom.verdict") == ["spike"]
    two = steps_file([50 * GIB] * 40, 0) + steps_file([50 * GIB] * 40, 1)
    assert named(told(message, None, two), "oom.verdict") == ["capacity"]


@pytest.mark.parametrize("count", [0, 3, 12])
def test_too_few_steps_do_not_make_a_spike(count: int) -> None:
    message = new("30.00 GiB", "20.00 GiB", "60.00 GiB", "59.00 GiB", "90.00 MiB")
    assert named(told(message, 0, steps_file([50 * GIB] * count, 0)), "oom.verdict") == ["capacity"]


def test_a_small_request_after_level_steps_is_no_spike() -> None:
    message = new("2.00 GiB", "1.00 GiB", "79.00 GiB", "76.00 GiB", "500.00 MiB")
    assert named(told(message, 0, steps_file([70 * GIB] * 40, 0)), "oom.verdict") == ["capacity"]
