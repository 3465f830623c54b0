"""Memory snapshots of old and new releases."""

from __future__ import annotations

import json
import pickle
import re
from typing import Any

import pytest

from tests.analysis.build import facts, named
from triage.parsers import _memory_map, memory_snapshot

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


def placed(address: int, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    at = address
    for each in blocks:
        each["address"] = at
        at += each["size"]
    return segment(blocks) | {"address": address}


def mapped(segments: list[dict[str, Any]], name: str = "map") -> Any:
    return next((fact.value for fact in read({"segments": segments}) if fact.name == f"snapshot.{name}"), None)


def test_the_map_has_blocks_in_the_order_of_addresses() -> None:
    low = placed(0x1000, [block(2 * MIB, "active_allocated", line=1), block(MIB, "inactive"), block(MIB, "inactive")])
    high = placed(0x7F0000000000, [block(3 * MIB, "active_pending_free", line=2), block(9 * MIB, "active_allocated")])
    free = placed(0x9000000, [block(5 * MIB, "inactive")])
    low["blocks"].reverse()
    assert mapped([high, low, free]) == [
        f"1000 {4 * MIB} a{2 * MIB}@2,i{2 * MIB}",
        f"9000000 {5 * MIB} f{5 * MIB}",
        f"7f0000000000 {12 * MIB} p{3 * MIB}@1,a{9 * MIB}@0",
    ]
    assert mapped([high, low], "map_holders") == [
        f"{9 * MIB} 1 /data/run/model.py:7 forward",
        f"{3 * MIB} 1 /data/run/model.py:2 forward",
        f"{2 * MIB} 1 /data/run/model.py:1 forward",
    ]
    assert mapped([high, low], "map_left") is None


def test_what_the_snapshot_does_not_tell_is_unknown() -> None:
    short = placed(0x1000, [block(MIB, "active_allocated"), block(MIB, "new_in_a_later_release")]) | {
        "total_size": 5 * MIB
    }
    assert mapped([short]) == [f"1000 {5 * MIB} a{MIB}@0,u{MIB},u{3 * MIB}"]
    del short["address"]
    assert mapped([short])[0].startswith("- ")


def test_a_crowded_map_is_coarse_and_loses_no_byte() -> None:
    sizes = [512 << (at * 7 % 11) for at in range(5000)]
    states = ["active_allocated", "inactive"]
    crowd = placed(0, [block(size, states[at % 2], line=at) for at, size in enumerate(sizes)])
    large = placed(1 << 40, [block(sum(sizes), "active_allocated", line=9)])
    few = [placed((2 + at) << 40, [block(MIB, "inactive")]) for at in range(_memory_map.SEGMENTS + 8)]
    for segments, most in (([crowd], _memory_map.RUNS), ([crowd, large, *few], _memory_map.RUNS_IN_ALL)):
        told = mapped(segments)
        runs = told[0].split(" ")[2].split(",")
        assert len(runs) <= _memory_map.RUNS and sum(each.count(",") + 1 for each in told) <= most
        assert sum(int(re.split("[/@]", each[1:])[0]) for each in runs) == sum(sizes)
        used = [int(each.split("/")[1].split("@")[0]) for each in runs if each[0] == "m"]
        used += [int(each[1:].split("@")[0]) for each in runs if each[0] == "a"]
        assert sum(used) == sum(sizes[::2])
    assert len(told) == _memory_map.SEGMENTS
    assert (mapped(segments, "map_left"), mapped(segments, "map_left_bytes")) == (10, 10 * MIB)


def test_only_the_fullest_devices_are_drawn() -> None:
    many = [placed(0, [block((at + 1) * MIB, "inactive")]) | {"device": at} for at in range(9)]
    found = [fact.entity["gpu"] for fact in read({"segments": many}) if fact.name == "snapshot.map"]
    assert found == [5, 6, 7, 8]


def test_recognition() -> None:
    data = pickle.dumps({"segments": SEGMENTS, "device_traces": []}, protocol=2)
    assert memory_snapshot.recognises(data, data) == 2
    for other in (b"", b"segments device_traces total_size", b"\x80\x02}pg_config"):
        assert memory_snapshot.recognises(other, other) == 0
