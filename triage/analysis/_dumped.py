"""The hang as the flight recorder dumps of the ranks show it."""

from __future__ import annotations

from collections import Counter

from triage.analysis._collectives import Group, Seat, Table, comparable, table
from triage.analysis._stall import Stall
from triage.analysis._waits import Ends, ends
from triage.model.event import Where
from triage.model.incident import Incident

MANY = 8  # more culprits than this, and than a quarter of the ranks, are no culprits
SHOWN = 6  # places cited


def stall(incident: Incident) -> Stall | None:
    """The hang in the dumps, or None when nothing waits or nothing decides."""
    found = table(incident)
    if not any(found.waiting(rank) for rank in found.dumped):
        return None
    return _mismatch(found) or _at_the_ends(found, ends(found))


def _mismatch(found: Table) -> Stall | None:
    """Ranks at one sequence number of one group in different calls. The fewer are at fault; of equals, both.

    The first such number counts, also when it is behind them: two calls that differ may both end, with wrong data, and
    the ranks hang in a later one.
    """
    for group in found.groups:
        seqs = [
            seat.seq for seat in group.seats.values() if seat.waiting and seat.seq is not None and seat.peer is None
        ]
        for seq in _numbers(group, min(seqs)) if seqs else ():
            calls = {rank: comparable(call) for rank, seat in group.seats.items() if (call := seat.recent.get(seq))}
            kinds = Counter(calls.values())
            if len(kinds) > 1:
                return _different(found, group, seq, calls, kinds)
    return None


def _numbers(group: Group, last: int) -> list[int]:
    """Sequence numbers to compare, ending with that at which the first rank waits."""
    if group.point_to_point:
        return [last]
    return [*sorted({seq for seat in group.seats.values() for seq in seat.recent if seq < last}), last]


def _different(
    found: Table, group: Group, seq: int, calls: dict[int, tuple[str, ...]], kinds: Counter[tuple[str, ...]]
) -> Stall:
    most = max(kinds.values())
    usual = [call for call, count in kinds.items() if count == most]
    odd = sorted(rank for rank, call in calls.items() if len(usual) > 1 or call != usual[0])
    if len(odd) > max(MANY, len(calls) // 4):
        odd = []
    why = {rank: f"at {seq} of {group.title} rank {rank} called {_spelled(calls[rank])}" for rank in odd}
    others = [rank for rank in sorted(calls) if rank not in odd][: SHOWN // 2]
    return Stall(
        kind="mismatch", culprits=tuple(odd), op=usual[0][0], seq=seq, group=group.title,
        waiting=len([rank for rank in found.dumped if found.waiting(rank)]),
        summary="; ".join(f"{count} ranks called {_spelled(call)}" for call, count in kinds.most_common(4)),
        places={rank: _place(group.seats[rank], group) for rank in odd}, why=why,
        evidence=tuple((_place(group.seats[rank], group), "") for rank in [*odd[:SHOWN], *others]),
    )  # fmt: skip


def _spelled(call: tuple[str, ...]) -> str:
    return " ".join(part for part in call if part != "-")


def _at_the_ends(found: Table, end: Ends) -> Stall | None:
    missing = end.silent if _few(end.silent, found) else frozenset()
    if end.died:
        return _blamed(found, end, "gpu-dead", end.died)
    if end.idle:
        return _blamed(found, end, "never-arrived", end.idle | missing)
    if missing:
        return _blamed(found, end, "rank-dead", missing)
    if end.locked:
        at_fault = _against(found, end.locked)
        return _blamed(found, end, "order-inversion", at_fault) or _all_locked(found, end)
    return _transport(found, end) if not end.silent else None


def _against(found: Table, locked: frozenset[int]) -> frozenset[int]:
    """Of ranks that wait for each other the fewer, when most are in one group and some went to another first.

    Of transfers: when most send first, or receive first, and some do not. All alike are at fault together.
    """
    at = {rank: _first(found, rank) for rank in locked}
    most, count = Counter(at.values()).most_common(1)[0]
    return (
        frozenset(rank for rank in locked if at[rank] != most) if len(locked) < 2 * count < 2 * len(locked) else locked
    )


def _first(found: Table, rank: int) -> tuple[str, str]:
    """The group in which a rank waits, and of a transfer its direction."""
    group, seat = found.waiting(rank)[0]
    return group.name, "" if seat.peer is None else "send" if "send" in (seat.op or "") else "recv"


def _all_locked(found: Table, end: Ends) -> Stall:
    """A cycle of so many that it is the program's, not a rank's."""
    shown = sorted(end.locked)[:SHOWN]
    group, seat = found.waiting(shown[0])[0]
    return Stall(
        kind="order-inversion", op=seat.op, seq=seat.seq, group=group.title, frame=seat.frame, waiting=len(end.locked),
        summary=f"{len(end.locked)} ranks wait for each other in a circle, as rank {shown[0]} in {seat.op}",
        evidence=tuple((_own_place(found, rank), "") for rank in shown),
    )  # fmt: skip


def _few(silent: frozenset[int], found: Table) -> bool:
    """Without a dump, while most have one: the others' dumps would be missing too had they only not been collected."""
    members = {rank for group in found.groups for rank in group.members}
    return 0 < 2 * len(members - found.dumped - found.unreadable) < len(members)


def _blamed(found: Table, end: Ends, kind: str, ranks: frozenset[int]) -> Stall | None:
    if len(ranks) > max(MANY, len(found.dumped) // 4):
        return None
    direct = [wait for wait in end.waits if wait.awaited in ranks]
    shown = direct[0] if direct else None
    waiter = _seat(found, shown.group, shown.waiter) if shown else None
    group = next((g for g in found.groups if shown and g.name == shown.group and shown.waiter in g.seats), None)
    why = {rank: _why(found, end, rank, kind) for rank in ranks}
    places = {rank: _own_place(found, rank, end) for rank in ranks if rank in found.dumped}
    waiters = dict.fromkeys(wait.waiter for wait in direct)
    return Stall(
        kind=kind, culprits=tuple(sorted(ranks)), op=waiter.op if waiter else None, seq=shown.seq if shown else None,
        group=group.title if group else None, frame=waiter.frame if waiter else None,
        waiting=len({wait.waiter for wait in end.waits}), summary=f"{_wait(len(waiters))} for them directly",
        places=places, why=why,
        evidence=tuple((_own_place(found, rank), "") for rank in [*places, *waiters][:SHOWN]),
    )  # fmt: skip


def _wait(ranks: int) -> str:
    return "1 rank waits" if ranks == 1 else f"{ranks} ranks wait"


def _why(found: Table, end: Ends, rank: int, kind: str) -> str:
    waiters = [wait for wait in end.waits if wait.awaited == rank]
    head = f"{_wait(len(waiters))} for rank {rank}"
    if waiters:
        head += f", at {waiters[0].seq} of group {waiters[0].group}"
    if kind == "gpu-dead":
        group, seat = found.waiting(rank)[0]
        return f"{head}; it issued {seat.seq} of {group.title}, which its peers finished and it did not"
    if rank not in found.dumped:
        return f"{head}; it left no dump"
    return head + ("; it has nothing outstanding itself" if kind == "never-arrived" else "; each waits for another")


def _transport(found: Table, end: Ends) -> Stall | None:
    """Everyone is in the operation and it does not end: no rank is behind, what lies between them is suspect."""
    stuck = sorted(end.together)
    if len(stuck) < 2:
        return None
    group, seat = found.waiting(stuck[0])[0]
    if not group.members <= found.dumped or (seat.issued is None and seat.seq is None):
        return None
    return Stall(
        kind="transport", op=seat.op, seq=seat.seq, group=group.title, frame=seat.frame, waiting=len(stuck),
        summary=f"all {len(group.members)} members are in it, none is behind",
        evidence=tuple((_own_place(found, rank), "") for rank in stuck[:SHOWN]),
    )  # fmt: skip


def _seat(found: Table, group: str, rank: int) -> Seat | None:
    return next((g.seats[rank] for g in found.groups if g.name == group and rank in g.seats), None)


def _own_place(found: Table, rank: int, end: Ends | None = None) -> Where:
    """Its oldest unfinished operation; of a rank without one the group in which the others wait for it."""
    waiting = found.waiting(rank)
    if waiting:
        return _place(waiting[0][1], waiting[0][0])
    names = {wait.group for wait in end.waits if wait.awaited == rank} if end else set()
    seats = [(group, group.seats[rank]) for group in found.groups if rank in group.seats]
    group, seat = next((pair for pair in seats if pair[0].name in names), seats[0])
    return _place(seat, group)


def _place(seat: Seat, group: Group) -> Where:
    return Where(
        file=seat.where.file, at=f"rank {seat.rank}, {group.title}: issued {seat.enqueued}, done {seat.completed}"
    )
