"""What each rank had issued and finished in each process group: the flight recorder facts of all ranks put together."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from triage.model.base import Scalar
from triage.model.event import Fact, Where
from triage.model.incident import Incident

MAX_RANK = 1 << 20
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_EXACT = {
    "all_reduce", "allreduce", "broadcast", "reduce", "barrier", "all_reduce_barrier",
    "_all_gather_base", "_allgather_base", "_reduce_scatter_base",
}  # fmt: skip


@dataclass
class Seat:
    """One rank in one group: its counters, -1 for none yet, and the first operation that it has not finished."""

    rank: int
    where: Where
    enqueued: int = -1
    completed: int = -1
    pending: int = 0
    point_to_point: bool = False
    op: str | None = None
    seq: int | None = None
    order: int | None = None
    peer: int | None = None
    frame: str | None = None
    issued: float | None = None
    recent: dict[int, tuple[str, ...]] = field(default_factory=dict)
    transfers: dict[int, list[int]] = field(default_factory=dict)

    @property
    def waiting(self) -> bool:
        """Has it issued something here that did not finish?"""
        return self.pending > 0 or self.enqueued > self.completed


@dataclass
class Group:
    """A process group over all dumps. `members` is what the dumps say, or whoever has a dump with it."""

    name: str
    desc: str = ""
    members: frozenset[int] = frozenset()
    seats: dict[int, Seat] = field(default_factory=dict)

    @cached_property
    def point_to_point(self) -> bool:
        """Counters mix sends with collectives: not comparable between ranks."""
        return any(seat.point_to_point for seat in self.seats.values())

    @property
    def title(self) -> str:
        """The framework's name with the group's own, as people look for it."""
        return f"{self.desc} ({self.name})" if self.desc and self.desc != self.name else self.name or "default"


@dataclass
class Table:
    """All groups; the ranks that have a readable dump; those whose dump could not be read."""

    groups: list[Group]
    dumped: set[int]
    unreadable: set[int]

    @cached_property
    def _waiting(self) -> dict[int, list[tuple[Group, Seat]]]:
        found: dict[int, list[tuple[Group, Seat]]] = defaultdict(list)
        for group in self.groups:
            for rank, seat in group.seats.items():
                if seat.waiting:
                    found[rank].append((group, seat))
        for pairs in found.values():
            pairs.sort(key=lambda pair: (pair[1].order is None, pair[1].order or 0, pair[0].name))
        return dict(found)

    def waiting(self, rank: int) -> list[tuple[Group, Seat]]:
        """Where the rank has unfinished operations, the oldest first."""
        return self._waiting.get(rank, [])


def table(incident: Incident) -> Table:
    """The groups of the flight recorder dumps; of a rank that dumped several times the last dump."""
    values: dict[tuple[int, str], dict[str, Fact]] = defaultdict(dict)
    dumped: set[int] = set()
    unreadable: set[int] = set()
    last, stale = _last_dumps(incident)
    for fact in incident.facts:
        rank = fact.entity.get("rank")
        if not fact.name.startswith("fr.") or not isinstance(rank, int) or not 0 <= rank < MAX_RANK:
            continue
        if last.get(rank, fact.where.file) != fact.where.file:
            continue
        if rank in stale:  # what it did since is not known
            unreadable.add(rank)
            continue
        (unreadable if fact.name == "fr.unreadable" else dumped).add(rank)
        if "group" in fact.entity:
            values[rank, str(fact.entity["group"])][fact.name.removeprefix("fr.")] = fact
    return Table(_grouped(values), dumped, unreadable - dumped)


def _last_dumps(incident: Incident) -> tuple[dict[int, str], set[int]]:
    """By rank the file of its last dump (of its last attempt the one that counts furthest), and who left an older only.

    A rank has an older one only when all others that dumped as often as most went on since theirs of that time.
    """
    dumps: dict[Scalar, set[str]] = defaultdict(set)
    for fact in incident.facts:
        if fact.name == "fr.entries":  # one a dump
            dumps[fact.entity.get("rank")].add(fact.where.file)
    several = {rank for rank, files in dumps.items() if isinstance(rank, int) and len(files) > 1}
    if not several:
        return {}, set()
    counts = _counted(incident)
    attempts = {file.path: file.attempt or 0 for file in incident.files}
    last = {
        rank: max(sorted(files), key=lambda file: (attempts.get(file, 0), files[file]))
        for rank, files in counts.items()
    }
    went_on = all(len(set(counts[rank].values())) > 1 for rank in several if rank in counts)
    return last, set(counts) - several if went_on else set()


def _counted(incident: Incident) -> dict[int, dict[str, int]]:
    """By rank and dump, all that it had issued and finished."""
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for fact in incident.facts:
        rank = fact.entity.get("rank")
        if fact.name in ("fr.enqueued", "fr.completed") and isinstance(rank, int) and isinstance(fact.value, int):
            counts[rank][fact.where.file] = counts[rank].get(fact.where.file, 0) + max(unwrapped(fact.value), 0)
    return counts


def _grouped(values: dict[tuple[int, str], dict[str, Fact]]) -> list[Group]:
    groups: dict[tuple[str, frozenset[int]], Group] = {}
    none: frozenset[int] = frozenset()
    sets: dict[int, frozenset[int]] = {}  # by the list itself: dumps of one job share it
    for (rank, name), facts in sorted(values.items()):
        told = facts["group.ranks"].value if "group.ranks" in facts else None
        if id(told) not in sets:
            sets[id(told)] = (
                frozenset(item for item in told if isinstance(item, int)) if isinstance(told, list) else none
            )
        members = sets[id(told)]
        group = groups.setdefault((name, members), Group(name, members=members))
        desc = facts["group.desc"].value if "group.desc" in facts else None
        group.desc = desc if isinstance(desc, str) else group.desc
        group.seats[rank] = _seat(rank, facts)
    for group in groups.values():
        group.members = group.members or frozenset(group.seats)
    return [group for group in groups.values() if len(group.members) > 1]


def _seat(rank: int, facts: dict[str, Fact]) -> Seat:
    def get(name: str, kind: type) -> Any:
        value = facts[name].value if name in facts else None
        return value if isinstance(value, kind) and not (kind is int and isinstance(value, bool)) else None

    any_fact = next(iter(facts.values()))
    time = facts["last_op"].time if "last_op" in facts else None
    enqueued, completed = get("enqueued", int), get("completed", int)
    return Seat(
        rank=rank, where=any_fact.where,
        enqueued=-1 if enqueued is None else unwrapped(enqueued),
        completed=-1 if completed is None else unwrapped(completed),
        pending=get("pending", int) or 0, point_to_point=bool(get("p2p", bool)),
        op=get("last_op", str), seq=get("last_seq", int), order=get("last_order", int), peer=get("last_peer", int),
        frame=get("last_frame", str), issued=time.seconds if time else None,
        recent=_recent(get("recent", list) or []), transfers=_transfers(get("transfers", list) or []),
    )  # fmt: skip


def unwrapped(count: int) -> int:
    """Some releases print -1 as an unsigned number."""
    return -1 if count > 1 << 31 else count


def _recent(lines: list[Any]) -> dict[int, tuple[str, ...]]:
    """Sequence number -> (operation, input sizes, output sizes, dtypes)."""
    found: dict[int, tuple[str, ...]] = {}
    for line in lines:
        head, *rest = str(line).split(" ")
        if head.lstrip("-").isdigit() and len(rest) >= 4:
            found.setdefault(int(head), (plain(rest[0]), *rest[1:4]))
    return found


def _transfers(lines: list[Any]) -> dict[int, list[int]]:
    """Peer -> sends issued, sends done, receives issued, receives done."""
    rows = [[int(part) for part in str(line).split() if part.isdigit()] for line in lines]
    return {row[0]: row[1:] for row in rows if len(row) == 5}


def plain(op: str | None) -> str:
    """`nccl:all_reduce` -> `all_reduce`."""
    return (op or "").rsplit(":", 1)[-1] if not (op or "").endswith(":coalesced") else "coalesced"


def rooted(op: str | None) -> bool:
    """Operations in which a rank can finish though another never came."""
    return plain(op).lstrip("_").startswith(_ROOTED) and not plain(op).lstrip("_").startswith("reduce_scatter")


def comparable(call: tuple[str, ...]) -> tuple[str, ...]:
    """What must be the same on all ranks: always the operation, sizes and dtypes where none may differ."""
    return call if call[0] in _EXACT else call[:1]
