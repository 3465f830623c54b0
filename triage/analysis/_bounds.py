"""How much faster a step can get at most when a part of it is hidden (Amdahl's bound), in words and numbers."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from triage.model.event import Fact
from triage.model.incident import Incident

WORTH = 0.05  # of the step: smaller parts are not told
USED = 0.95  # of a GPU's memory: what needs more of it may not fit
BUSY = 80.0  # per cent: utilisation that looks like a well used GPU
_EPOCH = re.compile(r"\b[Ee]poch")
GIB = float(1 << 30)
_NAMES = {
    "data": "input",
    "communication": "communication with nothing under it",
    "launch": "waiting for launches",
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """Something that the step waits for, and its share of the step, 0 to 1."""

    name: str
    share: float

    @property
    def gain(self) -> float:
        """The factor by which the step gets faster at most with all of it hidden."""
        return 1 / max(1 - self.share, 1e-4)


def ordered(shares: dict[str, float]) -> list[Part]:
    """The parts worth telling, largest first."""
    parts = [Part(name, share) for name, share in shares.items() if share >= WORTH]
    return sorted(parts, key=lambda part: (-part.share, part.name))


def both(parts: list[Part]) -> float:
    """What is left of the step with the two largest parts hidden; they do not overlap."""
    return max(1 - sum(part.share for part in parts[:2]), 0.0)


def words(parts: list[Part], step_ms: float | None) -> str:
    """The first to mend and its bound, then the next, then both."""
    if not parts:
        return ""
    first, rest = parts[0], parts[1:2]
    told = f"{_NAMES[first.name]} {_percent(first.share)} of {_step(step_ms)}: "
    told += f"{_left(1 - first.share, step_ms)} at best with all of it hidden, {first.gain:.2f} times as fast"
    for part in rest:
        told += f"; then {_NAMES[part.name]}, {_percent(part.share)}: {_left(1 - part.share, step_ms)} by itself, "
        told += f"{_left(both(parts), step_ms)} with both hidden; change one thing at a time"
    return told


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _step(step_ms: float | None) -> str:
    return "the step" if step_ms is None else f"a {_ms(step_ms)} step"


def _left(share: float, step_ms: float | None) -> str:
    return f"{_percent(share)} of it" if step_ms is None else _ms(share * step_ms)


def _ms(value: float) -> str:
    return f"{value / 1000:.2f} s" if value >= 1000 else f"{value:.0f} ms"


def utilisation(incident: Incident, works: float | None = None) -> str:
    """That a utilisation figure is no throughput, with the figure that counts; empty when none looks high.

    works: the share of the step in which the device computes, where no counter of active multiprocessors was read.
    """
    active = _median(incident, "gpu.sm_active")
    seen = _median(incident, "gpu.utilization")
    if active is not None:
        counts = f"the multiprocessors were active for {active:.0f} % of the time"
    elif works is not None:
        counts = f"kernels computed for {_percent(works)} of the time"
    else:
        return ""
    if seen is not None and seen >= BUSY:
        return f"GPU utilisation of {seen:.0f} % says that some kernel ran, not how much got done: {counts}"
    return f"what counts is not utilisation, which any running kernel raises: {counts}"


def _median(incident: Incident, name: str) -> float | None:
    told = [value for fact in incident.facts if fact.name == name and (value := _number(fact)) is not None]
    return statistics.median(told) if told else None


def _number(fact: Fact) -> float | None:
    value = fact.value
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def memory(incident: Incident) -> str:
    """That device memory is nearly full, as a risk of what is to be changed; empty when it is not."""
    worst = max(_fillings(incident), default=None)
    if worst is None or worst[0] < USED:
        return ""
    return (
        f"memory at {worst[1] / GIB:.0f} of {worst[2] / GIB:.0f} GiB is a risk for changes that need more of it, "
        "not the cause"
    )


def _fillings(incident: Incident) -> Iterator[tuple[float, float, float]]:
    """(share, used, total) of GPUs, from nvidia-smi."""
    totals: dict[tuple[str, object], float] = {}
    for fact in incident.facts:
        if fact.name == "gpu.memory_total" and (total := _number(fact)):
            totals[fact.where.file, fact.entity.get("gpu")] = total
    for fact in incident.facts:
        if fact.name == "gpu.memory_used" and (used := _number(fact)) is not None:
            total = totals.get((fact.where.file, fact.entity.get("gpu")))
            if total:
                yield used / total, used, total


def epoch(incident: Incident, step_ms: float | None, parts: list[Part]) -> str:
    """An epoch in minutes, as it is and with the first part hidden; empty when no log counts an epoch's steps."""
    if step_ms is None or not parts:
        return ""
    totals = [
        mark.fields.get("total")
        for mark in incident.marks
        if mark.kind == "step" and "poch" in mark.event.text and _EPOCH.search(mark.event.text)
    ]
    steps = [int(total) for total in totals if isinstance(total, (int, str)) and str(total).isdigit()]
    if not steps:
        return ""
    minutes = max(steps) * step_ms / 60_000
    least = minutes * (1 - parts[0].share)
    return f"an epoch of {max(steps)} steps takes {minutes:.1f} min, then {least:.1f} min at best"


def sentence(*texts: str) -> str:
    """Those that say something, in one line."""
    return ". ".join(text[:1].upper() + text[1:] if at else text for at, text in enumerate(t for t in texts if t))
