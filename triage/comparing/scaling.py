"""Runs of several sizes: speed-up and efficiency against linear, by phase, and what eats the rest."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal

from triage.comparing.intervals import mean, ratio, typical
from triage.comparing.runs import Run
from triage.comparing.verdicts import PHASES
from triage.errors import UsageError
from triage.model.comparison import Eaten, Scaling, Size

Mode = Literal["weak", "strong"]
LEAST = 0.02  # of the step: smaller losses are not told as what eats it
_GLOBAL = ("global_batch_size", "train_batch_size")


def scaling(runs: Sequence[Run], mode: Mode | None = None) -> Scaling:
    """The smallest run is the base. Raises UsageError when sizes or step times are missing."""
    for run in runs:
        if not run.ranks or not run.steps.get("step_ms"):
            raise UsageError(
                f"{run.name}: {'how many ranks ran' if not run.ranks else 'step times'} cannot be read there"
            )
        if run.unit != runs[0].unit:
            raise UsageError(f"{run.name}: its log tells {run.unit}, that of {runs[0].name} {runs[0].unit}")
    ordered = sorted(runs, key=lambda run: (run.ranks or 0, run.name))
    if ordered[0].ranks == ordered[-1].ranks:
        raise UsageError(f"all runs have {ordered[0].ranks} ranks: scaling needs runs of different sizes")
    known = _mode(ordered)
    told = mode or known or "weak"
    sizes = [_size(ordered[0], run, told) for run in ordered]
    return Scaling(
        mode=told, assumed=mode is None and known is None, sizes=sizes, why=_why(sizes), notes=_notes(ordered)
    )


def _mode(runs: Sequence[Run]) -> Mode | None:
    """Strong when all share the batch of all ranks together, weak when it grows with them."""
    if runs[0].unit == "ms/sample":
        return "strong"  # a sample is the same work at every size
    for name in _GLOBAL:
        told = [run.settings.get(("setting", name)) for run in runs]
        sizes = [float(one[0]) for one in told if one and len(one) == 1 and one[0].isdigit()]
        if len(sizes) == len(runs):
            return "strong" if len(set(sizes)) == 1 else "weak"
    return None


def _size(base: Run, run: Run, mode: Mode) -> Size:
    factor = _ranks(run) / _ranks(base)
    shrinks = factor if mode == "strong" else 1.0
    one, two = (typical(of.steps["step_ms"]) for of in (base, run))
    before, after = statistics.fmean(one), statistics.fmean(two)
    efficiency = before / shrinks / after
    means = mean(one), mean(two)
    found = ratio(means[0], means[1]) if run is not base and means[0] and means[1] else None
    return Size(
        name=run.name,
        ranks=_ranks(run),
        step_ms=round(after, 4),
        speed_up=round(efficiency * factor, 4),
        linear=round(factor, 4),
        efficiency=round(efficiency, 4),
        low=None if found is None else round(1 / (found.high * shrinks), 4),
        high=None if found is None else round(1 / (found.low * shrinks), 4),
        phases=[] if run is base else _eaten(base, run, shrinks, before, after),
        waits_ms=round(statistics.fmean(run.waits), 4) if run.waits else None,
    )


def _eaten(base: Run, run: Run, shrinks: float, before: float, after: float) -> list[Eaten]:
    """Each phase that both measured, and the rest of the step, largest loss first."""
    rows, rest_before, rest_after = [], before, after
    for phase in PHASES:
        one, two = base.steps.get(phase), run.steps.get(phase)
        if one and two:
            was, now = statistics.fmean(typical(one)), statistics.fmean(typical(two))
            rest_before, rest_after = rest_before - was, rest_after - now
            rows.append(_row(phase.removesuffix("_ms"), was / shrinks, now))
    if rows:
        rows.append(_row("rest of the step", max(rest_before, 0.0) / shrinks, max(rest_after, 0.0)))
    return sorted(rows, key=lambda row: (-row.lost_ms, row.phase))


def _row(phase: str, linear: float, now: float) -> Eaten:
    return Eaten(phase=phase, ms=round(now, 4), linear_ms=round(linear, 4), lost_ms=round(now - linear, 4))


def _ranks(run: Run) -> int:
    return run.ranks or 1


def _why(sizes: Sequence[Size]) -> str:
    """What eats the largest run's efficiency."""
    last = sizes[-1]
    eats = [row for row in last.phases if row.lost_ms >= LEAST * last.step_ms][:3]
    told = f"{last.ranks} ranks run at {100 * last.efficiency:.0f} % of linear"
    if not last.phases:
        return f"{told}; the phases of the step are not measured, so what eats the rest is unknown"
    if not eats:
        return f"{told}; no phase loses more than {100 * LEAST:.0f} % of the step"
    return f"{told}; lost: " + ", ".join(f"{row.phase} {row.lost_ms:.1f} ms" for row in eats) + " of each step"


def _notes(runs: Sequence[Run]) -> list[str]:
    notes = []
    last = runs[-1]
    if last.waits and statistics.fmean(last.waits) >= LEAST * statistics.fmean(last.steps["step_ms"]):
        ms = statistics.fmean(last.waits)
        notes.append(
            f"the slowest rank needs {ms:.1f} ms more for data and forward: the others wait for it in backward"
        )
    notes += [f"{run.name} has a fault of its own: {', '.join(run.causes)}" for run in runs if run.causes]
    return notes
