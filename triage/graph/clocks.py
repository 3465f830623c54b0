"""One time line over nodes whose clocks disagree.

The year and the zone come from the evidence only. Each node's offset is estimated from events that all nodes
share: the same training step, or the beginning of the same timed-out collective. Two events of different nodes
closer than their uncertainty are never ordered.
"""

from __future__ import annotations

import calendar
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from statistics import median

import msgspec

from triage.model.base import Record
from triage.model.event import Event, Fact, Mark, Signal, Stamp

SAME_NODE_S = 2.0  # lines of one node: buffering of log writers
CROSS_NODE_S = 10.0  # lines of two nodes before any offset is known (NTP drift, slow file systems)
ALIGNED_S = 2.0  # after the offset was taken out


class Clocks(Record, frozen=True, kw_only=True):
    """What is known of the nodes' clocks.

    offsets: seconds by node; positive means that the node's clock is ahead.
    reference: Unix seconds that give year-less stamps their year.
    boots: Unix seconds of each node's boot, on its own clock; key None when only one boot time is known at all.
    east: seconds that local clocks are ahead of UTC, as the stamps that name their zone agree; else 0.
    """

    offsets: dict[str, float]
    reference: float | None
    boots: dict[str | None, float] = {}
    east: float = 0.0

    def at(self, event: Event) -> tuple[float | None, float]:
        """Seconds on the common time line (None: no usable time) and their uncertainty against other nodes."""
        seconds = self.absolute(event.time, event.node)
        if seconds is None:
            return None, CROSS_NODE_S
        known = event.node in self.offsets if event.node else False
        return seconds - self.offsets.get(event.node or "", 0.0), ALIGNED_S if known else CROSS_NODE_S

    def absolute(self, stamp: Stamp | None, node: str | None = None) -> float | None:
        """The stamp on the evidence's own calendar, or None (unknown boot time, or a clock without any date)."""
        if stamp is None:
            return None
        if stamp.kind == "boot":
            boot = self.boots.get(node)
            return None if boot is None else boot + stamp.seconds
        if stamp.kind == "utc":
            return stamp.seconds
        seconds = self._reading(stamp)
        return None if seconds is None else seconds - self.east

    def _reading(self, stamp: Stamp) -> float | None:
        """What a clock without a zone shows, with its year, as Unix seconds of the same reading in UTC."""
        if stamp.kind == "local":
            return stamp.seconds
        if self.reference is None:
            return stamp.seconds if stamp.kind == "yearless" else None
        near = self.reference + self.east
        if stamp.kind == "clock":
            midnight = near // 86400 * 86400
            return _nearest([midnight + day * 86400 + stamp.seconds for day in (-1, 0, 1)], near)
        return _nearest([_in_year(start, leap, stamp.seconds) for start, leap in _years(near)], near)


@lru_cache(64)
def _years(near: float) -> tuple[tuple[float, bool], ...]:
    """The first second of the year of a moment and of those beside it, and whether these are leap years."""
    year = datetime.fromtimestamp(near, timezone.utc).year
    return tuple((calendar.timegm((each, 1, 1, 0, 0, 0)), calendar.isleap(each)) for each in (year - 1, year, year + 1))


def _in_year(start: float, leap: bool, seconds: float) -> float:
    """Year-less stamps are counted in a common year; from March on a leap year is a day longer."""
    return start + seconds + (86400 if leap and seconds >= 59 * 86400 else 0)


def _nearest(candidates: Sequence[float], reference: float) -> float:
    return min(candidates, key=lambda seconds: abs(seconds - reference))


def line_up(signals: Iterable[Signal], marks: Iterable[Mark], facts: Iterable[Fact] = ()) -> Clocks:
    """Estimate every node's clock offset."""
    signals, marks = list(signals), list(marks)
    stamps = [event.time for event in _events(signals, marks) if event.time]
    east = _east(stamps)
    dated = [
        stamp.seconds - (east if stamp.kind == "local" else 0) for stamp in stamps if stamp.kind in {"utc", "local"}
    ]
    clocks = Clocks(offsets={}, reference=median(dated) if dated else None, boots=_boots(facts), east=east)
    shared = _steps(clocks, marks) or _hang_starts(clocks, signals)
    return msgspec.structs.replace(clocks, offsets=_offsets(shared))


def _east(stamps: Iterable[Stamp]) -> float:
    """The one zone that dated stamps name; 0 when they name none or several, as after a change to summer time."""
    named = {stamp.east for stamp in stamps if stamp.east is not None}
    return float(named.pop()) if len(named) == 1 else 0.0


def _boots(facts: Iterable[Fact]) -> dict[str | None, float]:
    found: dict[str | None, float] = {}
    for fact in facts:
        if fact.name == "host.boot_time" and isinstance(fact.value, int):
            node = fact.entity.get("node")
            found[str(node) if node is not None else None] = float(fact.value)
    return found


def _events(signals: Sequence[Signal], marks: Sequence[Mark]) -> Iterable[Event]:
    # Kernel logs may hold weeks: they must not move the reference date.
    yield from (mark.event for mark in marks)
    yield from (signal.event for signal in signals)


def _steps(clocks: Clocks, marks: Sequence[Mark]) -> dict[object, dict[str, list[float]]]:
    shared: dict[object, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for mark in marks:
        seconds = clocks.absolute(mark.event.time)
        if mark.kind == "step" and mark.event.node and seconds is not None:
            shared[mark.fields.get("step")][mark.event.node].append(seconds)
    return {step: nodes for step, nodes in shared.items() if len(nodes) > 1}


def _hang_starts(clocks: Clocks, signals: Sequence[Signal]) -> dict[object, dict[str, list[float]]]:
    shared: dict[object, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for signal in signals:
        seconds, ran = clocks.absolute(signal.event.time), signal.fields.get("ran_ms")
        if seconds is not None and ran is not None and signal.event.node:
            key = (signal.signature.id, signal.fields.get("group"), signal.fields.get("seq"))
            shared[key][signal.event.node].append(seconds - float(ran) / 1000)
    return {key: nodes for key, nodes in shared.items() if len(nodes) > 2}


def _offsets(shared: dict[object, dict[str, list[float]]]) -> dict[str, float]:
    """A node's offset is the median of its lead over the median node, over all shared events."""
    leads: dict[str, list[float]] = defaultdict(list)
    for nodes in shared.values():
        middle = median(median(times) for times in nodes.values())
        for node, times in nodes.items():
            leads[node].append(median(times) - middle)
    return {node: round(median(values), 3) for node, values in sorted(leads.items())}
