"""The pictures: what they take from an incident, and that they say what they draw."""

from __future__ import annotations

import math
import re
import struct
import zlib

import msgspec
import pytest
from making import event, incident, signal, signature, step
from report.building import heat as drawn
from report.building import report, row

from triage.model.bundle import File
from triage.model.event import Fact, Where
from triage.model.incident import Incident
from triage.model.pictures import MemoryMap
from triage.model.summary import Summary
from triage.report.charts import blocks, cluster, heat, memory, timeline, waits
from triage.report.pictures import draw


def fact(name: str, value: object, file: str = "f", **entity: object) -> Fact:
    return Fact(name=name, value=value, where=Where(file=file), entity=entity)  # type: ignore[arg-type]


def slow(*ranks: int) -> Incident:
    return incident([], facts=[fact("straggler.culprit", "compute", rank=rank) for rank in ranks])


def places(ranks: int) -> dict[int, Where]:
    return {rank: Where(file=f"r{rank}") for rank in range(ranks)}


def test_the_heat_map_shows_the_part_in_which_the_culprit_is_slow() -> None:
    times = {
        "fwd_ms": {rank: dict.fromkeys(range(10), 80.0 if rank == 2 else 10.0) for rank in range(4)},
        "bwd_ms": {rank: dict.fromkeys(range(10), 10.0 if rank == 2 else 80.0) for rank in range(4)},
        "loss": {rank: dict.fromkeys(range(10), 1e9) for rank in range(4)},
    }
    found = heat.collect(slow(2), times, places(4))
    assert found is not None
    assert (found.phase, found.culprits, found.medians[0]) == ("fwd_ms", (2,), 10.0)
    assert [row[0] for row in found.levels] == [8, 8, 15, 8]
    assert found.places[1].file == "r1"


def test_unknown_is_a_level_of_its_own() -> None:
    times = {"step_ms": {rank: {0: 10.0, 1: math.nan if rank else 10.0, 2: 10.0} for rank in range(3)}}
    found = heat.collect(slow(), times, places(3))
    assert found is not None and [row[1] for row in found.levels] == [8, 0, 0]


def test_a_rank_that_stopped_early_is_unknown_from_then_on() -> None:
    times = {"step_ms": {0: dict.fromkeys(range(9), 5.0), 1: dict.fromkeys(range(4), 5.0)}}
    found = heat.collect(slow(), times, places(2))
    assert found is not None and found.levels[1] == bytes([8] * 4 + [0] * 5)


def test_one_rank_has_nobody_to_compare_with() -> None:
    assert heat.collect(slow(), {"step_ms": {0: {0: 1.0, 1: 2.0}}}, places(1)) is None
    assert heat.collect(slow(), {}, {}) is None


def test_the_png_holds_the_levels() -> None:
    found = drawn(ranks=5, steps=7)
    data = heat.png(found)
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert (width, height, depth, kind) == (7, 5, 4, 3)
    start = data.index(b"IDAT") + 4
    length = struct.unpack(">I", data[start - 8 : start - 4])[0]
    raw = zlib.decompress(data[start : start + length])
    lines = [raw[at * 5 + 1 : at * 5 + 5] for at in range(5)]  # a filter byte, then seven half bytes
    assert [bytes(half for byte in line for half in (byte >> 4, byte & 15))[:7] for line in lines] == list(found.levels)


def test_waiting_ranks_and_what_they_wait_for() -> None:
    facts = [fact("hang.culprit", "never-arrived", "fr1", rank=1)]
    for rank in (0, 2, 3):
        facts += [fact("fr.last_op", "all_reduce", f"fr{rank}", rank=rank, group="0")]
        facts += [fact("fr.last_seq", 105, f"fr{rank}", rank=rank, group="0")]
    waiting, blockers = waits.collect(incident([], facts=facts))
    assert [(each.op, each.seq, each.ranks) for each in waiting] == [("all_reduce", "105", (0, 2, 3))]
    assert [(each.rank, each.kind) for each in blockers] == [(1, "never-arrived")]


def test_watchdogs_tell_who_waits_without_dumps() -> None:
    watchdog = signature("torch/watchdog-timeout", role="symptom", cause="collective/rank-stalled")
    rows = [
        signal(watchdog, event(line=at + 1, rank=at), {"rank": at, "op": "ALLREDUCE", "seq": 7, "group": group})
        for at, group in ((0, "0"), (1, "0"), (2, None))
    ]
    waiting, blockers = waits.collect(incident(rows))
    assert len(waiting) in {1, 2} and blockers == ()


def test_memory_by_state() -> None:
    sizes = {"reserved": 100, "allocated": 60, "cached_free": 10, "split_waste": 30, "rounding": 0}
    facts = [fact(f"snapshot.{name}", size << 30, "s", gpu=0) for name, size in sizes.items()]
    facts.append(fact("snapshot.top_holders", [f"{50 << 30} 3 train.py:9 main", "bad"], "s", gpu=0))
    (found,) = memory.collect(incident([], facts=facts))
    assert (found.gpu, found.holders[0].place, len(found.holders)) == ("GPU 0", "train.py:9 main", 1)
    assert "train.py:9 main" in memory.svg(found, dict.fromkeys(("used", "cached", "waste"), "x"))


def mapped(*segments: str, **more: object) -> MemoryMap | None:
    told = {"map": list(segments), "map_holders": [f"{3 << 30} 2 train.py:9 main"], **more}
    return blocks.collect({name: fact(f"snapshot.{name}", value) for name, value in told.items()})


STATES = {name: f"state {name}" for name in blocks.STATES}


def test_the_map_of_blocks() -> None:
    found = mapped(f"7f00 {4 << 30} a{3 << 30}@0,i{1 << 30}", f"- {1 << 30} f{1 << 30}", map_left=2, map_left_bytes=7)
    assert found is not None
    assert [(each.state, each.used, each.holder) for each in found.segments[0].blocks] == [
        ("active", 3 << 30, 0),
        ("inactive", 0, None),
    ]
    assert (found.segments[1].address, found.left, found.left_bytes) == (None, 2, 7)
    assert blocks.row(found.segments[0]) == ("0x7f00", "4.00 GiB", "75 %", 1, "1.00 GiB")
    assert blocks.shown(found) == ("active", "inactive", "free")
    drawn = blocks.svg(found, STATES, "label")
    assert "state active: 3.00 GiB, 2 × train.py:9 main" in drawn and 'data-holder="0"' in drawn and "0x7f00" in drawn


def test_boxes_of_the_map_are_as_wide_as_their_bytes() -> None:
    found = mapped(f"1 {9 << 30} a{6 << 30},i{3 << 30}", f"2 {3 << 30} m{3 << 30}/5")
    assert found is not None
    drawn = blocks.svg(found, STATES, "label")
    wide = {
        state: sum(map(float, re.findall(r"h(\d+\.\d)v", path)))
        for path, state in re.findall(r'<path d="([^"]*)" class="block (\w+)"', drawn)
    }
    assert wide["active"] == pytest.approx(2 * wide["inactive"], rel=0.01)
    assert sum(wide.values()) == pytest.approx(blocks.LINES * blocks.WIDTH - 2 * blocks.BETWEEN, rel=0.01)
    (active,) = re.findall(r'<path d="([^"]*)" class="block active"', drawn)
    assert active.count("M") == 6  # half of the bytes, six of twelve lines


def test_a_full_map_stays_small() -> None:
    runs = ",".join(f"{'ai'[at % 2]}{1 << 20}" + "@0" * (1 - at % 2) for at in range(133))
    found = mapped(*[f"{at:x} {133 << 20} {runs}" for at in range(192)])
    assert found is not None and sum(len(each.blocks) for each in found.segments) == 25536
    assert len(blocks.svg(found, STATES, "x")) < 350_000  # four devices and the rest of the page are within 2 MB


@pytest.mark.parametrize(
    "told", [["x"], [5], ["1 2"], ["zz 5 a5"], ["1 5 q5"], ["1 0 a0"], ["1 99999999999999999999 a1"], ["1 5 a9"], "no"]
)
def test_a_map_that_is_none_draws_nothing_wrong(told: object) -> None:
    found = blocks.collect({"map": fact("snapshot.map", told)})
    assert found is None or "nan" not in blocks.svg(found, STATES, "x")


def test_only_the_fullest_devices_have_a_map() -> None:
    facts = []
    for gpu in range(9):
        facts += [fact("snapshot.reserved", gpu + 1, "s", gpu=gpu), fact("snapshot.map", ["1 5 a5"], "s", gpu=gpu)]
    found = memory.collect(incident([], facts=facts))
    assert [(each.gpu, each.map is not None) for each in found][3:5] == [("GPU 5", True), ("GPU 4", False)]


def test_the_node_at_fault_comes_first() -> None:
    rows = [signal(signature(), event(line=1, rank=3, node="node01"))]
    marks = [step(1, event("b.log", 1, rank=9, node="node00"))]
    nodes = cluster.collect(incident(rows, marks), report())
    assert (nodes[0].name, nodes[0].state) == ("node01", "culprit")


def test_texts_in_pictures_are_escaped() -> None:
    hostile = "<script>x</script>"
    rows = [row(0.0, hostile, node=hostile), row(9.0, hostile)]
    assert "<script" not in timeline.svg(report(timeline=rows), hostile, hostile)


def test_all_from_one_incident() -> None:
    failing = signal(signature(), event("a.log", 9, at=110.0, rank=3, node="node01"))
    marks = [step(at, event("a.log", at + 1, at=100.0 + at, rank=3, node="node01")) for at in range(4)]
    whole = incident([failing], marks)
    found = draw(whole, report(), lambda each: each.time.seconds if each.time else None, {}, {}, {}, {})
    assert found.span.last_progress is not None and found.span.end is not None
    assert (found.span.last_progress.at, found.span.end.at, found.span.last_step) == (103.0, 110.0, 3)
    assert found.span.end.label == "1970-01-01T00:01:50Z"


def test_runs_of_ranks() -> None:
    assert waits.runs((0, 1, 2, 5, 7, 8)) == "0-2, 5, 7-8"


def test_the_digest_is_that_of_the_evidence() -> None:
    def digest(size: int, last: str) -> str:
        files = [File(path="a.log", size=size), File(path="b.log", size=2)]
        whole = msgspec.structs.replace(incident([], files=files), summaries=(Summary(file="a.log", last_text=last),))
        return draw(whole, report(), lambda each: None, {}, {}, {}, {}).evidence

    assert digest(1, "x") == digest(1, "x") != digest(2, "x") != digest(2, "y")


@pytest.mark.parametrize("at", [-5.0, 1.7e12, 1e300])
def test_a_time_out_of_any_calendar_is_a_number(at: float) -> None:
    marks = [step(1, event("a.log", 1, at=at, rank=0))]
    found = draw(incident([], marks), report(), lambda each: each.time and each.time.seconds, {}, {}, {}, {})
    assert found.span.end is not None and found.span.end.label == f"{at:.1f} s"
