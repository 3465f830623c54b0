"""Step times of one run over its length, and the part that input takes.

steps.change        ratio of the median step time after a lasting change to the one before; above 1 is slower
steps.change_step   the step at which it changed; both carry the log's rank when all its lines are of one
steps.data_share    part of the step that ranks spend on input, 0 to 1: over the ranks the median, of two the smaller
"""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from triage.analysis._series import WARMUP, Series, number, series, step_ms
from triage.model.event import Fact, Where
from triage.model.incident import Incident

SEGMENT = 8  # steps on either side
SHIFT = 1.05
CERTAIN = 3.3  # standard deviations of the rank sum: one in a thousand
FEW, FEW_SHIFT, FEW_SPREAD = 5, 1.04, 0.015  # short excerpts: every value after is above every one before

FEWEST = 3  # step lines that tell both times
_TIMES = re.compile(
    r"\b[Tt]ime:?\s{1,6}(?P<whole>\d{1,7}\.\d{1,6})(?![^\n]{0,40}\btime:)[^\n]{0,120}?"
    r"\b(?:data_time|[Dd]ata(?: time)?):?\s{1,6}(?P<data>\d{1,7}\.\d{1,6})"
)

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
    yield from _data_share(ranks) if any("data_ms" in one.phases for one in ranks) else _logged_share(incident)


def curves(incident: Incident) -> list[list[tuple[int, float, Where]]]:
    """(step, ms, where) of each log and of each step file, by step; ms a sample where the batch size stands beside."""
    curves: dict[str, dict[int, tuple[float, Where]]] = defaultdict(dict)
    for mark in incident.marks:
        step, ms = number(mark.fields.get("step")), step_ms(mark)
        if mark.kind == "step" and step is not None and ms is not None and ms > 0:
            size = _BATCH.search(mark.event.text)
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
    return [statistics.median(values[max(at - 2, 0) : at + 3]) for at in range(len(values))]


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


def _logged_share(incident: Incident) -> Iterator[Fact]:
    """Of one log whose step lines give the time of the step and, within it, that of the input."""
    told: dict[str, list[tuple[float, Where, str]]] = defaultdict(list)
    for mark in incident.marks:
        found = _TIMES.search(mark.event.text) if mark.kind == "step" and mark.fields.get("step") else None
        if found is not None and 0 < float(found["data"]) <= float(found["whole"]):
            share = float(found["data"]) / float(found["whole"])
            told[mark.event.where.file].append((share, mark.event.where, mark.event.text))
    for _, shares in sorted(told.items()):
        if len(shares) >= FEWEST:
            value = statistics.median(share for share, _, _ in shares)
            where, text = shares[-1][1:]
            yield Fact(name="steps.data_share", value=round(value, 4), where=where, text=text, evidence=(where,))
            return


def _data_share(ranks: list[Series]) -> Iterator[Fact]:
    shares = []
    for one in ranks:
        data, whole = one.settled("data_ms"), one.settled("step_ms")
        told = [data[step] / whole[step] for step in data if whole.get(step, 0) > 0 and not math.isnan(data[step])]
        if len(told) >= FEW:
            shares.append((min(statistics.median(told), 1.0), one.where, one.text))
    if not shares:
        return
    value = (
        min(shares, key=lambda item: item[0])[0]
        if len(shares) < 3
        else statistics.median(share for share, _, _ in shares)
    )
    where, line = max(shares, key=lambda item: item[0])[1:]
    text = line or f"input takes {100 * value:.0f} % of the step"
    yield Fact(name="steps.data_share", value=round(value, 4), where=where, text=text, evidence=(where,))
