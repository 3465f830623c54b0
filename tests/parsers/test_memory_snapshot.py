"""Memory snapshots of old and new releases."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from tests.analysis.build import facts, named
from triage.parsers import memory_snapshot

MIB = 1 << 20


def block(size: int, state: str, asked: int | None = None, line: int = 7) -> dict[str, Any]:
    frames = [
        {"name": "empty", "filename": "/opt/venv/lib/python3.11/site-packages/torch/utils/_device.py", "line": 9},
        {"name": "malloc", "filename": "??", "line": 0},
        {"name": "forward", "filename": "/data/run/model.py", "line": line},
    ]
    return {"size": size, "requested_size": asked or size, "state": state, "frames": frames}


def segment(blocks: list[dict[str, Any]], device: int = 0) -> dict[str, Any]:
    used = sum(item["size"] for item in blocks if item["state"] != "inactive")
    total = sum(item["size"] for item in blocks)
    return {"device": device, "total_size": total, "allocated_size": used, "active_size": used, "blocks": blocks}


SEGMENTS = [
    segment([block(6 * MIB, "active_allocated", 5 * MIB), block(2 * MIB, "inactive")]),
    segment([block(20 * MIB, "inactive")]),
    segment(
        [block(8 * MIB, "active_pending_free", line=11), block(8 * MIB, "active_awaiting_free", line=11)], device=1
    ),
]
TRACE = [
    {"action": "alloc", "addr": 1, "size": 6 * MIB},
    {"action": "alloc", "addr": 2, "size": 20 * MIB},
    {"action": "free_requested", "addr": 2, "size": 20 * MIB},
    {"action": "free_completed", "addr": 2, "size": 20 * MIB},
    {"action": "oom", "size": 64 * MIB, "device_free": MIB},
]


def read(content: Any) -> list[Any]:
    return facts("memory_snapshot", pickle.dumps(content, protocol=2), "snapshot.rank3.pickle")


def test_totals_of_a_device() -> None:
    found = [fact for fact in read({"segments": SEGMENTS, "device_traces": [TRACE]}) if fact.entity.get("gpu") == 0]
    values = {fact.name.removeprefix("snapshot."): fact.value for fact in found}
    sizes = {name: values[name] // MIB for name in ("reserved", "allocated", "cached_free", "split_waste", "rounding")}
    assert sizes == {"reserved": 28, "allocated": 6, "cached_free": 20, "split_waste": 2, "rounding": 1}
    assert values["top_holders"] == [f"{6 * MIB} 1 /data/run/model.py:7 forward"]
    assert (values["peak"], values["oom_requested"], values["oom_count"]) == (26 * MIB, 64 * MIB, 1)
    assert values["grown"] == 6 * MIB
    assert {fact.entity["rank"] for fact in found} == {3}


def test_pending_blocks_are_in_use() -> None:
    found = [fact for fact in read({"segments": SEGMENTS}) if fact.entity.get("gpu") == 1]
    assert named(found, "snapshot.split_waste") == [0]


def test_segments_alone() -> None:
    assert named(read(SEGMENTS), "snapshot.reserved") == [28 * MIB, 16 * MIB]


def test_settings() -> None:
    settings = {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "expandable_segments": True,
        "max_split_size": -1,
    }
    found = read({"segments": [], "allocator_settings": settings})
    assert named(found, "snapshot.expandable") == [True]


@pytest.mark.parametrize(
    "content",
    [
        None,
        3,
        {"segments": 5},
        {"segments": [None, 3, {"blocks": 7}, {"blocks": [None, {"frames": [1]}]}]},
        {
            "segments": [
                {"device": -1},
                {"device": "x", "total_size": float("nan"), "blocks": [{"state": [], "size": 1e400}]},
            ]
        },
        {"segments": [], "device_traces": [5, [None, {"action": "oom", "size": "x"}, {"action": "free_completed"}]]},
        {"segments": [{"device": 10**30}], "device_traces": [[]] * 1000, "allocator_settings": 5},
    ],
)
def test_hostile_content_gives_no_exception(content: Any) -> None:
    read(content)
    facts("memory_snapshot", json.dumps(content).encode(), "snapshot.json")


def test_recognition() -> None:
    data = pickle.dumps({"segments": SEGMENTS, "device_traces": []}, protocol=2)
    assert memory_snapshot.recognises(data, data) == 2
    for other in (b"", b"segments device_traces total_size", b"\x80\x02}pg_config"):
        assert memory_snapshot.recognises(other, other) == 0
