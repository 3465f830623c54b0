"""The hang as the stacks of the processes show it: most wait for others, and a few stand somewhere else."""

from __future__ import annotations

from collections import Counter

from triage.analysis._stall import Stall
from triage.analysis._standing import Stand, by_rank, moved, stands
from triage.model.incident import Incident

MANY = 8
MOST_WAIT = 3  # so many must wait for others before somebody else is odd
SHOWN = 6
_WORDS = {
    "input": "loading its input", "checkpoint-write": "writing a checkpoint", "checkpoint-read": "reading a checkpoint",
    "download": "reading from the network", "compile": "compiling", "debugger": "in a debugger", "file": "at a file",
    "lock": "waiting for a lock", "process": "waiting for a process of its own", "collective": "in a collective",
    "device": "waiting for its GPU", "other-collective": "in a collective of its own", "code": "in code of its own",
}  # fmt: skip
_SLEEPS = {
    "storage": "the kernel waits for a file system there", "pipe": "the kernel waits at a pipe there",
    "network": "the kernel waits for the network there", "driver": "the GPU's driver holds it there",
    "sleep": "it sleeps there",
}  # fmt: skip
_TIMEOUTS = (
    "torch/watchdog-timeout", "torch/watchdog-timeout-nccl2", "torch/gloo-timeout", "torch/blocking-wait-timeout",
    "torch/heartbeat-stuck",
)  # fmt: skip


def stall(incident: Incident) -> Stall | None:
    """Ranks that stand elsewhere while at least three, and most, wait for others; one moment alone does not tell."""
    told = by_rank(stands(incident))
    last = {rank: found[-1] for rank, found in told.items()}
    waiting = sorted(rank for rank, stand in last.items() if stand.waits)
    odd = sorted(rank for rank in last if rank not in waiting)
    if len(waiting) < MOST_WAIT or not _stuck(incident, told, odd):
        return None
    if odd:
        few = len(odd) <= min(MANY, max(1, len(last) // 4))
        return _told("never-arrived", odd, last, waiting) if few else None
    alone = _alone(incident, last)
    return _told("mismatch", alone, last, [rank for rank in waiting if rank not in alone]) if alone else None


def _stuck(incident: Incident, told: dict[int, list[Stand]], odd: list[int]) -> bool:
    """Something timed out, or a later dump shows the same; who moved in between is at work."""
    several = [found for rank, found in told.items() if len(found) > 1 and (rank in odd or not odd)]
    if several:
        return not any(moved(found[-2], found[-1]) for found in several)
    return any(placed.signal.signature.id in _TIMEOUTS for placed in incident.signals if not placed.rule)


def _alone(incident: Incident, last: dict[int, Stand]) -> list[int]:
    """One rank in a collective in which nobody else stands, when all ranks of the job were looked at.

    Transfers are left out, and so is whoever waits for its GPU: which call that belongs to is not known.
    """
    size = incident.world_size or len(last)
    if set(last) != set(range(size)) or any(stand.at != "collective" for stand in last.values()):
        return []
    if any(stand.frame.startswith(("send", "recv", "isend", "irecv", "batch_")) for stand in last.values()):
        return []
    calls = Counter((stand.frame.split(" ")[0], stand.user) for stand in last.values())
    odd = [rank for rank, stand in last.items() if calls[stand.frame.split(" ")[0], stand.user] == 1]
    return odd if len(odd) == 1 and len(calls) == 2 else []


def _told(kind: str, ranks: list[int], last: dict[int, Stand], waiting: list[int]) -> Stall:
    usual = Counter(last[rank].frame for rank in waiting if last[rank].at == "collective").most_common(1)
    at = next((rank for rank in waiting if usual and last[rank].frame == usual[0][0]), waiting[0])
    shown = [*ranks, at, *waiting][:SHOWN]
    return Stall(
        kind=kind, culprits=tuple(ranks), op=usual[0][0].split(" ")[0] if usual else None, frame=last[at].user,
        waiting=len(waiting), summary=f"{len(waiting)} ranks wait in {last[at].frame}",
        places={rank: last[rank].where for rank in ranks}, why={rank: sentence(last[rank]) for rank in ranks},
        evidence=tuple(dict.fromkeys((last[rank].where, sentence(last[rank])) for rank in shown)),
    )  # fmt: skip


def sentence(stand: Stand) -> str:
    """What a stack says, in one line."""
    who = f"rank {stand.rank}" if stand.rank is not None else f"process {stand.pid}"
    told = f"{who} stands {_WORDS.get(stand.at, stand.at)}: {stand.frame}"
    if stand.user != stand.frame:
        told += f", called from {stand.user}"
    if stand.worker:
        told += f"; its loader worker is at work: {stand.worker}"
    return told + (f"; {_SLEEPS[stand.on]}" if stand.on in _SLEEPS else "")
