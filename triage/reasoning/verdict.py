"""The verdict, and when silence may be called health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from triage.model.event import Mark
from triage.model.incident import Incident
from triage.model.report import Hypothesis
from triage.reasoning.confidence import LIKELY, SURE
from triage.vocabulary import Verdict

TRACEBACK_LINES = 200  # a signal this soon after its header has read it
CLOSING_LINES = 40  # a step or end mark this near to the end of its file is the last thing said (summaries follow it)
_BAD_STATES = ("FAIL", "CANCEL", "TIMEOUT", "OUT_OF", "PREEMPT", "DEADLINE", "REVOKED")


def verdict(incident: Incident, hypotheses: Sequence[Hypothesis]) -> Verdict:
    """diagnosed, suspected, healthy or inconclusive."""
    best = hypotheses[0].confidence if hypotheses else 0.0
    if best >= SURE:
        return "diagnosed"
    if best >= LIKELY:
        return "suspected"
    return "healthy" if not hypotheses and healthy(incident) else "inconclusive"


def healthy(incident: Incident) -> bool:
    """No fault is named, nothing ended badly, and at least one source says by itself that all is well."""
    bad = _faulty(incident) or _ended_badly(incident) or _unread(incident) or _doubted(incident)
    return not bad and _says_well(incident)


def _faulty(incident: Incident) -> bool:
    """A signal of warning or worse that means a fault; context and survivable noise do not."""
    return any(
        item.rule is None
        and item.signal.signature.role != "context"
        and item.signal.signature.severity in {"error", "fatal"}
        for item in incident.signals
    )


def _ended_badly(incident: Incident) -> bool:
    for fact in incident.facts:
        value = str(fact.value).upper()
        if fact.name.endswith(".exit_code") and value not in {"0", "0:0", "NONE"}:
            return True
        if fact.name in {"slurm.job.state", "slurm.step.state"} and value.startswith(_BAD_STATES):
            return True
        if fact.name == "gpu.readable" and value == "NO":
            return True
    return False


def _unread(incident: Incident) -> bool:
    """A traceback of which no signature made anything, in a log that does not go on: its form or text is new."""
    return any(
        mark.kind == "raised" and not _read(incident, mark) and not _went_on(incident, mark) for mark in incident.marks
    )


def _doubted(incident: Incident) -> bool:
    """A driver that speaks of an error which no signature knows, where no training shows that it does no harm."""
    trained = any(mark.kind in {"step", "end"} for mark in incident.marks)
    return not trained and any(mark.kind == "doubt" and not _read(incident, mark) for mark in incident.marks)


def _read(incident: Incident, mark: Mark) -> bool:
    where = mark.event.where
    near = (item.signal.event.where for item in incident.signals)
    return any(one.file == where.file and 0 <= (one.line or 0) - (where.line or 0) <= TRACEBACK_LINES for one in near)


def _went_on(incident: Incident, mark: Mark) -> bool:
    where = mark.event.where
    later = (one.event.where for one in incident.marks if one.kind in {"step", "end"})
    return any(one.file == where.file and (one.line or 0) > (where.line or 0) for one in later)


def _says_well(incident: Incident) -> bool:
    well = {("gpu.readable", "yes"), ("k8s.pod.phase", "Succeeded"), ("slurm.job.state", "COMPLETED")}
    if any(isinstance(fact.value, str) and (fact.name, fact.value) in well for fact in incident.facts):
        return True
    return any(mark.kind in {"end", "well"} for mark in incident.marks) or _still_training(incident)


def _still_training(incident: Incident) -> bool:
    """Training output whose last step is the last thing said; a single line may be a setting that looks like one."""
    steps = Counter(mark.event.where.file for mark in incident.marks if mark.kind == "step")
    last = {each.file: each.last_line for each in incident.summaries if each.last_line is not None}
    return any(
        mark.kind == "step"
        and steps[mark.event.where.file] > 1
        and (mark.event.where.line or 0) + CLOSING_LINES >= last.get(mark.event.where.file, 1 << 60)
        for mark in incident.marks
    )
