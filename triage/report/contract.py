"""Assembling `triage.report/1`: the same evidence gives the same bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from triage import __version__
from triage.model.bundle import Gap
from triage.model.incident import Incident, Placed
from triage.model.report import BundleSummary, Entities, Episode, Hypothesis, RankEntry, Report, TimelineEntry, Tool
from triage.timeline import rfc3339
from triage.vocabulary import Verdict

SCHEMA = "triage.report/1"
TIMELINE = 200  # entries told; the earliest of each signature come first


def assemble(incident: Incident, hypotheses: Sequence[Hypothesis], verdict: Verdict, digest: str) -> Report:
    """The report of an incident."""
    return Report(
        schema=SCHEMA,
        tool=Tool(version=__version__, content=digest),
        verdict=verdict,
        hypotheses=list(hypotheses),
        episodes=_episodes(incident),
        gaps=_gaps(incident),
        timeline=_timeline(incident),
        entities=_entities(incident),
        bundle=_bundle(incident),
    )


def _episodes(incident: Incident) -> list[Episode]:
    rows = []
    for epoch in incident.episodes:
        own = [item for item in incident.signals if item.episode == epoch.index]
        seen = [item.signal.signature.id for item in own]
        rows.append(
            Episode(
                index=epoch.index,
                file=epoch.file or "",
                first_line=epoch.first_line,
                last_line=epoch.last_line,
                why=epoch.why,
                answered=epoch.index == incident.answered,
                signatures=sorted(set(seen))[:20],
                cause=_failed_by(own) if epoch.index != incident.answered else UNSET,
            )
        )
    return rows


def _failed_by(signals: Sequence[Placed]) -> str | UnsetType:
    """The cause that the first strong root cause names: another run's signals are not weighed any further."""
    known = (item.signal for item in sorted(signals, key=_moment))
    roots = (each.signature for each in known if each.signature.role == "root-cause" and each.signature.cause)
    fatal = (each for each in roots if each.severity in {"error", "fatal"} and each.specificity == "strong")
    return next((each.cause for each in fatal if each.cause), UNSET)


def _gaps(incident: Incident) -> list[Gap]:
    unique = {(gap.what, gap.why, gap.node, gap.file): gap for gap in incident.gaps}
    return [unique[key] for key in sorted(unique, key=lambda key: tuple(str(part) for part in key))]


def _timeline(incident: Incident) -> list[TimelineEntry]:
    turn: Counter[str] = Counter()
    chosen: list[tuple[int, Placed]] = []
    for item in sorted(incident.signals, key=_moment):
        turn[item.signal.signature.id] += 1
        chosen.append((turn[item.signal.signature.id], item))
    kept = sorted([item for _, item in sorted(chosen, key=lambda row: row[0])[:TIMELINE]], key=_moment)
    start = min((item.at for item in kept if item.at is not None), default=None)
    return [_entry(item, start) for item in kept]


def _moment(item: Placed) -> tuple[bool, float, str, int, str]:
    where = item.signal.event.where
    return (item.at is None, item.at or 0.0, where.file, where.line or 0, item.signal.signature.id)


def _entry(item: Placed, start: float | None) -> TimelineEntry:
    event, entity = item.signal.event, item.signal.entity
    rank, node = entity.get("rank"), entity.get("node")
    return TimelineEntry(
        time=rfc3339(item.at) if item.at is not None and event.time is not None and event.time.kind == "utc" else None,
        t=round(item.at - start, 3) if item.at is not None and start is not None else None,
        uncertainty_s=item.uncertainty,
        node=None if node is None else str(node),
        rank=rank if isinstance(rank, int) else None,
        signature=item.signal.signature.id,
        role=_role(item),
        text=event.text,
        file=event.where.file,
        line=event.where.line,
        rule=item.rule,
    )


def _role(item: Placed) -> str:
    """The role the graph gave: an explained signal is a consequence, whatever its signature says; noise is context."""
    if item.effect_of:
        return "consequence"
    return "context" if item.rule else item.signal.signature.role


def _entities(incident: Incident) -> Entities:
    ranks = [
        RankEntry(
            rank=rank.rank,
            node=rank.node,
            local_rank=rank.local_rank,
            gpu=rank.gpu,
            pci=rank.pci,
            pid=rank.pid,
            last_step=rank.last_step,
            last_seen=":".join(map(str, rank.last_line)) if rank.last_line else None,
        )
        for rank in incident.ranks.values()
    ]
    return Entities(nodes=list(incident.nodes), ranks=ranks)


def _bundle(incident: Incident) -> BundleSummary:
    sources = Counter(file.sources[0] if file.sources else "unrecognised" for file in incident.files)
    job = next(
        (str(fact.value) for fact in incident.facts if fact.name == "slurm.job.id" and fact.value is not None), None
    )
    return BundleSummary(
        job=job,
        files=len(incident.files),
        bytes=sum(file.size for file in incident.files),
        sources=dict(sorted(sources.items())),
    )
