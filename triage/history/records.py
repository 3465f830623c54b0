"""What is kept of an incident."""

from __future__ import annotations

from triage.model.base import Record
from triage.model.pictures import Pictures
from triage.model.postmortem import Impact
from triage.model.report import Culprit, Report

NODES = 4096
LONGEST_S = 10 * 365 * 86400.0  # a run that seems to last longer has stamps that are none; it would outweigh all others
MOST = 10**7  # ranks, for the same reason


class Kept(Record, frozen=True, kw_only=True):
    """An incident as a row. Times are Unix seconds of the evidence's own calendar; None is unknown.

    id: digest of the evidence, so that the same evidence explained twice is one incident, also by a later triage.
    run_s: length of the run; lost_s, gpu_hours: as in the post-mortem.
    """

    id: str
    verdict: str
    cause: str | None
    title: str
    confidence: float | None
    job: str | None
    ended: float | None
    run_s: float | None
    lost_s: float | None
    gpu_hours: float | None
    ranks: int | None
    nodes: tuple[str, ...]
    culprits: tuple[Culprit, ...]
    signatures: tuple[str, ...]


def kept(report: Report, pictures: Pictures, impact: Impact) -> Kept:
    """The row of a report."""
    span = pictures.span
    best = report.hypotheses[0] if report.hypotheses else None
    run = span.end.at - span.start.at if span.end and span.start else None
    nodes = sorted({*report.entities.nodes, *(each.node for each in report.entities.ranks if each.node)})
    return Kept(
        id=pictures.evidence, verdict=report.verdict, job=report.bundle.job,
        cause=best.cause if best else None, title=best.title if best else "",
        confidence=best.confidence if best else None,
        ended=span.end.at if span.end else None, run_s=_within(run, LONGEST_S),
        lost_s=_within(impact.lost_s, LONGEST_S), gpu_hours=_within(impact.gpu_hours, LONGEST_S / 3600 * MOST),
        ranks=impact.ranks if impact.ranks is not None and impact.ranks <= MOST else None,
        nodes=tuple(nodes[:NODES]), culprits=tuple(best.culprits) if best else (),
        signatures=tuple(sorted({row.signature for row in report.timeline if row.role != "context"})),
    )  # fmt: skip


def _within(value: float | None, most: float) -> float | None:
    """The value where it can be true, else unknown."""
    return round(value, 3) if value is not None and 0 <= value <= most else None
