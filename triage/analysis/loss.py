"""What the loss did, from the step lines of logs and from step files.

loss.verdict      nan | diverged | gradient-nan | scale-minimum | spike: the worst over all logs, without a rank
loss.since_step   the first step of it
loss.before, loss.peak    median before it and highest value after (finite ones)
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from triage.model.base import Value
from triage.model.event import Fact, Where
from triage.model.incident import Incident

JUMP = 1.5  # times the median before
RISE = 0.5  # and by this much: losses near zero jump by factors
BEFORE = 20  # values of the past that count
SETTLED = 5  # values before a single high one: the first steps of a run go up and down
LAST = 3  # steps at the end whose gradient norm is no number: a loss scaler skips one or two
_ORDER = ("nan", "diverged", "gradient-nan", "scale-minimum", "spike")
_NORM = re.compile(r"[Gg]rad(?:ient)?[ _]?_?[Nn]orm['\")]?\s{0,3}[:=]\s{0,4}[+-]?(\d|(?i:nan|inf)\b)")
_SCALE = re.compile(r"loss[ _]scale\s*[:=]\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)")
_LOSS = re.compile(
    r"(?<!val )(?<!eval )(?<![\w/])(?:lm[ _]|train(?:ing)?[ _/]|reduced_train_)?loss['\"]?\s*[:=]\s*"
    r"([+-]?(?:nan|inf(?:inity)?|\d{1,30}(?:\.\d{0,30})?(?:e[+-]?\d{1,3})?))(?![\w.])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Point:
    """One line: step, loss (NaN and infinity as such), loss scale when it has one, where, the line there."""

    step: int
    loss: float | None
    scale: float | None
    where: Where
    text: str = ""
    norm: bool | None = None  # is the norm of its gradient a number, when the line tells it


@dataclass(frozen=True)
class Found:
    """What happened, from which line on, with the median before and the highest after."""

    kind: str
    at: Point
    before: float | None = None
    peak: float | None = None


def derive(incident: Incident) -> Iterator[Fact]:
    """The worst of all logs."""
    found = [item for points in _curves(incident) if (item := _judge(points))]
    if not found:
        return
    worst = min(found, key=lambda item: (_ORDER.index(item.kind), item.at.step, item.at.where.file))
    where, text = worst.at.where, worst.at.text or f"{worst.kind} from step {worst.at.step}"
    values: dict[str, Value] = {
        "loss.verdict": worst.kind, "loss.since_step": worst.at.step,
        "loss.before": worst.before, "loss.peak": worst.peak,
    }  # fmt: skip
    for name, value in values.items():
        if value is not None:
            yield Fact(name=name, value=value, where=where, text=text, evidence=(where,))


def _curves(incident: Incident) -> list[list[Point]]:
    """The points of each log and rank, by step; a step that is told again after a restart counts once, the last."""
    curves: dict[tuple[str, int | None], dict[int, Point]] = defaultdict(dict)
    for mark in incident.marks:
        step = _float(mark.fields.get("step"))
        if mark.kind != "step" or step is None or not math.isfinite(step):
            continue
        scale = _SCALE.search(mark.event.text) if "scale" in mark.event.text else None
        told = mark.fields.get("loss")
        named = _LOSS.search(mark.event.text) if told is None else None
        value = _float(named.group(1) if named else told)
        number = float(scale.group(1)) if scale else None
        norm = _NORM.search(mark.event.text) if "orm" in mark.event.text else None
        finite = norm.group(1).isdigit() if norm else None
        point = Point(int(step), value, number, mark.event.where, mark.event.text, finite)
        curves[mark.event.where.file, mark.event.rank][int(step)] = point
    for fact in incident.facts:
        if fact.name == "steps.series.loss" and isinstance(fact.value, list):
            for at, item in enumerate(fact.value):
                place = Where(file=fact.where.file, at=f"value {at}")
                curves[fact.where.file, -1][at] = Point(at, _float(item), None, place)
    return [[points[step] for step in sorted(points)] for points in curves.values()]


def _float(value: object) -> float | None:
    """A number, also NaN and infinity; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _judge(points: list[Point]) -> Found | None:
    told = [point for point in points if point.loss is not None]
    return _not_a_number(told) or (None if _by_epoch(points) else _jump(told)) or _gradients(points) or _scale(points)


def _by_epoch(points: list[Point]) -> bool:
    """Bars that count from the start again in each epoch: one number stands for many steps, and each is one batch."""
    lines = sorted(points, key=lambda point: point.where.line or 0)
    falls = sum(after.step < before.step / 10 for before, after in itertools.pairwise(lines))
    return falls > 1


def _not_a_number(told: list[Point]) -> Found | None:
    """Twice in a row, or last: a single one is skipped by a loss scaler."""
    bad = [point.loss is not None and not math.isfinite(point.loss) for point in told]
    for index, is_bad in enumerate(bad):
        if is_bad and (index + 1 == len(bad) or bad[index + 1]):
            finite = [p.loss for p in told[:index] if p.loss is not None and math.isfinite(p.loss)]
            return Found("nan", told[index], before=statistics.median(finite) if finite else None)
    return None


def _jump(told: list[Point]) -> Found | None:
    """A value far above the past: diverged when it stays up to the end of the log, a spike when it comes back."""
    values = [point.loss for point in told if point.loss is not None and math.isfinite(point.loss)]
    points = [point for point in told if point.loss is not None and math.isfinite(point.loss)]
    for index in range(2, len(values)):
        past = values[max(index - BEFORE, 0) : index]
        if values[index] < min(past) + RISE:
            continue  # nor above the median
        middle = statistics.median(past)
        spread = statistics.median(abs(value - middle) for value in past)
        if values[index] < max(JUMP * middle, middle + RISE, middle + 8 * spread):
            continue
        after = values[index:]
        stays = len(after) > 1 and statistics.median(after[-3:]) >= max(JUMP * middle, middle + RISE)
        if not stays and index < SETTLED:
            continue
        return Found("diverged" if stays else "spike", points[index], before=round(middle, 6), peak=max(after))
    return None


def _gradients(points: list[Point]) -> Found | None:
    """The norm is no number up to the end: nothing is learnt any more, whatever the loss says."""
    told = [point for point in points if point.norm is not None]
    bad = list(itertools.takewhile(lambda point: not point.norm, reversed(told)))
    return Found("gradient-nan", bad[-1]) if len(bad) >= LAST else None


def _scale(points: list[Point]) -> Found | None:
    """The loss scale fell to one or below and stayed: every step overflows."""
    scales = [(point, point.scale) for point in points if point.scale is not None]
    low = [point for point, scale in scales if scale <= 1]
    fell = any(scale > 1 for _, scale in scales)
    return Found("scale-minimum", low[0]) if fell and len(low) > 1 and scales[-1][1] <= 1 else None
