"""Which rank holds the others up, in which part of its step, and since when; uneven work over the ranks.

straggler.culprit     one a rank (entity rank): data | checkpoint | host | compute | communication | unknown
straggler.ratio       its time in that part over its peers' median
straggler.since_step  the first step from which it lasts; straggler.until_step: the first that is as before, if it ends
straggler.cost_share  how much of the step it costs, 0 to 1
straggler.gpu_differs beside a culprit slow in compute: what its GPU reads differently from its peers (`peers` has the
                      words), one fact a reading
steps.imbalance       median over the steps of (slowest rank's compute / mean of its stage) - 1; said when no rank is
                      always the slowest
steps.uneven          yes when that is more than equal work shows, said beside it

A slow rank is late in one part, and its peers wait for it in the next part that communicates, mostly the backward
pass. So of two ranks that each exceed the other in a different part, the one whose part communicates less is slow.
Ranks are compared within a pipeline stage only.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from triage.analysis import peers
from triage.analysis._series import PHASES, Series, series
from triage.analysis._slow import STEPS, Slow, slow
from triage.model.base import Scalar, Value
from triage.model.event import Fact
from triage.model.incident import Incident, Rank

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Tables = dict[str, NDArray[Any]]

OWN = ("data_ms", "ckpt_ms", "gc_ms", "host_ms")  # no waiting in them: of several the one that costs most
SOLO = (*OWN, "fwd_ms", "opt_ms")  # hardly any: a minority that is late in one of them is no victim of another rank
MANY = 5  # ranks from which a minority can be told
# The slowest of n draws is this many standard deviations above their mean (normal order statistics), so fewer ranks of
# work as uneven exceed it by less. From four ranks on one bound serves.
_ABOVE = {2: 0.564, 3: 0.846}
UNEVEN, _FOUR = 0.16, 1.029
_KINDS = {
    "data_ms": "data", "ckpt_ms": "checkpoint", "gc_ms": "host", "host_ms": "host", "fwd_ms": "compute",
    "bwd_ms": "compute", "opt_ms": "compute", "comm_ms": "communication", "step_ms": "unknown", "own_ms": "unknown",
}  # fmt: skip


@dataclass(frozen=True)
class Late:
    """A rank that is late in a phase, from a step on and until another, when it ends."""

    one: Series
    phase: str
    ratio: float
    since: int
    until: int | None
    cost: float


def derive(incident: Incident) -> Iterator[Fact]:
    """Stragglers of each stage; else the imbalance."""
    ranks = series(incident)
    late = [item for stage in _stages(ranks) for item in _late(stage)]
    for item in late:
        yield from _facts(item)
    yield from _unlike(incident, [item for item in late if _KINDS[item.phase] == "compute"])
    if not late:
        yield from _imbalance(ranks)


def _unlike(incident: Incident, late: list[Late]) -> Iterator[Fact]:
    """What the GPUs of slow ranks read differently from their peers."""
    slow_ranks = [incident.ranks[item.one.rank] for item in late if item.one.rank in incident.ranks]
    differing = list(peers.derive(incident)) if slow_ranks else []
    for rank in slow_ranks:
        for fact in differing:
            kinds = fact.value if isinstance(fact.value, list) and _sits_there(rank, fact.entity) else []
            for kind in kinds:
                yield replace(fact, name="straggler.gpu_differs", value=kind, entity={"rank": rank.rank})


def _sits_there(rank: Rank, gpu: dict[str, Scalar]) -> bool:
    if gpu.get("node") not in (None, rank.node):
        return False
    key = "pci" if gpu.get("pci") is not None and rank.pci is not None else "gpu"
    return gpu.get(key) is not None and gpu[key] == getattr(rank, key)


def _stages(ranks: list[Series]) -> list[list[Series]]:
    stages: dict[int | None, list[Series]] = defaultdict(list)
    for one in ranks:
        stages[one.stage].append(one)
    return [stage for _, stage in sorted(stages.items(), key=lambda item: item[0] or 0) if len(stage) > 1]


def _late(stage: list[Series]) -> list[Late]:
    steps, tables = _tables(stage)
    found = judged(tables)
    return [
        Late(
            stage[item.row], phase, item.ratio, steps[item.first] if item.began else steps[0],
            steps[item.end] if item.ended else None, item.cost,
        )
        for phase, item in found
    ]  # fmt: skip


def judged(tables: Tables) -> list[tuple[str, Slow]]:
    """The late rows with the phase of each. `tables`: phase -> ranks by steps, ms, NaN where not measured."""
    whole = _whole(tables)
    found = {phase: slow(tables[phase], whole) for phase in SOLO if phase in tables}
    if len(whole) >= MANY:
        late = _worst(found)
        if late and len(late) <= max(1, len(whole) // 4):
            return late
    own = {phase: found[phase] for phase in OWN if found.get(phase)}
    if own:
        phase = max(own, key=lambda name: max(item.cost for item in own[name]))
        return [(phase, item) for item in own[phase]]
    return _waiting(tables, whole, found)


def _worst(found: dict[str, list[Slow]]) -> list[tuple[str, Slow]]:
    """Each late row in the phase that costs it most."""
    worst: dict[int, tuple[str, Slow]] = {}
    for phase, items in found.items():
        for item in items:
            if item.row not in worst or item.cost > worst[item.row][1].cost:
                worst[item.row] = (phase, item)
    return [worst[row] for row in sorted(worst)]


def _waiting(tables: Tables, whole: NDArray[Any], found: dict[str, list[Slow]]) -> list[tuple[str, Slow]]:
    """The late rows of the first phase that has any; in the phases after it others wait for them."""
    tables = tables | _remainder(tables)
    phases: list[str] = [phase for phase in ("fwd_ms", "opt_ms", "bwd_ms") if phase in tables]
    phases = phases or [phase for phase in ("own_ms", "comm_ms") if phase in tables] or ["step_ms"]
    for phase in phases:
        items = found[phase] if phase in found else slow(tables[phase], whole) if phase in tables else []
        if items:
            return [(phase, item) for item in items]
    return []


def _remainder(tables: Tables) -> Tables:
    """The step without its communication, where nothing else of its work was measured: who waits least is late."""
    if "comm_ms" not in tables or "step_ms" not in tables:
        return {}
    return {"own_ms": tables["step_ms"] - tables["comm_ms"]}


def _whole(tables: Tables) -> NDArray[Any]:
    """The whole step in ms, from its own number or its parts."""
    import numpy

    parts = [tables[phase] for phase in PHASES if phase in tables]
    summed = numpy.sum([numpy.nan_to_num(part) for part in parts], axis=0) if parts else tables["step_ms"]
    if "step_ms" not in tables:
        return summed
    return numpy.where(numpy.isnan(tables["step_ms"]), summed, tables["step_ms"])


def _tables(stage: list[Series]) -> tuple[list[int], Tables]:
    """The settled steps of any rank, and for each phase that two ranks measured the ranks' times at them."""
    import numpy

    told = {phase: [one.settled(phase) for one in stage] for phase in (*PHASES, "step_ms")}
    told = {phase: rows for phase, rows in told.items() if sum(map(bool, rows)) > 1}
    steps = sorted({step for rows in told.values() for row in rows for step in row})
    tables = {
        phase: numpy.array([[row.get(step, math.nan) for step in steps] for row in rows], dtype=float)
        for phase, rows in told.items()
    }
    return steps, tables or {"step_ms": numpy.full((len(stage), len(steps)), math.nan)}


def _facts(item: Late) -> Iterator[Fact]:
    where, entity = item.one.where, {"rank": item.one.rank}
    text = (
        f"rank {item.one.rank}: {item.phase.removesuffix('_ms')} takes {item.ratio:.2f} times its peers' median "
        f"{'since' if item.until is None else 'from'} step {item.since}"
        f"{'' if item.until is None else f' to {item.until}'}, {100 * item.cost:.0f} % of the step"
    )
    text = item.one.text or text  # what is cited must stand there
    values: dict[str, Value] = {
        "straggler.culprit": _KINDS[item.phase], "straggler.ratio": round(min(item.ratio, 1e6), 3),
        "straggler.since_step": item.since, "straggler.cost_share": round(item.cost, 3),
    }  # fmt: skip
    if item.until is not None:
        values["straggler.until_step"] = item.until
    for name, value in values.items():
        yield Fact(name=name, value=value, where=where, entity=dict(entity), text=text, evidence=(where,))


def _imbalance(ranks: list[Series]) -> Iterator[Fact]:
    shares: list[float] = []
    slowest: set[int] = set()
    for stage in _stages(ranks):
        for step in sorted({step for one in stage for step in one.settled("fwd_ms")}):
            times = {one.rank: one.phases["fwd_ms"][step] for one in stage if step in one.phases["fwd_ms"]}
            mean = statistics.fmean(times.values()) if len(times) == len(stage) else math.nan
            if mean > 0:
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
        widest = max(len(stage) for stage in _stages(ranks))
        uneven = value >= UNEVEN * _ABOVE.get(widest, _FOUR) / _FOUR
        yield Fact(name="steps.uneven", value="yes" if uneven else "no", where=where, text=text, evidence=(where,))
