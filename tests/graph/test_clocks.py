"""One time line: offsets from shared events, years and dates only from the evidence."""

from __future__ import annotations

import calendar

import msgspec
from making import event, signal, signature, step

from triage.graph.clocks import Clocks, line_up
from triage.model.event import Stamp

NOON = calendar.timegm((2026, 3, 14, 12, 0, 0))


def test_shared_steps_give_each_nodes_offset() -> None:
    marks = [
        step(number, event(at=NOON + 10 * number + ahead, node=node, rank=rank))
        for rank, (node, ahead) in enumerate({"a": 0.0, "b": 95.0, "c": 0.4, "d": -21.0, "e": 0.0}.items())
        for number in range(5)
    ]
    clocks = line_up([], marks)
    assert clocks.offsets["b"] == 95.0
    assert clocks.offsets["d"] == -21.0
    assert abs(clocks.offsets["c"]) < 1
    at, uncertainty = clocks.at(event(at=NOON + 95.0, node="b"))
    assert (at, uncertainty) == (NOON, 2.0)


def test_hang_starts_stand_in_for_steps() -> None:
    watchdog = signature("torch/watchdog-timeout", role="symptom", cause=None)
    signals = [
        signal(watchdog, event(at=NOON + ahead + 600, node=node, rank=rank), {"ran_ms": 600000, "seq": 7, "group": "0"})
        for rank, (node, ahead) in enumerate({"a": 0.0, "b": 37.0, "c": 0.0}.items())
    ]
    assert line_up(signals, []).offsets == {"a": 0.0, "b": 37.0, "c": 0.0}


def test_two_nodes_without_shared_events_have_no_offset_and_a_wide_uncertainty() -> None:
    clocks = line_up([], [step(1, event(at=NOON, node="a")), step(2, event(at=NOON, node="b"))])
    assert clocks.offsets == {}
    assert clocks.at(event(at=NOON, node="b")) == (NOON, 10.0)


def test_year_comes_from_other_evidence() -> None:
    clocks = Clocks(offsets={}, reference=NOON)
    march_14_noon = 72 * 86400 + 43200.0  # in a common year
    assert clocks.absolute(Stamp(seconds=march_14_noon, kind="yearless")) == NOON


def test_new_year_is_crossed_to_the_nearest_year() -> None:
    clocks = Clocks(offsets={}, reference=calendar.timegm((2026, 1, 1, 0, 5, 0)))
    last_minute = 364 * 86400 + 86340.0
    assert clocks.absolute(Stamp(seconds=last_minute, kind="yearless")) == calendar.timegm((2025, 12, 31, 23, 59, 0))


def test_leap_day_is_counted() -> None:
    clocks = Clocks(offsets={}, reference=calendar.timegm((2024, 3, 2, 0, 0, 0)))
    march_1 = 59 * 86400.0
    assert clocks.absolute(Stamp(seconds=march_1, kind="yearless")) == calendar.timegm((2024, 3, 1, 0, 0, 0))


def test_time_of_day_takes_the_date_of_the_evidence_and_boot_time_stays_unknown() -> None:
    clocks = Clocks(offsets={}, reference=NOON)
    assert clocks.absolute(Stamp(seconds=43200.0, kind="clock")) == NOON
    assert clocks.absolute(Stamp(seconds=43200.0, kind="boot")) is None
    assert Clocks(offsets={}, reference=None).absolute(Stamp(seconds=5.0, kind="clock")) is None


def test_clocks_without_a_zone_are_in_the_one_that_other_stamps_name() -> None:
    kernel = step(1, event(at=NOON, node="a"))
    kernel = msgspec.structs.replace(
        kernel, event=msgspec.structs.replace(kernel.event, time=Stamp(seconds=NOON, kind="utc", east=7200))
    )
    clocks = line_up([], [kernel])
    assert clocks.absolute(Stamp(seconds=NOON + 7200, kind="local")) == NOON
    assert clocks.absolute(Stamp(seconds=43200.0 + 7200, kind="clock")) == NOON


def test_zones_that_disagree_move_nothing() -> None:
    zones = [Stamp(seconds=NOON, kind="utc", east=east) for east in (0, 7200)]
    marks = [step(1, event(at=NOON)), step(2, event(at=NOON))]
    marks = [
        msgspec.structs.replace(mark, event=msgspec.structs.replace(mark.event, time=zone))
        for mark, zone in zip(marks, zones, strict=True)
    ]
    assert line_up([], marks).absolute(Stamp(seconds=NOON, kind="local")) == NOON
