"""Step times of all ranks side by side, from step-time files or, when there are none, from the ranks' log lines."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace

from triage.model.base import number
from triage.model.event import Fact, Mark, Where
from triage.model.incident import Incident

PHASES = ("data_ms", "ckpt_ms", "gc_ms", "host_ms", "fwd_ms", "opt_ms", "bwd_ms", "comm_ms")  # least waiting first
WARMUP = 5
_WORDS = {
    "data": "data_ms", "dataloader": "data_ms", "data_time": "data_ms", "data-time": "data_ms", "dataload": "data_ms",
    "batch-generator": "data_ms", "fwd": "fwd_ms", "forward": "fwd_ms", "forward-compute": "fwd_ms",
    "bwd": "bwd_ms", "backward": "bwd_ms", "backward-compute": "bwd_ms", "opt": "opt_ms", "optim": "opt_ms",
    "optimizer": "opt_ms", "comm": "comm_ms", "communication": "comm_ms", "allreduce": "comm_ms", "wait": "comm_ms",
    "sync": "comm_ms", "gc": "gc_ms", "ckpt": "ckpt_ms", "checkpoint": "ckpt_ms",
}  # fmt: skip
_PHASE = re.compile(
    r"(?<![\w-])("
    + "|".join(sorted(_WORDS, key=len, reverse=True))
    + r")(?:[_ ]?(?:time|ms))?\s*[:=]?\s*(\d+(?:\.\d+)?)\s*(ms|s|us)\b"
)
_UNIT = re.compile(r"\d\s*(?:ms|us|s)\b")  # without it no phase: most step lines end here, at a third of the time
_SCALE = {"ms": 1.0, "s": 1000.0, "us": 1e-3}


@dataclass
class Series:
    """One rank: phase -> {step: ms}; the place where it stands, and the line there when it is one."""

    rank: int
    where: Where
    stage: int | None = None
    text: str = ""
    phases: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))

    def settled(self, phase: str) -> dict[int, float]:
        """Without the first WARMUP steps, unless there are hardly more."""
        values = self.phases.get(phase, {})
        late = sorted(values)[WARMUP:]
        return {step: values[step] for step in late} if len(late) >= WARMUP else dict(values)


_last: list[tuple[Incident, list[Series]]] = []  # several analyses ask about one incident, one after the other


def series(incident: Incident) -> list[Series]:
    """All ranks with step times, by rank."""
    if not _last or _last[0][0] is not incident:
        _last[:] = [(incident, _series(incident))]
    return [replace(one, phases=defaultdict(dict, one.phases)) for one in _last[0][1]]


def _series(incident: Incident) -> list[Series]:
    found = _of_files(incident.facts)
    if len(found) < 2 and len(logged := _of_logs(incident)) > len(found):
        found = logged
    return [found[rank] for rank in sorted(found)]


def _of_files(facts: tuple[Fact, ...]) -> dict[int, Series]:
    steps: dict[tuple[str, int], list[float]] = {}
    found: dict[int, Series] = {}
    for fact in facts:
        rank = fact.entity.get("rank")
        if isinstance(rank, int) and fact.name == "steps.series.step" and isinstance(fact.value, list):
            steps[fact.where.file, rank] = [float(step) for step in fact.value]
            found.setdefault(rank, Series(rank, fact.where))
    for fact in facts:
        rank = fact.entity.get("rank")
        if not isinstance(rank, int) or rank not in found:
            continue
        if fact.name == "steps.stage" and isinstance(fact.value, int):
            found[rank].stage = fact.value
        if fact.name.startswith("steps.series.") and isinstance(fact.value, list):
            pairs = zip(steps.get((fact.where.file, rank), []), fact.value, strict=False)
            told = {int(step): float(ms) for step, ms in pairs if isinstance(ms, (int, float))}
            found[rank].phases[fact.name.removeprefix("steps.series.")].update(told)
    return found


def _of_logs(incident: Incident) -> dict[int, Series]:
    found: dict[int, Series] = {}
    for mark in incident.marks:
        step, rank = number(mark.fields.get("step")), mark.event.rank
        if mark.kind != "step" or step is None or rank is None:
            continue
        one = found.setdefault(rank, Series(rank, mark.event.where, text=mark.event.text))
        if (ms := step_ms(mark)) is not None:
            one.phases["step_ms"][int(step)] = ms
        text = mark.event.text.lower()
        for name, amount, unit in _PHASE.findall(text) if _UNIT.search(text) else ():
            one.phases[_WORDS[name]][int(step)] = float(amount) * _SCALE[unit]
    return found


def step_ms(mark: Mark) -> float | None:
    """Duration of the step that a line tells, in ms."""
    ms, s = number(mark.fields.get("step_ms")), number(mark.fields.get("step_s"))
    return ms if ms is not None else s * 1000 if s is not None else None
