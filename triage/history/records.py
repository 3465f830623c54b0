"""What is kept of an incident."""

from __future__ import annotations

import hashlib

import msgspec

from triage.model.base import Record
from triage.model.pictures import Span
from triage.model.postmortem import Impact
from triage.model.report import Culprit, Report

NODES = 4096


class Kept(Record, frozen=True, kw_only=True):
    """An incident as a row. Times are Unix seconds of the evidence's own calendar; None is unknown.

    id: SHA-256 of what the evidence says, so that the same evidence explained twice is one incident.
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


def kept(report: Report, span: Span, impact: Impact) -> Kept:
    """The row of a report."""
    best = report.hypotheses[0] if report.hypotheses else None
    run = span.end.at - span.start.at if span.end and span.start else None
    nodes = sorted({*report.entities.nodes, *(each.node for each in report.entities.ranks if each.node)})
    return Kept(
        id=identity(report), verdict=report.verdict, job=report.bundle.job,
        cause=best.cause if best else None, title=best.title if best else "",
        confidence=best.confidence if best else None,
        ended=span.end.at if span.end else None, run_s=round(run, 3) if run is not None else None,
        lost_s=impact.lost_s, gpu_hours=impact.gpu_hours, ranks=impact.ranks,
        nodes=tuple(nodes[:NODES]), culprits=tuple(best.culprits) if best else (),
        signatures=tuple(sorted({row.signature for row in report.timeline if row.role != "context"})),
    )  # fmt: skip


def identity(report: Report) -> str:
    """The same for the same evidence, whatever the version of triage and of its content makes of it."""
    said = [[row.file, row.line, row.text] for row in report.timeline]
    plain = [msgspec.to_builtins(report.bundle), msgspec.to_builtins(report.entities), sorted(said, key=str)]
    return hashlib.sha256(msgspec.json.encode(plain)).hexdigest()
