"""What the page draws, taken from the incident that the report is about."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone

from triage.model.event import Event, Stamp, Where
from triage.model.incident import Incident, Placed
from triage.model.pictures import Demoted, Pictures, Point, Span
from triage.model.report import Report
from triage.report.charts import cluster, heat, memory, waits
from triage.report.excerpts import Contexts
from triage.timeline import rfc3339

DEMOTED = 12  # kinds of demoted messages told
YEAR = 366 * 86400.0
LATEST = 8000 * YEAR  # datetime ends with the year 9999
FAULTS = frozenset({"error", "fatal"})
Moment = Callable[[Event], float | None]


def draw(
    incident: Incident,
    report: Report,
    moment: Moment,
    reasons: Mapping[str, str],
    contexts: Contexts,
    times: heat.Times,
    places: dict[int, Where],
) -> Pictures:
    """All pictures.

    moment: seconds of an event on the common time line. reasons: why a causality rule holds, by its id.
    times: ms by part of the step, rank and step; places: where those of each rank stand.
    """
    waiting, blockers = waits.collect(incident)
    return Pictures(
        evidence=_digest(incident),
        span=_span(incident, moment),
        heat=heat.collect(incident, times, places),
        waiting=waiting,
        blockers=blockers,
        memory=memory.collect(incident),
        nodes=cluster.collect(incident, report),
        demoted=tuple(_demoted(incident, reasons))[:DEMOTED],
        titles={item.signal.signature.id: item.signal.signature.title for item in incident.signals},
        contexts=contexts,
    )


def _digest(incident: Incident) -> str:
    last = {each.file: each.last_text for each in incident.summaries}
    rows = sorted(f"{file.path}\0{file.size}\0{last.get(file.path, '')}" for file in incident.files)
    return hashlib.sha256("\n".join(rows).encode("utf-8", "replace")).hexdigest()


def _span(incident: Incident, moment: Moment) -> Span:
    steps = [mark for mark in incident.marks if mark.kind in {"step", "end"}]
    own = [item for item in incident.signals if item.episode == incident.answered]
    points = list(_points(incident, moment))
    end = max(points, key=lambda point: point.at, default=None)
    if incident.episodes and incident.answered != incident.episodes[-1].index:  # steps of later runs are not its own
        end = max(_of_signals(own), key=lambda point: point.at, default=end)
    times = [(at, mark) for mark in steps if (at := moment(mark.event)) is not None and (end is None or at <= end.at)]
    last = max(times, key=lambda row: row[0], default=None)
    failing = [item for item in own if item.signal.signature.severity in FAULTS and item.rule is None]
    numbers = [step for mark in steps if isinstance(step := mark.fields.get("step"), int)]
    numbers += [rank.last_step for rank in incident.ranks.values() if rank.last_step is not None]
    return Span(
        ranks=incident.world_size or len(incident.ranks) or None,
        start=min(points, key=lambda point: point.at, default=None),
        last_progress=_point(last[0], last[1].event) if last else None,
        last_step=max(numbers, default=None),
        end=end,
        first_failure=min(_of_signals(failing), key=lambda point: point.at, default=None),
        slowed=max(_costs(incident), default=None),
        well=_well(incident),
    )


def _well(incident: Incident) -> Where | None:
    """The last end of a training, the last check that passed, or a GPU whose fields can be read."""
    for kind in ("end", "well"):
        marks = [mark for mark in incident.marks if mark.kind == kind]
        if marks:
            return marks[-1].event.where
    readable = (fact.where for fact in incident.facts if fact.name == "gpu.readable" and fact.value == "yes")
    return next(readable, None)


def _costs(incident: Incident) -> Iterator[float]:
    """The part of the step that each straggler costs."""
    for fact in incident.facts:
        if fact.name == "straggler.cost_share" and isinstance(fact.value, float):
            yield fact.value


def _points(incident: Incident, moment: Moment) -> Iterator[Point]:
    """Everything dated that the job itself or its scheduler said; a kernel log goes on for weeks."""
    for mark in incident.marks:
        if mark.event.source != "kernel_log" and (at := moment(mark.event)) is not None:
            yield _point(at, mark.event)
    for item in incident.signals:
        event = item.signal.event
        if event.source not in {"kernel_log", "fabric_manager"} and (at := moment(event)) is not None:
            yield _point(at, event)
    for fact in incident.facts:
        if fact.name in {"slurm.job.start", "slurm.job.end"} and fact.time and fact.time.kind in {"utc", "local"}:
            yield Point(at=fact.time.seconds, label=_label(fact.time.seconds, fact.time), where=fact.where)


def _of_signals(items: Iterable[Placed]) -> Iterator[Point]:
    yield from (_point(item.at, item.signal.event) for item in items if item.at is not None)


def _point(at: float, event: Event) -> Point:
    return Point(at=at, label=_label(at, event.time), where=event.where)


def _label(at: float, stamp: Stamp | None) -> str:
    """UTC says so; what has no zone, or no date, does not pretend to have one."""
    if not 0 <= at < LATEST:  # a number that is no time of this calendar
        return f"{at:.1f} s"
    if stamp is not None and stamp.kind == "utc":
        return rfc3339(at)
    form = "%m-%d %H:%M:%S" if at < YEAR else "%Y-%m-%d %H:%M:%S"
    return datetime.fromtimestamp(at, timezone.utc).strftime(form)


def _demoted(incident: Incident, reasons: Mapping[str, str]) -> Iterator[Demoted]:
    """Root causes and symptoms that are none, one for each kind; effects first."""
    items = [item for item in incident.signals if item.rule and item.signal.signature.role != "context"]
    items.sort(key=lambda item: (item.signal.signature.role != "root-cause", not item.effect_of, item.at or 0.0))
    seen: set[tuple[str, str]] = set()
    for item in items:
        key = (item.signal.signature.id, item.rule or "")
        if key not in seen:
            seen.add(key)
            by = incident.signals[item.effect_of[0]].signal.signature.title if item.effect_of else ""
            yield Demoted(
                signature=key[0], title=item.signal.signature.title, rule=key[1], by=by, count=item.signal.count,
                why=reasons.get(key[1], ""), where=_where(item),
            )  # fmt: skip


def _where(item: Placed) -> Where:
    return item.signal.event.where
