"""Which rank holds the others up, in which part of its step, and since when; uneven work over the ranks.

straggler.culprit     one a rank (entity rank): data | checkpoint | host | compute | communication | unknown
straggler.ratio       its time in that part over its peers' median
straggler.since_step  the first step from which it lasts; straggler.cost_share: how much of the step it costs, 0 to 1
steps.imbalance       median over the steps of (slowest rank's compute / mean of its stage) - 1; said when no rank is
                      always the slowest

A slow rank is late in one part, and its peers wait for it in the next part that communicates, mostly the backward
pass. So of two ranks that each exceed the other in a different part, the one whose part communicates less is slow.
Ranks are compared within a pipeline stage only.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from triage.analysis._series import PHASES, Series, series
from triage.model.base import Value
from triage.model.event import Fact
from triage.model.incident import Incident

STEPS = 8  # compared steps below which nothing is said
RATIO = 1.10  # slower than the peers by this much
SHARE = 0.02  # and by this part of the whole step: a part of 0.1 ms may well double
STEADY = 0.8  # in this part of the steps
BEFORE = 0.25  # and in no more than this part of the steps before: else nothing began then
DEVIATION = 3.5  # robust z among five ranks or more
OWN = ("data_ms", "ckpt_ms", "gc_ms", "host_ms")  # no waiting in them: of several the one that costs most
_KINDS = {
    "data_ms": "data", "ckpt_ms": "checkpoint", "gc_ms": "host", "host_ms": "host", "fwd_ms": "compute",
    "bwd_ms": "compute", "opt_ms": "compute", "comm_ms": "communication", "step_ms": "unknown",
}  # fmt: skip


@dataclass(frozen=True)
class Late:
    """A rank that is late in a phase from a step on."""

    one: Series
    phase: str
    ratio: float
    since: int
    cost: float


def derive(incident: Incident) -> Iterator[Fact]:
    """Stragglers of each stage; else the imbalance."""
    ranks = series(incident)
    late = [item for stage in _stages(ranks) for item in _late(stage)]
    for item in late:
        yield from _facts(item)
    if not late:
        yield from _imbalance(ranks)


def _stages(ranks: list[Series]) -> list[list[Series]]:
    stages: dict[int | None, list[Series]] = defaultdict(list)
    for one in ranks:
        stages[one.stage].append(one)
    return [stage for _, stage in sorted(stages.items(), key=lambda item: item[0] or 0) if len(stage) > 1]


def _late(stage: list[Series]) -> list[Late]:
    """The late ranks in the first phase that has any; the phases after it are waiting."""
    measured = [phase for phase in PHASES if sum(phase in one.phases for one in stage) > 1]
    if "comm_ms" in measured and len(measured) > 1:
        measured.remove("comm_ms")  # waiting, unless it is all there is
    own = [phase for phase in measured if phase in OWN]
    rest = [[phase] for phase in measured if phase not in OWN] or [["step_ms"]]
    for phases in [own, *rest]:
        found = [item for phase in phases if (item := _latest(stage, phase))]
        if found:
            worst = max(found, key=lambda items: max(item.cost for item in items))
            return worst if len(worst) <= max(1, len(stage) // 4) else []
    return []


def _latest(stage: list[Series], phase: str) -> list[Late]:
    """The ranks that are late in one phase, without those that cost less than half of the worst."""
    columns = _columns(stage, phase)
    found = [item for one in stage if (item := _compare(one, stage, phase, columns))]
    return [item for item in found if 2 * item.cost >= max(other.cost for other in found)]


def _compare(one: Series, stage: list[Series], phase: str, columns: dict[int, list[float]]) -> Late | None:
    own = one.settled(phase)
    excess: list[tuple[int, float, float]] = []  # step, ratio, part of the step
    for step, value in sorted(own.items()):
        everyone = columns.get(step, [])
        if len(everyone) > 1 and _known(value):
            middle = _median_of_others(everyone, value)
            excess.append((step, value / max(middle, 1e-3), (value - middle) / _whole(one, step)))
    since = _since([step for step, ratio, part in excess if ratio >= RATIO and part >= SHARE], [e[0] for e in excess])
    if since is None or not _stands_out(one, stage, phase, since):
        return None
    before = [ratio >= RATIO and part >= SHARE for step, ratio, part in excess if step < since]
    if sum(before) > BEFORE * len(before):
        return None  # slow now and then all along: that it is so at the end is chance
    held = [item for item in excess if item[0] >= since]
    return Late(one, phase, statistics.median(e[1] for e in held), since, statistics.median(e[2] for e in held))


def _columns(stage: list[Series], phase: str) -> dict[int, list[float]]:
    """By step, what every rank took, sorted: a rank's peers are this list without the rank's own value."""
    columns: dict[int, list[float]] = defaultdict(list)
    for one in stage:
        for step, value in one.phases[phase].items():
            if _known(value):
                insort(columns[step], value)
    return columns


def _median_of_others(everyone: list[float], own: float) -> float:
    """Median of a sorted list less one occurrence of `own`; at least two values."""
    skip, last = bisect_left(everyone, own), len(everyone) - 1

    def other(index: int) -> float:
        return everyone[index if index < skip else index + 1]

    return other(last // 2) if last % 2 else (other(last // 2 - 1) + other(last // 2)) / 2


def _known(value: float) -> bool:
    return not math.isnan(value)


def _whole(one: Series, step: int) -> float:
    """The whole step in ms, from its own number or its parts."""
    told = one.phases["step_ms"].get(step, math.nan)
    if _known(told):
        return max(told, 1e-3)
    parts = [one.phases[phase].get(step, math.nan) for phase in PHASES if phase in one.phases]
    return max(sum(part for part in parts if _known(part)), 1e-3)


def _since(slow: list[int], steps: list[int]) -> int | None:
    """The first step from which STEADY of all later steps are slow; None when too few are."""
    late, best, seen = set(slow), None, 0
    for count, step in enumerate(reversed(steps), start=1):
        seen += step in late
        if step in late and seen >= STEADY * count:
            best = step if count >= min(STEPS, max(len(steps) // 2, 4)) else best
    return best if best is not None and len(slow) >= min(STEPS, len(steps)) * STEADY and len(steps) >= STEPS else None


def _stands_out(one: Series, stage: list[Series], phase: str, since: int) -> bool:
    """Among five or more ranks: far from all in units of their own spread (at least 1 % of the median)."""
    if len(stage) < 5:
        return True
    middles = {}
    for other in stage:
        values = [ms for step, ms in other.phases[phase].items() if step >= since and _known(ms)]
        if values:
            middles[other.rank] = statistics.median(values)
    if one.rank not in middles:
        return False
    middle = statistics.median(middles.values())
    spread = max(statistics.median(abs(value - middle) for value in middles.values()), 0.01 * middle, 1e-6)
    return 0.6745 * (middles[one.rank] - middle) / spread >= DEVIATION


def _facts(item: Late) -> Iterator[Fact]:
    where, entity = item.one.where, {"rank": item.one.rank}
    text = (
        f"rank {item.one.rank}: {item.phase.removesuffix('_ms')} takes {item.ratio:.2f} times its peers' median "
        f"since step {item.since}, {100 * item.cost:.0f} % of the step"
    )
    text = item.one.text or text  # what is cited must stand there
    values: dict[str, Value] = {
        "straggler.culprit": _KINDS[item.phase], "straggler.ratio": round(min(item.ratio, 1e6), 3),
        "straggler.since_step": item.since, "straggler.cost_share": round(item.cost, 3),
    }  # fmt: skip
    for name, value in values.items():
        yield Fact(name=name, value=value, where=where, entity=dict(entity), text=text, evidence=(where,))


def _imbalance(ranks: list[Series]) -> Iterator[Fact]:
    shares: list[float] = []
    slowest: set[int] = set()
    for stage in _stages(ranks):
        for step in sorted({step for one in stage for step in one.settled("fwd_ms")}):
            times = {one.rank: one.phases["fwd_ms"][step] for one in stage if step in one.phases["fwd_ms"]}
            mean = statistics.fmean(times.values()) if len(times) == len(stage) else math.nan
            if _known(mean) and mean > 0:
                shares.append(max(times.values()) / mean - 1)
                slowest.add(max(times, key=lambda rank: times[rank]))
    if len(shares) >= STEPS and len(slowest) > 1:
        value = round(statistics.median(shares), 4)
        where = ranks[0].where
        text = (
            ranks[0].text
            or f"the slowest of the ranks changes and exceeds their mean by {100 * value:.0f} % in the median step"
        )
        yield Fact(name="steps.imbalance", value=value, where=where, text=text, evidence=(where,))
