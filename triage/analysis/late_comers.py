"""Who comes last to collectives, by how long each rank is in them: the last one waits least.

late.culprit   one a rank (entity rank, else {node, pid}): compute, since it is late before the collective, not in it;
               its text has the figures
late.ratio     how many times longer its peers are in the collective, median

A communicator is judged with at least RANKS ranks and MATCHED operations that all of them recorded. One rank must be
the shortest in SHARE of them, its peers at least RATIO times as long; were it now this and now that, work is uneven.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from triage.model.base import Scalar, number
from triage.model.event import Fact, Where
from triage.model.incident import Incident

RANKS = 3  # two cannot tell who is late from who is fast
MATCHED = 20
SHARE = 0.8
RATIO = 1.5
Times = dict[int, float]


@dataclass(frozen=True)
class Member:
    """A rank of a communicator: who it is, and microseconds by sequence number."""

    rank: int
    entity: dict[str, Scalar]
    where: Where
    times: Times


def derive(incident: Incident) -> Iterator[Fact]:
    """The late rank of each communicator, the widest first; each process is told once."""
    groups = _groups(incident)
    names = _names(groups)
    told: set[tuple[Scalar, Scalar]] = set()
    for group in sorted(groups, key=lambda group: (-len(groups[group]), str(group))):
        found = _late(groups[group])
        if found is not None and _process(found[0]) not in told:
            told.add(_process(found[0]))
            yield from _facts(incident, *found, names, len(groups[group]))


def _groups(incident: Incident) -> dict[Scalar, list[Member]]:
    values: dict[tuple[Scalar, ...], dict[str, Fact]] = defaultdict(dict)
    for fact in incident.facts:
        if fact.name in ("inspector.sn", "inspector.us"):
            values[(fact.where.file, *fact.entity.values())][fact.name] = fact
    groups: dict[Scalar, list[Member]] = defaultdict(list)
    for facts in values.values():
        if len(facts) == 2 and (member := _member(facts["inspector.sn"], facts["inspector.us"])):
            groups[member.entity.get("group")].append(member)
    return dict(groups)


def _member(numbers: Fact, times: Fact) -> Member | None:
    rank = numbers.entity.get("rank_in_group")
    if not isinstance(rank, int) or not isinstance(numbers.value, list) or not isinstance(times.value, list):
        return None
    pairs = [(number(sn), number(us)) for sn, us in zip(numbers.value, times.value, strict=False)]
    told = {int(sn): us for sn, us in pairs if sn is not None and us is not None}
    return Member(rank, numbers.entity, numbers.where, told)


def _names(groups: dict[Scalar, list[Member]]) -> dict[tuple[Scalar, Scalar], int]:
    """Rank by process, from the one widest communicator: its numbers are those of the job."""
    most = max((len(members) for members in groups.values()), default=0)
    widest = [members for members in groups.values() if len(members) == most]
    return {_process(member): member.rank for member in widest[0]} if len(widest) == 1 else {}


def _process(member: Member) -> tuple[Scalar, Scalar]:
    return member.entity.get("node"), member.entity.get("pid")


def _late(members: list[Member]) -> tuple[Member, float, int] | None:
    """The member that is shortest nearly always, how many times longer the others are, over how many operations."""
    if len(members) < RANKS:
        return None
    common = sorted(set.intersection(*(set(member.times) for member in members)))
    if len(common) < MATCHED:
        return None
    shortest = Counter(min(range(len(members)), key=lambda at: members[at].times[sn]) for sn in common)
    at, times = shortest.most_common(1)[0]
    others = [member for member in members if member is not members[at]]
    ratio = statistics.median(
        statistics.median(other.times[sn] for other in others) / members[at].times[sn] for sn in common
    )
    return (members[at], ratio, len(common)) if times >= SHARE * len(common) and ratio >= RATIO else None


def _facts(
    incident: Incident, late: Member, ratio: float, count: int, names: dict[tuple[Scalar, Scalar], int], size: int
) -> Iterator[Fact]:
    rank = names.get(_process(late), _by_process(incident, late))
    entity: dict[str, Scalar] = (
        {"rank": rank} if rank is not None else {k: v for k, v in late.entity.items() if k in ("node", "pid")}
    )
    who = f"rank {rank}" if rank is not None else f"process {late.entity.get('pid')}"
    text = (
        f"{who} comes last to {count} collectives of communicator {late.entity.get('group')}: it is in them for"
        f" {statistics.median(late.times.values()):.0f} us, the other {size - 1} ranks {ratio:.1f} times as long"
    )
    where = Where(file=late.where.file, at=f"from line {late.where.line}")
    for name, value in (("late.culprit", "compute"), ("late.ratio", round(ratio, 2))):
        yield Fact(name=name, value=value, where=where, entity=entity, text=text, evidence=(where,))


def _by_process(incident: Incident, late: Member) -> int | None:
    pid = late.entity.get("pid")
    found = [rank.rank for rank in incident.ranks.values() if pid is not None and rank.pid == pid]
    return found[0] if len(found) == 1 else None
