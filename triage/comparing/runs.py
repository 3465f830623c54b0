"""One run as far as comparing goes: its step times by phase, throughput, memory, errors, and what was diagnosed."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable

from triage.analysis._series import PHASES, WARMUP, Series, series
from triage.analysis.steps import curves
from triage.comparing.hardware import Machine, state
from triage.model.base import Record, number
from triage.model.event import Fact
from triage.model.incident import Incident
from triage.model.report import Report

LIKELY = 0.4  # confidence from which a hypothesis counts as a diagnosis
_RATE = re.compile(
    r"CurrSamplesPerSec=(?P<a>[\d.]+)|samples/sec: (?P<b>[\d.]+)|\btps: (?P<c>[\d,.]+)|(?P<d>[\d.]+) ?(?:it|step)s?/s\b"
    r"|throughput per GPU \(TFLOP/s/GPU\): (?P<e>[\d.]+)"
)
_PEAKS = (("steps.series.alloc", "peak allocated"), ("snapshot.peak", "peak allocated"), ("gpu.memory_used", "in use"))


class Run(Record, frozen=True, kw_only=True):
    """A run.

    steps: phase (`step_ms` is the whole) -> ms of each step in order, the median over ranks. unit: `ms`, or
    `ms/sample` where a log tells the batch size of each step. rates: throughput as logs print it.
    waits: at each step, ms of data and forward that the slowest rank needs beyond the median one.
    memory: bytes by what they are. last_step: how far it came. causes: of hypotheses that are at least LIKELY.
    settings: (kind, name) -> values; told: the kinds of places that settings came from. hardware: what its GPUs said.
    """

    name: str
    steps: dict[str, list[float]]
    unit: str
    rates: list[float]
    waits: list[float]
    memory: dict[str, float]
    errors: dict[str, int]
    causes: list[str]
    verdict: str
    ranks: int | None
    last_step: int | None
    slower_from: int | None
    settings: dict[tuple[str, str], tuple[str, ...]]
    told: frozenset[str]
    hardware: Machine = {}


def run(
    name: str,
    incident: Incident,
    report: Report,
    settings: dict[tuple[str, str], tuple[str, ...]],
    told: frozenset[str],
) -> Run:
    """A run from what the pipeline understood of it."""
    ranks = series(incident)
    steps = _by_phase(ranks) or _logged(incident) or _traced(incident.facts)
    samples = any("global batch size" in mark.event.text for mark in incident.marks if mark.kind == "step")
    change = next((fact.value for fact in incident.facts if fact.name == "steps.change_step"), None)
    return Run(
        name=name,
        steps=steps,
        unit="ms/sample" if samples and not any(one.phases.get("step_ms") for one in ranks) else "ms",
        rates=_rates(incident),
        waits=_waits(ranks),
        memory=_memory(incident.facts),
        errors=_errors(incident),
        causes=sorted({found.cause for found in report.hypotheses if found.confidence >= LIKELY}),
        verdict=report.verdict,
        ranks=_ranks(incident, ranks),
        last_step=_last(incident),
        slower_from=change if isinstance(change, int) else None,
        settings=settings,
        told=told,
        hardware=state(incident),
    )


def _by_phase(ranks: list[Series]) -> dict[str, list[float]]:
    found = {phase: _over_ranks([one.settled(phase) for one in ranks]) for phase in ("step_ms", *PHASES)}
    return {phase: values for phase, values in found.items() if values} if found["step_ms"] else {}


def _over_ranks(ranks: Iterable[dict[int, float]]) -> list[float]:
    """At each step the median over the ranks, in order; NaN stands for what was not measured."""
    steps: dict[int, list[float]] = defaultdict(list)
    for values in ranks:
        for step, ms in values.items():
            if not math.isnan(ms):
                steps[step].append(ms)
    return [statistics.median(steps[step]) for step in sorted(steps)]


def _logged(incident: Incident) -> dict[str, list[float]]:
    """Whole steps, from step files without ranks and from log lines."""
    values = _over_ranks([{step: ms for step, ms, _ in curve} for curve in curves(incident)])
    return {"step_ms": values[WARMUP:] if len(values) >= 2 * WARMUP else values} if values else {}


def _traced(facts: tuple[Fact, ...]) -> dict[str, list[float]]:
    told = [fact.value for fact in facts if fact.name == "profile.series.step_ms" and isinstance(fact.value, list)]
    values = _over_ranks([dict(enumerate(float(ms) for ms in row)) for row in told])
    return {"step_ms": values} if values else {}


def _rates(incident: Incident) -> list[float]:
    """As the log prints them, in order; of the file that prints most."""
    files: dict[str, list[float]] = defaultdict(list)
    for mark in incident.marks:
        if mark.kind == "step" and (found := _RATE.search(mark.event.text)):
            told = number(next(group for group in found.groups() if group).replace(",", "").rstrip("."))
            if told is not None and told > 0:
                files[mark.event.where.file].append(told)
    best = max(sorted(files), key=lambda file: len(files[file]), default=None)
    if best is None:
        return []
    return files[best][WARMUP:] if len(files[best]) >= 2 * WARMUP else files[best]


def _waits(ranks: list[Series]) -> list[float]:
    """Backward holds the waiting itself, so that only what comes before it tells who is late."""
    steps: dict[int, list[float]] = defaultdict(list)
    for one in ranks:
        data, forward = one.settled("data_ms"), one.settled("fwd_ms")
        for step in data.keys() | forward.keys():
            ms = data.get(step, 0.0) + forward.get(step, 0.0)
            if not math.isnan(ms):
                steps[step].append(ms)
    return [max(row) - statistics.median(row) for _, row in sorted(steps.items()) if len(row) > 1]


def _memory(facts: tuple[Fact, ...]) -> dict[str, float]:
    found: dict[str, float] = {}
    for fact in facts:
        label = next((label for name, label in _PEAKS if name == fact.name), None)
        values = fact.value if isinstance(fact.value, list) else [fact.value]
        told = [float(v) for v in values if isinstance(v, (int, float)) and not math.isnan(v)]
        if label is not None and told:
            found[label] = max(found.get(label, 0.0), *told)
    return found


def _errors(incident: Incident) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for placed in incident.signals:
        signature = placed.signal.signature
        if placed.episode == incident.answered and signature.severity != "info" and signature.role != "context":
            counts[signature.id] += placed.signal.count
    return dict(sorted(counts.items()))


def _ranks(incident: Incident, ranks: list[Series]) -> int | None:
    told = [fact.value for fact in incident.facts if fact.name == "steps.world_size"]
    sizes = [value for value in (incident.world_size, *told) if isinstance(value, int)]
    return max(sizes) if sizes else (max(len(ranks), len(incident.ranks)) or None)


def _last(incident: Incident) -> int | None:
    told = [number(fact.value) for fact in incident.facts if fact.name == "steps.last"]
    marks = [number(mark.fields.get("step")) for mark in incident.marks if mark.kind == "step"]
    steps = [int(step) for step in (*told, *marks) if step is not None]
    return max(steps) if steps else None
