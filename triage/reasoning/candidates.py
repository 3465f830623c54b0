"""Causes worth naming: unexplained root-cause signals, leaves of walked playbooks, and, failing both, symptoms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from triage.model.base import Record
from triage.model.incident import Incident, Placed
from triage.model.signature import Cause
from triage.reasoning.walking import Walk
from triage.vocabulary import Support

_STRENGTH: dict[Support, int] = {"weak": 0, "moderate": 1, "strong": 2}


class Candidate(Record, frozen=True, kw_only=True):
    """One cause with the signals (indexes into incident.signals) and walks that speak for it."""

    cause: Cause
    indexes: tuple[int, ...]
    walks: tuple[Walk, ...] = ()

    @property
    def support(self) -> Support:
        """The strongest support of any leaf; without one a signal alone is moderate."""
        supports: list[Support] = [walk.leaf.support for walk in self.walks]
        if self.indexes:
            supports.append("moderate")
        return max(supports, key=lambda support: _STRENGTH[support])


def find(incident: Incident, causes: Mapping[str, Cause], walked: Sequence[Walk]) -> list[Candidate]:
    """All candidates, in order of their cause's id."""
    by_cause: dict[str, list[int]] = {}
    for name, index in _roots(incident):
        by_cause.setdefault(name, []).append(index)
    by_walk: dict[str, list[Walk]] = {}
    for walk in walked:
        if walk.leaf.cause is not None and not _explained_away(incident, walk.leaf.cause):
            by_walk.setdefault(walk.leaf.cause, []).append(walk)
    for name in by_walk.keys() - by_cause.keys():
        by_cause[name] = _symptoms(incident, name)
    if not by_cause:
        for index, item in enumerate(incident.signals):
            if _open(item) and item.signal.signature.role == "symptom" and item.signal.signature.cause:
                by_cause.setdefault(item.signal.signature.cause, []).append(index)
    return [
        Candidate(cause=causes[name], indexes=tuple(by_cause[name]), walks=tuple(by_walk.get(name, ())))
        for name in sorted(by_cause)
        if name in causes
    ]


def _open(item: Placed) -> bool:
    return item.rule is None and not item.effect_of


def _roots(incident: Incident) -> Iterable[tuple[str, int]]:
    """Cause and index of each root cause; one that a conclusion replaces speaks for the cause of that conclusion."""
    roots = [
        (index, item)
        for index, item in enumerate(incident.signals)
        if _open(item) and item.signal.signature.role == "root-cause" and item.signal.signature.cause
    ]
    replaced = {
        (name, *_place(item)): item.signal.signature.cause
        for _, item in roots
        for name in item.signal.signature.suppresses
    }
    for index, item in roots:
        signature = item.signal.signature
        yield replaced.get((signature.id, *_place(item))) or signature.cause or "", index


def _place(item: Placed) -> tuple[str, int | None, str | None]:
    """Where it stands: what an analysis concluded from a line replaces the general reading of that line."""
    where = item.signal.event.where
    return where.file, where.line, where.at


def _explained_away(incident: Incident, cause: str) -> bool:
    """Did everything that names this cause turn out to be the effect of something else?"""
    named = [item for item in incident.signals if item.signal.signature.cause == cause]
    return bool(named) and not any(_open(item) for item in named)


def _symptoms(incident: Incident, cause: str) -> list[int]:
    return [
        index
        for index, item in enumerate(incident.signals)
        if _open(item) and item.signal.signature.cause == cause and item.signal.signature.role == "symptom"
    ]


def earliest(incident: Incident, indexes: Sequence[int]) -> Placed | None:
    """The first of the signals by time; without times, by file and line."""
    items = [incident.signals[index] for index in indexes]
    timed = [item for item in items if item.at is not None]
    pool = timed or items
    return min(
        pool,
        key=lambda item: (item.at or 0.0, item.signal.event.where.file, item.signal.event.where.line or 0),
        default=None,
    )
