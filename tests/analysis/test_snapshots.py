"""Memory over several snapshots, disguised shortages, settings, the holders at a peak."""

from __future__ import annotations

import json

import pytest

from tests.analysis.build import facts, incident, named, signal
from triage.analysis import memory, snapshots
from triage.model.event import Fact, Where

GIB = 1 << 30
SMI = [
    Fact(name="gpu.memory_total", value=80 * GIB, where=Where(file="gpu.csv"), entity={"gpu": 3}),
    Fact(name="gpu.memory_used", value=79 * GIB, where=Where(file="gpu.csv"), entity={"gpu": 3}),
]


def snapshot(name: str, held: int, trace: list[dict[str, object]] | None = None) -> list[Fact]:
    frames = [{"filename": "/data/run/train.py", "line": 41, "name": "keep"}]
    block = {"address": 1, "size": held, "requested_size": held, "state": "active_allocated", "frames": frames}
    segment = {
        "device": 0,
        "address": 1,
        "total_size": held,
        "allocated_size": held,
        "active_size": held,
        "blocks": [block],
    }
    data = json.dumps({"segments": [segment], "device_traces": [trace or []]}).encode()
    return facts("memory_snapshot", data, name, rank=2)


def test_growth_over_snapshots() -> None:
    found = [fact for step in (8, 9, 10, 11) for fact in snapshot(f"snap_step{step}.json", step * GIB)]
    derived = list(snapshots.derive(incident(found)))
    assert named(derived, "memory.growth") == [GIB]
    assert derived[0].entity["rank"] == 2
    assert "/data/run/train.py:41 keep" in derived[0].text


@pytest.mark.parametrize("sizes", [(8, 9), (8, 9, 9), (80, 81, 82), (9, 8, 10)])
def test_no_growth(sizes: tuple[int, ...]) -> None:
    found = [fact for at, size in enumerate(sizes) for fact in snapshot(f"snap{at}.json", size * GIB)]
    assert named(snapshots.derive(incident(found)), "memory.growth") == []


def test_a_shortage_in_disguise() -> None:
    failed = signal("memory/cublas-alloc-failed", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED", 1)
    derived = list(snapshots.derive(incident(SMI, [failed])))
    assert [(fact.value, fact.entity) for fact in derived if fact.name == "oom.verdict"] == [("disguised", {"rank": 1})]
    assert list(snapshots.derive(incident([], [failed]))) == []  # nobody saw the GPU full


def test_the_setting_that_applies() -> None:
    assert "expandable_segments:True" in snapshots.settings("fragmentation", False)
    assert "on already" in snapshots.settings("fragmentation", True)
    assert snapshots.settings("capacity", False).startswith("none")


def test_holders_at_the_peak() -> None:
    frames = [{"filename": "/data/run/loss.py", "line": 7, "name": "cross_entropy"}]
    trace: list[dict[str, object]] = [
        {"action": "alloc", "addr": 9, "size": 6 * GIB, "frames": frames},
        {"action": "free_completed", "addr": 9, "size": 6 * GIB, "frames": []},
    ]
    found = snapshot("snap.json", 2 * GIB, trace)
    assert named(found, "snapshot.peak") == [8 * GIB]
    assert named(found, "snapshot.peak_holders") == [[f"{6 * GIB} 1 /data/run/loss.py:7 cross_entropy"]]


def test_a_verdict_brings_its_setting() -> None:
    text = (
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 3; 79.15 GiB total capacity; 50.10 GiB already allocated; "
        "0.20 GiB free; 77.00 GiB reserved in total by PyTorch)"
    )
    derived = list(memory.derive(incident([], [signal("memory/cuda-oom", text, 0)])))
    assert named(derived, "oom.setting") == ["PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"]
