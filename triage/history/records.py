"""What is kept of an incident."""

from __future__ import annotations

from triage.model.base import Record
from triage.model.pictures import Pictures
from triage.model.postmortem import Impact
from triage.model.report import Culprit, Report

NODES = 4096


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
        ended=span.end.at if span.end else None, run_s=round(run, 3) if run is not None else None,
        lost_s=impact.lost_s, gpu_hours=impact.gpu_hours, ranks=impact.ranks,
        nodes=tuple(nodes[:NODES]), culprits=tuple(best.culprits) if best else (),
        signatures=tuple(sorted({row.signature for row in report.timeline if row.role != "context"})),
    )  # fmt: skip
