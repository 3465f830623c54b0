"""Step times of one run over its length, and the part that input takes.

steps.change        ratio of the median step time after a lasting change to the one before; above 1 is slower
steps.change_step   the step at which it changed; both carry the log's rank when all its lines are of one
steps.data_share    part of the step that ranks spend on input, 0 to 1: over the ranks the median, of two the smaller
steps.communication_share   the same for communication that nothing overlaps: of the rank that waits least in it
steps.bound.data_ms, steps.bound.communication_ms, steps.bound.both_ms   the median step with that hidden, at least
"""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from triage.analysis._bounds import both, epoch, memory, ordered, sentence, utilisation, words
from triage.analysis._input import logged_shares
from triage.analysis._series import WARMUP, Series, series, step_ms
from triage.model.base import number
from triage.model.event import Fact, Where
from triage.model.incident import Incident

SEGMENT = 8  # steps on either side
SHIFT = 1.05
CERTAIN = 3.3  # standard deviations of the rank sum: one in a thousand
FEW, FEW_SHIFT, FEW_SPREAD = 5, 1.04, 0.015  # short excerpts: every value after is above every one before

_BATCH = re.compile(r"global batch size\s*:\s*(\d{1,9})")  # it is ramped up early in large runs


@dataclass(frozen=True)
class Change:
    """Slower from a step on."""

    ratio: float
    step: int
    where: Where


def derive(incident: Incident) -> Iterator[Fact]:
    """The largest lasting slowdown, and the share of input."""
    found = [change for curve in curves(incident) if (change := _change(curve))]
    if found:
        worst = max(found, key=lambda change: (change.ratio, change.where.file))
        lines = {mark.event.where: mark.event.text for mark in incident.marks}
        text = lines.get(worst.where) or f"steps take {worst.ratio:.2f} times as long from step {worst.step} on"
        for name, value in (("steps.change", round(worst.ratio, 4)), ("steps.change_step", worst.step)):
            yield Fact(name=name, value=value, where=worst.where, text=text, evidence=(worst.where,))
    ranks = series(incident)
    yield from _shares(incident, ranks)
    if not any("data_ms" in one.phases for one in ranks):
        for told in logged_shares(incident)[:1]:
            yield _fact("steps.data_share", round(told.share, 4), told.where, told.text)


def curves(incident: Incident) -> list[list[tuple[int, float, Where]]]:
    """(step, ms, where) of each log and of each step file, by step; ms a sample where the batch size stands beside."""
    curves: dict[str, dict[int, tuple[float, Where]]] = defaultdict(dict)
    for mark in incident.marks:
        step, ms = number(mark.fields.get("step")), step_ms(mark)
        if mark.kind == "step" and step is not None and ms is not None and ms > 0:
            size = _BATCH.search(mark.event.text) if "global batch size" in mark.event.text else None
            each = ms / max(int(size.group(1)), 1) if size else ms
            curves[mark.event.where.file].setdefault(int(step), (each, mark.event.where))
    for one in series(incident):
        for step, ms in one.phases.get("step_ms", {}).items():
            if not math.isnan(ms):
                curves[one.where.file].setdefault(step, (ms, one.where))
    return [[(step, *curve[step]) for step in sorted(curve)] for curve in curves.values()]


def _change(curve: list[tuple[int, float, Where]]) -> Change | None:
    if curve and curve[0][0] < WARMUP:
        curve = [point for point in curve if point[0] >= WARMUP + curve[0][0]]
    if len(curve) < 2 * SEGMENT:
        return _of_few(curve)
    values = _smooth([ms for _, ms, _ in curve])
    cut = _cut(values)
    before, after = values[:cut], values[cut:]
    ratio = statistics.median(after) / max(statistics.median(before), 1e-9)
    if ratio < SHIFT or _deviation(before, after) < CERTAIN:
        return None
    return Change(ratio, curve[cut][0], curve[cut][2])


def _of_few(curve: list[tuple[int, float, Where]]) -> Change | None:
    if len(curve) < FEW:
        return None
    values = [ms for _, ms, _ in curve]
    for cut in range(2, len(values) - 1):
        before, after = values[:cut], values[cut:]
        flat = max(before) - min(before) <= FEW_SPREAD * min(before)
        if flat and min(after) >= SHIFT * statistics.median(before) * FEW_SHIFT / SHIFT and min(after) > max(before):
            return Change(statistics.median(after) / statistics.median(before), curve[cut][0], curve[cut][2])
    return None


def _smooth(values: list[float]) -> list[float]:
    """A rolling median of five: single slow steps (checkpoint, evaluation) vanish."""
    return [_middle(sorted(values[max(at - 2, 0) : at + 3])) for at in range(len(values))]


def _middle(values: list[float]) -> float:
    """The median of sorted values, without what makes `statistics.median` slow on a few."""
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def _cut(values: list[float]) -> int:
    """The cut that leaves the least squares, at least SEGMENT from both ends."""
    total, squares = math.fsum(values), len(values)
    best, at, head = -1.0, SEGMENT, math.fsum(values[:SEGMENT])
    for cut in range(SEGMENT, squares - SEGMENT + 1):
        tail = total - head
        gain = head * head / cut + tail * tail / (squares - cut)
        if gain > best:
            best, at = gain, cut
        head += values[cut] if cut < squares else 0.0
    return at


def _deviation(before: list[float], after: list[float]) -> float:
    """Mann and Whitney's statistic in standard deviations; ties share their ranks."""
    ordered = sorted([(value, 0) for value in before] + [(value, 1) for value in after])
    ranks: dict[float, list[int]] = defaultdict(list)
    for place, (value, _) in enumerate(ordered, start=1):
        ranks[value].append(place)
    one, two = len(before), len(after)
    rank_sum = math.fsum(statistics.fmean(ranks[value]) for value in after)
    mean, deviation = two * (one + two + 1) / 2, math.sqrt(one * two * (one + two + 1) / 12)
    return (rank_sum - mean) / deviation if deviation else 0.0


def _shares(incident: Incident, ranks: list[Series]) -> Iterator[Fact]:
    """Input and exposed communication as parts of the step, and what the step takes at least without them."""
    told = {"data": _told(ranks, "data_ms"), "communication": _told(ranks, "comm_ms")}
    shares = {
        "data": _typical(told["data"]),
        "communication": min((one[0] for one in told["communication"]), default=0),
    }
    whole = [statistics.median(times.values()) for one in ranks if (times := one.settled("step_ms"))]
    step_ms = statistics.median(whole) if whole else None
    parts = ordered(shares)
    text = sentence(words(parts, step_ms), epoch(incident, step_ms, parts), utilisation(incident), memory(incident))
    for name, places in told.items():
        if places:
            _, where, line = max(places, key=lambda item: item[0])
            own = line or text or f"{name} takes {100 * shares[name]:.0f} % of the step"  # a line is cited as it is
            yield _fact(f"steps.{name}_share", round(shares[name], 4), where, own)
    if step_ms is not None and parts:
        where = ranks[0].where
        for part in parts:
            yield _fact(f"steps.bound.{part.name}_ms", round(step_ms * (1 - part.share), 3), where, text)
        if len(parts) > 1:
            yield _fact("steps.bound.both_ms", round(step_ms * both(parts), 3), where, text)


def _fact(name: str, value: float, where: Where, text: str) -> Fact:
    return Fact(name=name, value=value, where=where, text=text, evidence=(where,))


def _typical(shares: list[tuple[float, Where, str]]) -> float:
    """Of one or two ranks the smaller, else the median; 0 without any."""
    told = [share for share, _, _ in shares]
    return min(told, default=0.0) if len(told) < 3 else statistics.median(told)


def _told(ranks: list[Series], phase: str) -> list[tuple[float, Where, str]]:
    """The median share of a phase in the step of each rank, with the place and the line that tell it."""
    shares: list[tuple[float, Where, str]] = []
    for one in ranks:
        part, whole = one.settled(phase), one.settled("step_ms")
        told = [part[step] / whole[step] for step in part if whole.get(step, 0) > 0 and not math.isnan(part[step])]
        if len(told) >= FEW:
            shares.append((min(statistics.median(told), 1.0), one.where, one.text))
    return shares
