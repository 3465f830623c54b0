"""Made-up jobs: ranks in tensor, pipeline and data groups run a program; what faults leave behind are the dumps.

Each rank issues its operations in order, DEPTH ahead of the oldest unfinished one; a collective finishes when all
members have issued it and have finished everything before it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

DEPTH = 12


@dataclass(frozen=True)
class Op:
    """One operation: group name, the ranks that meet in it, sequence number in the group, what it is.

    whole: all members of the group. Of a transfer two of them meet; its name is `send`, from the first to the second.
    """

    group: str
    members: tuple[int, ...]
    seq: int
    name: str
    whole: tuple[int, ...] = ()
    size: int = 4096


@dataclass
class Job:
    """A layout and the program of each rank."""

    tensor: int
    pipeline: int
    data: int
    steps: int = 3
    programs: dict[int, list[Op]] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        """World size."""
        return self.tensor * self.pipeline * self.data

    def rank(self, t: int, p: int, d: int) -> int:
        """Global rank of a place in the layout."""
        return (p * self.data + d) * self.tensor + t

    def add(self, group: str, members: list[int], name: str, whole: list[int] | None = None) -> None:
        """One operation at the end of the programs of its members."""
        if len(members) < 2:
            return
        self.counters[group] = self.counters.get(group, 0) + 1
        op = Op(group, tuple(members), self.counters[group], name, tuple(whole or members))
        for member in members:
            self.programs.setdefault(member, []).append(op)

    def write(self) -> Job:
        """Steps of forward, backward (tensor all-reduces, pipeline transfers) and a data-parallel all-reduce."""
        for _ in range(self.steps):
            for p in range(self.pipeline):
                self._stage(p, "fwd")
            for p in reversed(range(self.pipeline)):
                self._stage(p, "bwd")
            for t in range(self.tensor):
                for p in range(self.pipeline):
                    self.add(f"dp{t}.{p}", [self.rank(t, p, d) for d in range(self.data)], "nccl:all_reduce")
            self.add("world", list(range(self.ranks)), "nccl:all_reduce")
        return self

    def _stage(self, p: int, way: str) -> None:
        for d in range(self.data):
            for _ in range(2):
                self.add(f"tp{p}.{d}", [self.rank(t, p, d) for t in range(self.tensor)], "nccl:_all_gather_base")
            other = p + 1 if way == "fwd" else p - 1
            if 0 <= other < self.pipeline:
                for t in range(self.tensor):
                    whole = [self.rank(t, stage, d) for stage in range(self.pipeline)]
                    self.add(f"pp{t}.{d}", [whole[p], whole[other]], "send", whole)


@dataclass
class State:
    """What a rank has issued and finished, as positions in its program; the round in which each was issued."""

    issued: int = 0
    finished: int = 0
    times: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Fault:
    """`host` stops issuing at a position; `gpu` stops finishing there, though its peers finish that operation."""

    rank: int
    kind: str
    at: int


def run(job: Job, faults: list[Fault]) -> dict[int, State]:
    """Until nothing moves."""
    states = {rank: State() for rank in job.programs}
    host = {fault.rank: fault.at for fault in faults if fault.kind == "host"}
    gpu = {fault.rank: fault.at for fault in faults if fault.kind == "gpu"}
    issued: dict[tuple[str, int], set[int]] = {}
    moved, now = True, 0
    while moved:
        moved, now = False, now + 1
        for rank, state in states.items():
            program = job.programs[rank]
            while state.issued < min(len(program), state.finished + DEPTH, host.get(rank, len(program))):
                op = program[state.issued]
                issued.setdefault((op.group, op.seq), set()).add(rank)
                state.issued += 1
                state.times.append(now)
                moved = True
        for rank, state in states.items():
            if state.finished < state.issued and state.finished != gpu.get(rank):
                op = job.programs[rank][state.finished]
                if all(_ready(job, states, member, op, issued) for member in op.members):
                    state.finished += 1
                    moved = True
    return states


def _ready(job: Job, states: dict[int, State], member: int, op: Op, issued: dict[tuple[str, int], set[int]]) -> bool:
    """Is the member at the operation, or past it?"""
    if member not in issued.get((op.group, op.seq), set()):
        return False
    at = job.programs[member].index(op)
    return states[member].finished >= at


def reached(job: Job, states: dict[int, State], faults: list[Fault]) -> set[int]:
    """The ranks whose fault took effect before another's did: nothing outstanding on the host, or the queue stuck."""
    hit = set()
    for fault in faults:
        state = states[fault.rank]
        if fault.kind == "host" and state.issued == state.finished == fault.at:
            hit.add(fault.rank)
        if fault.kind == "gpu" and state.finished == fault.at and state.issued > fault.at:
            hit.add(fault.rank)
    return hit


def dump(
    job: Job, states: dict[int, State], rank: int, active_only: bool = False, stamp: int = 1_790_000_000
) -> dict[str, Any]:
    """The flight recorder dump of a rank, version 2.10."""
    state, program = states[rank], job.programs[rank]
    names = list(dict.fromkeys(op.group for op in program))
    status = {}
    for index, name in enumerate(names):
        issued = [op.seq for op in program[: state.issued] if op.group == name]
        finished = [op.seq for op in program[: state.finished] if op.group == name]
        status[str(index)] = {
            "last_enqueued_collective": max(issued, default=-1),
            "last_started_collective": -1,
            "last_completed_collective": max(finished, default=-1),
        }
    entries = [
        entry(op, rank, names.index(op.group), place, place < state.finished, stamp + state.times[place])
        for place, op in enumerate(program[: state.issued])
        if not active_only or place >= state.finished
    ]
    config = {
        name: {"name": name, "desc": name.rstrip("0123456789."), "ranks": str(sorted(whole))}
        for name, whole in {op.group: op.whole for op in program}.items()
    }
    return {
        "version": "2.10",
        "pg_config": config,
        "comm_lib_version": "2.28.9",
        "pg_status": status,
        "entries": entries,
    }


def called(op: Op, rank: int) -> str:
    """The name of the record: of a transfer each end has its own, with ranks as the group counts them."""
    if op.name != "send":
        return op.name
    source, target = (sorted(op.whole).index(member) for member in op.members)
    return f"nccl:send {source}->{target}" if rank == op.members[0] else f"nccl:recv {target}<-{source}"


def entry(op: Op, rank: int, local: int, place: int, done: bool, stamp: int) -> dict[str, Any]:
    """One record."""
    transfer = op.name == "send"
    return {
        "record_id": place,
        "pg_id": local,
        "process_group": (op.group, op.group.rstrip("0123456789.")),
        "collective_seq_id": 0 if transfer else op.seq,
        "p2p_seq_id": op.seq if transfer else 0,
        "op_id": op.seq,
        "profiling_name": called(op, rank),
        "time_created_ns": stamp * 1_000_000_000 + place * 100_000,
        "input_sizes": [[op.size]],
        "input_dtypes": ["Float"],
        "output_sizes": [[op.size]],
        "output_dtypes": ["Float"],
        "state": "completed" if done else "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": 1 if done else None,
        "retired": done,
        "timeout_ms": 600000,
        "is_p2p": transfer,
        "frames": [
            {
                "name": "all_reduce",
                "filename": "/opt/venv/lib/python3.11/site-packages/torch/distributed/c10d.py",
                "line": 9,
            },
            {"name": "step", "filename": "/data/run/train.py", "line": 41},
        ],
    }


def layouts(seed: int, count: int) -> list[tuple[Job, list[Fault]]]:
    """Jobs of 4 to 32 ranks with one or two faults of one kind."""
    chance = random.Random(seed)
    out = []
    for _ in range(count):
        job = Job(chance.choice([1, 2, 4]), chance.choice([1, 2, 4]), chance.choice([2, 4])).write()
        kind = chance.choice(["host", "gpu"])
        ranks = chance.sample(range(job.ranks), min(chance.choice([1, 1, 2]), job.ranks - 1))
        low = len(job.programs[0]) // 3
        place = chance.randrange(low, 2 * low)
        out.append((job, [Fault(rank, kind, min(place, len(job.programs[rank]) - 2)) for rank in ranks]))
    return out
