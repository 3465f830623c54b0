"""Which rank holds a hung collective up, and how: from flight recorder dumps, NCCL RAS, and what logs say of it.

hang.culprit        one a rank (entity rank):
                    never-arrived | rank-dead | gpu-dead | mismatch | order-inversion | uneven-work
hang.explained      one a rank: yes when a fault of that rank or its node is among the signals, else no
hang.verdict        the same word for the job, or transport: all ranks are in the same operation and none is behind
hang.collective, hang.sequence, hang.group    the operation that the others wait in
hang.missing_ranks  the culprits as a list
hang.waiting_ranks  how many ranks wait, directly or not
hang.frame          the user's line from which the waiting operation was issued, when the dump has it
hang.stack          one a rank that did not come, when its stack was taken: what its main thread was at (`_standing` has
                    the words), or other-collective: in a call in which the others are not
hang.stack.sleeps   one a rank, beside it: what it slept on in the kernel, or unknown
hang.silent_rank    0, when all other ranks of a log timed out and it said nothing: a hint, told only without the others
Nothing is said when the sources do not decide. The first that names a culprit is used: calls that torch compared,
dumps, RAS, logs, stacks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from triage.analysis import _compared, _dumped, _launched, _reported, _stood, _timed_out
from triage.analysis._stall import Stall
from triage.analysis._standing import Stand, by_rank, moved, stands
from triage.model.base import Value
from triage.model.event import Fact, Where
from triage.model.incident import Incident, Placed

_SOURCES = (_compared, _dumped, _launched, _reported, _timed_out, _stood)
NOTICED_S = 120.0  # launchers poll, and peers wait from the last step on; a kill by the time-out comes minutes later
_ABSENT = ("never-arrived", "rank-dead")
_FILES = ("checkpoint-write", "checkpoint-read", "file")
_ENDS = frozenset({"code/crash", "host/process-killed"})  # causes whose symptoms are the end of a process


def derive(incident: Incident) -> Iterator[Fact]:
    """Facts about the hang, if there is one and it can be told."""
    found = [
        stall
        for source in (_compared, _dumped, _launched, _reported, _timed_out, _stood)
        if (stall := source.stall(incident))
    ]
    stall = next((item for item in found if item.culprits), found[0] if found else None)
    if stall is not None:
        yield from _culprits(incident, _finished_early(incident, stall))
        yield from _whole(_finished_early(incident, stall))
    elif silent := _timed_out.first_rank_silent(incident):
        yield Fact(name="hang.silent_rank", value=0, where=silent[0], entity={"rank": 0}, text=silent[1])


def _finished_early(incident: Incident, stall: Stall) -> Stall:
    """A rank that said that it had finished did not stall: it had less to do."""
    done = {mark.event.rank for mark in incident.marks if mark.kind == "end" and mark.event.rank is not None}
    if stall.kind != "never-arrived" or not stall.culprits or not set(stall.culprits) <= done:
        return stall
    return stall.but(kind="uneven-work")


def _places(stall: Stall) -> tuple[Where, ...]:
    return tuple(where for where, _ in stall.evidence) or (Where(file=""),)


def _culprits(incident: Incident, stall: Stall) -> Iterator[Fact]:
    stood = by_rank(stands(incident)) if stall.kind in _ABSENT else {}
    for rank in stall.culprits:
        own = stall.places.get(rank, _places(stall)[0])
        evidence = tuple(dict.fromkeys([own, *_places(stall)]))
        stand = _stuck_at(stood, rank, stall)
        explained = _explained(incident, rank) or (stand is not None and _tells_why(stand))
        values = {"hang.culprit": stall.kind, "hang.explained": "yes" if explained else "no"}
        for name, value in values.items():
            text = dict(stall.evidence).get(own) or stall.why.get(rank, "")  # what is cited must stand there
            yield Fact(name=name, value=value, where=own, entity={"rank": rank}, text=text, evidence=evidence)

        if stand is not None:
            yield from _stack(stand, evidence)


def _stuck_at(stood: dict[int, list[Stand]], rank: int, stall: Stall) -> Stand | None:
    """Where the rank's last stack shows it; None without one, or when it went on since the stack before.

    In a collective it waits for others itself: it is at fault only when those that wait for it are not there.
    """
    found = stood.get(rank, [])
    if not found or (len(found) > 1 and moved(found[-2], found[-1])):
        return None
    stand = found[-1]
    if not stand.waits:
        return stand
    peers = [others[-1] for other, others in stood.items() if other not in stall.culprits]
    elsewhere = bool(peers) and all((peer.frame, peer.user) != (stand.frame, stand.user) for peer in peers)
    return dataclasses.replace(stand, at="other-collective") if stand.at == "collective" and elsewhere else None


def _tells_why(stand: Stand) -> bool:
    """Does what it stands in name the cause: a file system, its input, a call in which the others are not?"""
    in_file = stand.at in _FILES and stand.on in (None, "network")
    return stand.on == "storage" or in_file or stand.at in ("input", "other-collective")


def _stack(stand: Stand, evidence: tuple[Where, ...]) -> Iterator[Fact]:
    for name, value in (("hang.stack", stand.at), ("hang.stack.sleeps", stand.on or "unknown")):
        yield Fact(
            name=name, value=value, where=stand.where, entity={"rank": stand.rank}, text=_stood.sentence(stand),
            evidence=tuple(dict.fromkeys((stand.where, *evidence))),
        )  # fmt: skip


def _explained(incident: Incident, rank: int) -> bool:
    """Does a fault of that rank, of its node, or one that no rank was printed with, say why it did not come?"""
    node = incident.ranks[rank].node if rank in incident.ranks else None
    for placed in incident.signals:
        signature, entity = placed.signal.signature, placed.signal.entity
        if signature.layer == "collective" or placed.rule or placed.effect_of or not _says_why(incident, placed):
            continue
        whose = entity.get("rank", placed.signal.event.rank)
        where = entity.get("node", placed.signal.event.node)
        if placed.episode == incident.answered and (whose == rank if whose is not None else where in (None, node)):
            return True
    return False


def _says_why(incident: Incident, placed: Placed) -> bool:
    """A root cause does; so does the end of its process, when it came about when the others began to wait."""
    signature = placed.signal.signature
    if signature.role != "symptom" or signature.cause not in _ENDS:
        return signature.role == "root-cause"
    if placed.at is None or incident.hang_start is None:
        return False
    return placed.at <= incident.hang_start + NOTICED_S


def _whole(stall: Stall) -> Iterator[Fact]:
    values: dict[str, Value] = {
        "hang.verdict": stall.kind,
        "hang.collective": stall.op,
        "hang.sequence": stall.seq,
        "hang.group": stall.group,
        "hang.missing_ranks": list(stall.culprits) or None,
        "hang.waiting_ranks": stall.waiting or None,
        "hang.frame": stall.frame,
    }
    places = _places(stall)
    for name, value in values.items():
        if value is not None:
            text = dict(stall.evidence).get(places[0]) or stall.summary
            yield Fact(name=name, value=value, where=places[0], text=text, evidence=places)
