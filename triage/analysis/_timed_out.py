"""The hang as the watchdog lines of the ranks' logs show it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from triage.analysis._collectives import unwrapped
from triage.analysis._stall import Stall
from triage.model.base import Scalar
from triage.model.event import Where
from triage.model.incident import Incident, Placed

MANY = 8
SHOWN = 6
FEW = 3  # fewer ranks that speak are an excerpt
_TIMEOUT, _STATUS = "torch/watchdog-timeout", "torch/watchdog-status"


@dataclass
class Line:
    """What one rank's watchdog said of one group; -1 counters are none yet, None is not said."""

    where: Where
    text: str = ""
    seq: int | None = None
    op: str | None = None
    sizes: tuple[Scalar, Scalar] = (None, None)
    enqueued: int | None = None
    completed: int | None = None


def stall(incident: Incident) -> Stall | None:
    """Compare the ranks in the group that timed out first by sequence; abstain when one rank alone speaks."""
    groups = _groups(incident)
    for name in sorted(groups, key=lambda group: (-len(groups[group]), group)):
        lines = groups[name]
        if not any(line.seq is not None for line in lines.values()):
            continue
        found = _behind(name, lines) or _other_call(name, lines) or _absent(incident, name, lines)
        found = found or _same(incident, name, lines)
        if found:
            return found
    return None


def first_rank_silent(incident: Incident) -> tuple[Where, str] | None:
    """Where one log has the time-out of ranks 1 to n at one operation and no word of rank 0: it works alone, or stands.

    At least three must speak, and a known world size must be n + 1. An excerpt may have lost a line: a hint, no proof.
    """
    lines = _groups(incident).get("default", {})
    calls = {(line.seq, line.op, line.where.file) for line in lines.values()}
    whole = incident.world_size in (None, len(lines) + 1)
    if len(lines) < FEW or set(lines) != set(range(1, len(lines) + 1)) or len(calls) != 1 or not whole:
        return None
    first = min(lines.values(), key=lambda line: line.where.line or 0)
    return None if first.seq is None else (first.where, first.text)


def _groups(incident: Incident) -> dict[str, dict[int, Line]]:
    found: dict[str, dict[int, Line]] = defaultdict(dict)
    for placed in incident.signals:
        if placed.signal.signature.id not in (_TIMEOUT, _STATUS) or placed.episode != incident.answered:
            continue
        rank = _rank(placed)
        if rank is not None:
            group = _group(placed)
            event = placed.signal.event
            line = found[group].setdefault(rank, Line(event.where, event.text))
            _read(line, placed)
    return found


def _rank(placed: Placed) -> int | None:
    """The line's prefix has the global rank; the number in the message may count within the group."""
    signal = placed.signal
    for value in (signal.event.rank, signal.entity.get("rank"), signal.fields.get("rank")):
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _group(placed: Placed) -> str:
    name = str(placed.signal.fields.get("group") or "")
    return "default" if name in ("", "0", "default_pg", "0(default_pg)") else name


def _read(line: Line, placed: Placed) -> None:
    """The timeout names the operation, the status the counters; the first of each counts, later ones repeat."""
    fields = placed.signal.fields
    if placed.signal.signature.id == _TIMEOUT and line.op is None:
        line.where, line.text = placed.signal.event.where, placed.signal.event.text
        line.op = str(fields["op"]) if fields.get("op") else None
        line.sizes = (fields.get("numel_in"), fields.get("numel_out"))
        line.seq = _count(fields.get("seq"))
    enqueued, completed = _count(fields.get("enqueued")), _count(fields.get("completed"))
    line.enqueued = enqueued if line.enqueued is None else line.enqueued
    line.completed = completed if line.completed is None else line.completed


def _count(value: Scalar) -> int | None:
    return unwrapped(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _behind(name: str, lines: dict[int, Line]) -> Stall | None:
    """Ranks that never issued the operation in which others timed out."""
    seqs = Counter(line.seq for line in lines.values() if line.seq is not None)
    seq = min(seqs)
    missing = sorted(rank for rank, line in lines.items() if line.seq is None and (line.enqueued or 0) < seq
                     and line.enqueued is not None)  # fmt: skip
    if not missing or len(missing) > max(MANY, len(lines) // 4):
        return None
    why = {rank: f"rank {rank} had issued {lines[rank].enqueued}, the others wait at {seq}" for rank in missing}
    return _told("never-arrived", missing, name, lines, seq, why)


def _other_call(name: str, lines: dict[int, Line]) -> Stall | None:
    """Ranks that timed out at different places in different calls: they took different paths."""
    calls = {rank: line for rank, line in lines.items() if line.seq is not None and line.op is not None}
    if len({line.seq for line in calls.values()}) < 2:
        return _other_size(name, calls, lines)
    first = min(line.seq or 0 for line in calls.values())
    early = sorted(rank for rank, line in calls.items() if line.seq == first)
    ops = {line.op for rank, line in calls.items() if rank not in early}
    if 2 * len(early) > len(calls) or len(early) > MANY:
        return None
    why = {rank: f"rank {rank} is at {first} ({lines[rank].op}), the others are further" for rank in early}
    kind = "mismatch" if {lines[rank].op for rank in early} - ops else "never-arrived"
    return _told(kind, early, name, lines, max(line.seq or 0 for line in calls.values()), why)


def _other_size(name: str, calls: dict[int, Line], lines: dict[int, Line]) -> Stall | None:
    """One sequence number, different operations, or sizes where all must be the same."""
    same_size = ("ALLREDUCE", "BROADCAST", "REDUCE")
    kinds = {rank: (line.op, line.sizes if line.op in same_size else None) for rank, line in calls.items()}
    counts = Counter(kinds.values())
    if len(counts) < 2:
        return None
    usual, most = counts.most_common(1)[0]
    tie = list(counts.values()).count(most) > 1
    odd = sorted(rank for rank, kind in kinds.items() if tie or kind != usual)
    why = {rank: f"rank {rank} called {' '.join(str(part) for part in kinds[rank] if part)}" for rank in odd}
    return _told("mismatch", odd if len(odd) <= MANY else [], name, lines, next(iter(calls.values())).seq, why)


def _absent(incident: Incident, name: str, lines: dict[int, Line]) -> Stall | None:
    """Ranks that wrote logs and of which no watchdog spoke, while most others timed out at one operation."""
    if name != "default" or not incident.world_size:
        return None
    known = {rank for rank, entry in incident.ranks.items() if entry.last_line is not None}
    known |= {file.rank for file in incident.files if file.rank is not None}
    silent = sorted((known & set(range(incident.world_size))) - set(lines))
    spoke = [rank for rank, line in lines.items() if line.seq is not None]
    few = len(silent) <= max(1, len(spoke) // 3)
    if not silent or not few or 2 * len(spoke) < incident.world_size or len(lines) + len(silent) < incident.world_size:
        return None
    seq = lines[spoke[0]].seq
    why = {rank: f"no watchdog line of rank {rank}; {len(spoke)} others timed out at {seq}" for rank in silent}
    return _told("never-arrived", silent, name, lines, seq, why)


def _same(incident: Incident, name: str, lines: dict[int, Line]) -> Stall | None:
    """All at one place with equal counters, or every rank of the job in one call: nobody is behind."""
    states = {(line.seq, line.enqueued, line.completed) for line in lines.values()}
    calls = {(line.seq, line.op, line.sizes) for line in lines.values()}
    everyone = name == "default" and incident.world_size == len(lines) and len(calls) == 1
    counted = len(states) == 1 and next(iter(states))[1] is not None
    if len(lines) < 2 or not (counted or everyone):
        return None
    return _told("transport", [], name, lines, next(iter(states))[0], {})


def _told(
    kind: str, ranks: list[int], name: str, lines: dict[int, Line], seq: int | None, why: dict[int, str]
) -> Stall:
    waiting = sorted(rank for rank, line in lines.items() if line.seq is not None and rank not in ranks)
    op = next((lines[rank].op for rank in waiting if lines[rank].op), None)
    shown = [*(rank for rank in ranks if rank in lines), *waiting][:SHOWN]
    return Stall(
        kind=kind, culprits=tuple(ranks), op=op, seq=seq, group=name, waiting=len(waiting),
        summary=f"{len(waiting)} ranks timed out in {op or 'a collective'}",
        places={rank: lines[rank].where for rank in ranks if rank in lines}, why=why,
        evidence=tuple((lines[rank].where, lines[rank].text) for rank in shown),
    )  # fmt: skip
