"""The incident graph, built in one pass: identity, clocks, episodes, the job's window, cause edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from triage.graph import cascade, clocks, episodes, identity
from triage.graph.pace import Pace
from triage.model.base import Scalar
from triage.model.bundle import File, Gap
from triage.model.event import Event, Fact, Mark, Signal
from triage.model.incident import Incident, Placed, Rank
from triage.model.summary import Summary

BEFORE_S = 300.0  # a kernel event this long before the job's first line may still be its own (prolog, start-up)
UNSEEN_S = 3600.0  # a log that begins with the failure hides the work before it: the longest usual limits, twice
AFTER_S = 900.0  # and this long after its end (teardown, watchdogs, clock offsets not yet known)
PROGRESS_S = 120.0  # steps of another file this long after a survivable signal make it noise
READINGS = frozenset({"nvidia_smi", "gpu", "nvlink"})  # a reading says how it was then, not since when
_BAR = "%|"  # of a progress bar
FAILURES = frozenset({"error", "fatal"})


def build(
    files: Sequence[File],
    signals: Sequence[Signal],
    marks: Sequence[Mark],
    facts: Sequence[Fact],
    gaps: Sequence[Gap],
    summaries: Sequence[Summary] = (),
) -> Incident:
    """Everything known, placed in time and episode and joined by cause edges."""
    signals = _ranked(signals, marks, facts)
    who = identity.identify(files, signals, marks, facts)
    time = clocks.line_up(signals, marks, facts)
    found = episodes.find(files, signals, marks, time.at)
    window = _window(time, marks, facts, signals)
    homes = _homes(facts)
    placed = [_place(signal, who, time, found, window, homes) for signal in signals]
    failed = {item.episode for item in placed if item.rule is None and item.signal.signature.severity in FAILURES}
    rows, answered = episodes.epochs(found, failed, episodes.ended(found, marks, time.at))
    progress, pace = _last_progress(time, marks, facts), Pace(marks, time)
    placed = cascade.demote([_quiet(item, progress, pace, answered) for item in placed])
    return Incident(
        files=tuple(files),
        signals=tuple(placed),
        facts=tuple(facts),
        marks=tuple(marks),
        ranks=_progress(who, marks),
        gpus=who.gpus,
        nodes=who.nodes,
        world_size=who.world_size,
        episodes=rows,
        answered=answered,
        gaps=tuple(gaps),
        summaries=tuple(summaries),
        start=window[0],
        hang_start=_hang_start(placed),
        end=window[1],
    )


def extend(incident: Incident, signals: Sequence[Signal], facts: Sequence[Fact]) -> Incident:
    """The incident with what the analyses derived; cause edges are drawn anew over all signals."""
    lines = {_place_of(mark.event): mark.event for mark in incident.marks}
    lines |= {_place_of(item.signal.event): item.signal.event for item in incident.signals}
    return build(
        incident.files,
        [*(item.signal for item in incident.signals), *(_standing(signal, lines) for signal in signals)],
        incident.marks,
        [*incident.facts, *facts],
        incident.gaps,
        incident.summaries,
    )


def _place_of(event: Event) -> tuple[str, int | None]:
    return event.where.file, event.where.line


def _standing(signal: Signal, lines: Mapping[tuple[str, int | None], Event]) -> Signal:
    """A derived signal: its body is the conclusion, its text and time are those of the line that it rests on.

    When nothing read that line, it is cited without one: a conclusion is not what stands there.
    """
    event = signal.event
    known = lines.get(_place_of(event)) if event.where.line is not None else None
    if known is not None:
        event = msgspec.structs.replace(event, text=known.text, time=known.time, node=known.node or event.node)
    elif event.where.line is not None:
        where = msgspec.structs.replace(event.where, line=None, at=event.where.at or f"line {event.where.line}")
        event = msgspec.structs.replace(event, where=where)
    return msgspec.structs.replace(signal, event=event)


def _place(
    signal: Signal,
    who: identity.Identity,
    time: clocks.Clocks,
    found: episodes.Episodes,
    window: tuple[float | None, float | None],
    homes: Mapping[str, str],
) -> Placed:
    uncertainty = time.at(signal.event)[1]
    at = None if signal.event.source in READINGS else _onset(time, signal)
    outside = signal.event.source == "kernel_log" and at is not None and not _inside(at, window)
    known = dict(signal.entity)
    if known.get("node") is None and signal.event.where.file in homes:
        known["node"] = homes[signal.event.where.file]
    entity = who.of(known)
    return Placed(
        signal=msgspec.structs.replace(signal, entity=entity),
        at=at,
        uncertainty=uncertainty,
        episode=found.of(signal.event, at),
        rule="outside-window" if outside else None,
    )


def _onset(time: clocks.Clocks, signal: Signal) -> float | None:
    """When it happened: a timeout when its wait began, anything else when it was printed."""
    at, ran = time.at(signal.event)[0], signal.fields.get("ran_ms")
    return at - ran / 1000 if at is not None and isinstance(ran, int | float) else at


def _homes(facts: Sequence[Fact]) -> dict[str, str]:
    """By file the one node that its pods ran on or that it describes: what such a file tells happened there."""
    nodes: dict[str, set[str]] = {}
    for fact in facts:
        if fact.name.startswith("k8s.") and fact.entity.get("node") is not None:
            nodes.setdefault(fact.where.file, set()).add(str(fact.entity["node"]))
    return {file: found.pop() for file, found in nodes.items() if len(found) == 1}


def _inside(at: float, window: tuple[float | None, float | None]) -> bool:
    start, end = window
    return (start is None or at >= start - BEFORE_S) and (end is None or at <= end + AFTER_S)


def _window(
    time: clocks.Clocks, marks: Sequence[Mark], facts: Sequence[Fact], signals: Sequence[Signal]
) -> tuple[float | None, float | None]:
    """First and last second of the job: what the scheduler says, widened by what its own logs say."""
    said = [time.absolute(fact.time) for fact in facts if fact.name in {"slurm.job.start", "slurm.job.end"}]
    work = [time.at(mark.event)[0] for mark in marks if mark.event.source != "kernel_log"]
    told = [signal for signal in signals if signal.event.source not in {"kernel_log", "fabric_manager"}]
    own = [seconds for signal in told for seconds in (time.at(signal.event)[0], _onset(time, signal))]
    times = [seconds for seconds in [*said, *work, *own] if seconds is not None]
    if len(times) < 2:
        return None, None
    begun = any(seconds is not None for seconds in [*said, *work])
    return min(times) - (0.0 if begun else UNSEEN_S), max(times)


def _ranked(signals: Sequence[Signal], marks: Sequence[Mark], facts: Sequence[Fact]) -> list[Signal]:
    """srun numbers its tasks. With one task a node, as for torchrun, that number is not the rank of anything."""
    tasks = [fact.value for fact in facts if fact.name == "slurm.job.tasks" and isinstance(fact.value, int)]
    sizes = [
        size for mark in marks for key in ("nranks", "world_size") if isinstance(size := mark.fields.get(key), int)
    ]
    if not tasks or not sizes or max(tasks) >= max(sizes):
        return list(signals)
    return [
        msgspec.structs.replace(signal, entity={key: value for key, value in signal.entity.items() if key != "rank"})
        if signal.event.source == "slurm"
        else signal
        for signal in signals
    ]


class _Last(msgspec.Struct):
    """The last step or end mark: its line by file, its time over all files; and the files whose pods have run."""

    lines: dict[str, int]
    at: float | None
    begun: frozenset[str]


def _last_progress(time: clocks.Clocks, marks: Sequence[Mark], facts: Sequence[Fact]) -> _Last:
    steps = [mark for mark in marks if mark.kind in {"step", "end"}]
    lines: dict[str, int] = {}
    for mark in _without_redrawn(steps):
        where = mark.event.where
        lines[where.file] = max(lines.get(where.file, 0), where.line or 0)
    times = [seconds for mark in steps if (seconds := time.at(mark.event)[0]) is not None]
    begun = {
        fact.where.file for fact in facts if fact.name == "k8s.pod.phase" and fact.value in {"Running", "Succeeded"}
    }
    waiting = {fact.where.file for fact in facts if fact.name == "k8s.pod.phase" and fact.value == "Pending"}
    return _Last(lines=lines, at=max(times, default=None), begun=frozenset(begun - waiting))


def _without_redrawn(steps: Sequence[Mark]) -> Iterator[Mark]:
    """All but the last state of a file's bar: a bar is drawn once more when an exception ends the loop around it."""
    last: dict[str, Mark] = {}
    for mark in steps:
        known = last.get(mark.event.where.file)
        if known is None or (known.event.where.line or 0) < (mark.event.where.line or 0):
            last[mark.event.where.file] = mark
    for mark in steps:
        end = last[mark.event.where.file]
        if _BAR not in end.event.text or _BAR not in mark.event.text or _count(mark) != _count(end):
            yield mark


def _count(mark: Mark) -> Scalar:
    return mark.fields.get("step")


def _quiet(item: Placed, progress: _Last, pace: Pace, answered: int) -> Placed:
    """A survivable signal after which the job made progress is noise; so is what belongs to another episode.

    One that degrades is noise when the job went on as fast as before it; without a pace before it, it stays.

    Ranks that step have found each other: what kept them from it before is over, whatever it was.
    """
    if item.rule is None and item.episode != answered:
        return msgspec.structs.replace(item, rule="other-episode")
    passes = item.signal.signature.progress == "survivable" or item.signal.signature.layer == "rendezvous"
    passes = passes or (item.signal.signature.progress == "degrades" and pace.kept(item) is True)
    if item.rule is None and passes and _progressed(item, progress):
        return msgspec.structs.replace(item, rule="progress")
    return item


def _progressed(item: Placed, progress: _Last) -> bool:
    where = item.signal.event.where
    if item.signal.signature.layer == "scheduler" and where.file in progress.begun:
        return True  # it waited for a place, and got one
    if where.file in progress.lines:
        return progress.lines[where.file] > (item.signal.last_line or where.line or 0)
    # Another file's steps count only when they go on for longer than a hung step would hide.
    return item.at is not None and progress.at is not None and progress.at > item.at + PROGRESS_S


def _progress(who: identity.Identity, marks: Sequence[Mark]) -> dict[int, Rank]:
    """Ranks with the last step that each has logged."""
    last: dict[int, tuple[int, str, int]] = {}
    for mark in marks:
        step, where = mark.fields.get("step"), mark.event.where
        if mark.kind == "step" and mark.event.rank is not None and isinstance(step, int):
            last[mark.event.rank] = max(last.get(mark.event.rank, (-1, "", 0)), (step, where.file, where.line or 0))
    return {
        number: msgspec.structs.replace(rank, last_step=last[number][0], last_line=last[number][1:])
        if number in last
        else rank
        for number, rank in who.ranks.items()
    }


def _hang_start(placed: Sequence[Placed]) -> float | None:
    """When the earliest timed-out operation of the answered episode began."""
    begun = [item.at for item in placed if item.at is not None and item.signal.fields.get("ran_ms") is not None]
    return min(begun, default=None)


def entity_of(incident: Incident, entity: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """An entity completed from the incident's own maps."""
    who = identity.Identity(
        ranks=incident.ranks, gpus=incident.gpus, nodes=incident.nodes, world_size=incident.world_size, pids={}
    )
    return who.of(entity)
