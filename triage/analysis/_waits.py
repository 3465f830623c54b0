"""Who waits for whom. A rank waits for the members of its oldest unfinished operation that have not come to it.

Following the edges leads to the ranks that wait for nobody: there the hang began. A cycle of ranks that each wait for
an operation which the other has not issued is a deadlock by order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from triage.analysis._collectives import Group, Seat, Table, rooted

QUEUED = 64  # edges of one operation to ranks that are stuck themselves: enough to follow
CLOCKS = 0.002  # seconds that clocks of nodes may differ, in times that dumps give in ns


@dataclass(frozen=True)
class Wait:
    """`waiter` waits in `group` at `seq` for `awaited`. issued: that one issued it too, behind another.

    proven: what is waited for was not issued, or stands behind another on the same pair; of a transfer only counts of
    whole dumps show that.
    """

    waiter: int
    awaited: int
    group: str
    seq: int | None
    issued: bool
    proven: bool = True


@dataclass(frozen=True)
class Ends:
    """The ranks at which the waiting ends. died: a peer finished what they did not; locked: on cycles."""

    idle: frozenset[int]
    silent: frozenset[int]
    died: frozenset[int]
    together: frozenset[int]
    locked: frozenset[int]
    waits: tuple[Wait, ...]


def waits(table: Table) -> list[Wait]:
    """Edges from each rank's oldest unfinished operation; of members queued behind another the first QUEUED only."""
    found: list[Wait] = []
    awaited: dict[tuple[int, int], list[tuple[int, bool]]] = {}
    for rank in sorted(table.dumped):
        for group, seat in table.waiting(rank)[:1]:
            if seat.peer is not None:
                found += _of_peer(table, group, seat)
            elif not (group.point_to_point and _one_sided(seat)):  # a coalesced batch does not say for whom it waits
                seq = seat.seq if seat.seq is not None else seat.completed + 1
                if (id(group), seq) not in awaited:
                    awaited[id(group), seq] = _awaited(table, group, seq)
                others = awaited[id(group), seq]
                found += [Wait(rank, other, group.name, seq, issued) for other, issued in others if other != rank]
    return found


def _awaited(table: Table, group: Group, seq: int) -> list[tuple[int, bool]]:
    """Members that operation `seq` waits for, and whether they have issued it and are stuck before it."""
    absent: list[tuple[int, bool]] = []
    queued: list[tuple[int, bool]] = []
    for other in sorted(group.members):
        peer = group.seats.get(other)
        if other in table.unreadable or (peer is None and other in table.dumped):
            continue  # nothing is known of it here
        if peer is None or _absent(group, peer, seq):
            absent.append((other, False))
        elif len(queued) < QUEUED and not _finished(group, peer, seq) and _behind(table, peer, group, seq):
            queued.append((other, True))
    return absent + queued


def _one_sided(seat: Seat) -> bool:
    return "coalesced" in (seat.op or "") or "send" in (seat.op or "") or "recv" in (seat.op or "")


def _absent(group: Group, peer: Seat, seq: int) -> bool:
    """Has the peer not issued operation `seq`? With mixed counters only its own records tell."""
    if not group.point_to_point:
        return peer.enqueued < seq
    return bool(peer.recent) and max(peer.recent) < seq


def _finished(group: Group, peer: Seat, seq: int) -> bool:
    if not group.point_to_point:
        return peer.completed >= seq
    return peer.op is not None and peer.seq is not None and not _one_sided(peer) and peer.seq > seq


def _behind(table: Table, peer: Seat, group: Group, seq: int) -> bool:
    """Is the peer still busy with something older than operation `seq` of this group?"""
    oldest = table.waiting(peer.rank)[:1]
    return bool(oldest) and (oldest[0][0] is not group or (oldest[0][1].seq is not None and oldest[0][1].seq != seq))


def _of_peer(table: Table, group: Group, seat: Seat) -> list[Wait]:
    """A send or receive waits for one rank, unless that one is at its counterpart or has finished it."""
    other = seat.peer
    if other is None or other == seat.rank or other in table.unreadable:
        return []
    peer = group.seats.get(other)
    if _passed(group, peer, seat):
        return []
    at = table.waiting(other)[:1]
    meets = bool(at) and at[0][0] is group and at[0][1].peer == seat.rank and _counterparts(at[0][1], seat)
    if meets and not _passed(group, seat, at[0][1]):
        return []
    return [Wait(seat.rank, other, group.name, seat.seq, issued=bool(at), proven=_unmet(group, peer, seat, at))]


def _unmet(group: Group, peer: Seat | None, seat: Seat, at: list[tuple[Group, Seat]]) -> bool:
    """Has the peer not issued the other half, or only behind something older between the two? Unknown is no."""
    if peer is None or seat.peer not in seat.transfers or not peer.transfers:
        return False
    send = "send" in (seat.op or "")
    number = seat.transfers[seat.peer][1 if send else 3] + 1  # the oldest that is not done
    issued, done = peer.transfers.get(seat.rank, [0, 0, 0, 0])[2 if send else 0 :][:2]
    behind = done < number and bool(at) and at[0][0] is group and at[0][1].peer == seat.rank
    return issued < number or behind


def _passed(group: Group, peer: Seat | None, seat: Seat) -> bool:
    """Did the peer finish the transfer in which `seat` is? By counts of whole dumps, or of a group of two."""
    if peer is None or seat.peer is None:
        return False
    if seat.peer in seat.transfers and seat.rank in peer.transfers:
        own = 0 if "send" in (seat.op or "") else 2
        return peer.transfers[seat.rank][3 - own] > seat.transfers[seat.peer][own + 1]
    if len(group.members) != 2 or seat.seq is None:
        return False
    return peer.seq > seat.seq if peer.peer is not None and peer.seq is not None else peer.completed >= seat.seq


def _counterparts(one: Seat, other: Seat) -> bool:
    return ("send" in (one.op or "")) != ("send" in (other.op or ""))


def ends(table: Table) -> Ends:
    """Where the waiting ends, over all dumps."""
    edges = waits(table)
    leaving = {wait.waiter for wait in edges}
    sinks = {wait.awaited for wait in edges} - leaving
    busy = {rank for rank in table.dumped if table.waiting(rank)}
    died = {rank for rank in busy - leaving if _died(table, rank)}
    locked: set[int] = set()
    for cycle in _cycles(edges):
        if all(wait.proven for wait in edges if wait.waiter in cycle):
            locked |= cycle
        else:
            died |= _left_behind(table, cycle)
    return Ends(
        idle=frozenset((sinks & table.dumped) - busy),
        silent=frozenset(sinks - table.dumped),
        died=frozenset(died),
        together=frozenset(busy - leaving - died),
        locked=frozenset(locked),
        waits=tuple(edges),
    )


def _left_behind(table: Table, cycle: set[int]) -> set[int]:
    """The ranks on a cycle that are stuck in a send and have been so for longest; empty when that does not tell.

    Whether a peer finished its half of a transfer need not show in its records. If it did, the peer went on and got
    stuck later. A receive says nothing: it may have been posted long before.
    """
    seats = {rank: table.waiting(rank)[0][1] for rank in cycle}
    issued = {rank: seat.issued for rank, seat in seats.items() if seat.issued is not None}
    if len(issued) < len(cycle):
        return set()
    first = {rank for rank, time in issued.items() if time - min(issued.values()) <= CLOCKS}
    sends = all("send" in (seats[rank].op or "") and seats[rank].peer not in first for rank in first)
    return first if sends else set()


def _died(table: Table, rank: int) -> bool:
    """Its oldest operation was finished by a peer: the work is queued here and nothing drains it."""
    group, seat = table.waiting(rank)[0]
    if seat.peer is not None:
        return _passed(group, group.seats.get(seat.peer), seat)
    if group.point_to_point or rooted(seat.op):
        return False
    seq = seat.seq if seat.seq is not None else seat.completed + 1
    return any(_finished(group, peer, seq) for other, peer in group.seats.items() if other != rank)


def _cycles(edges: list[Wait]) -> list[set[int]]:
    """Sets of ranks that wait for each other and for nobody else."""
    import networkx

    graph: Any = networkx.DiGraph()
    graph.add_edges_from((wait.waiter, wait.awaited) for wait in edges)
    parts = [set(part) for part in networkx.strongly_connected_components(graph) if len(part) > 1]
    closed = [part for part in parts if all(after in part for rank in part for after in graph.successors(rank))]
    return sorted(closed, key=min)
