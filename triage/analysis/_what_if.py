"""What a slow worker, stage or kind of operation costs: the step played again with other durations.

A step is a program for each worker (a place in the pipeline and data-parallel grid): computations, transfers between
neighbouring stages, collectives of a group. Played with the durations that were measured, less the time that ranks
waited for each other, it gives the real step; played with every operation at its kind's mean it gives the ideal one.
Their ratio is the slowdown; the ideal but for one worker, stage or kind tells what that one costs.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[Any]

TOP = 0.03  # of the workers, at least one: a slowdown by few workers goes away with them
MOST = 0.5  # of what an ideal run would save
COSTS = 1.05  # slowdown below which nothing is blamed
Worker = tuple[int, int]  # data-parallel rank, stage
_SENDS = {"forward-send": "forward-recv", "backward-send": "backward-recv"}
_STAGES = {"forward-send": 1, "backward-send": -1, "forward-recv": -1, "backward-recv": 1}
_DATA = ("grads-reduce-scatter", "params-all-gather", "grads-all-reduce")  # all data-parallel ranks of a stage
_ALL = ("optimizer-clip-main-grad",)  # the norm of the gradients is a sum over all workers
_ENDS = ("embedding-grads-all-reduce",)  # first and last stage


@dataclass(frozen=True)
class Op:
    """One operation of one step on one worker; seconds. `seq` counts operations of a kind within the step."""

    dp: int
    stage: int
    step: int
    kind: str
    start: float
    duration: float
    seq: int
    chunk: int = 0


@dataclass
class Node:
    """What happens once: a computation, or what several workers do together. `times`: seconds by step."""

    kind: str
    members: tuple[Worker, ...]
    times: Times


@dataclass
class Program:
    """Nodes, and for each worker the order in which it does them; nodes of one batch run side by side."""

    nodes: list[Node]
    order: dict[Worker, list[list[int]]]
    steps: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Answer:
    """slowdown: real over ideal. by_*: slowdown with all at their ideal but that one.

    workers_share, last_stage_share: part of the possible saving that mending the slowest 3 % of the workers, or the
    last stage, would bring. verdict: worker | stage | kind | none, of which `culprit` is the name.
    """

    slowdown: float
    by_dp: dict[int, float]
    by_stage: dict[int, float]
    by_kind: dict[str, float]
    workers_share: float
    last_stage_share: float
    verdict: str
    culprit: str
    worker: Worker

    @property
    def waste(self) -> float:
        """Part of the time that an ideal run would not need, 0 to 1."""
        return 1 - 1 / max(self.slowdown, 1.0)


def answer(ops: Iterable[Op]) -> Answer | None:
    """None when the steps do not fit together: operations without a partner, or fewer than one whole step."""
    program = build(ops)
    stage = _Stage(program) if program is not None else None
    if stage is None or stage.best <= 0:
        return None
    workers = sorted(stage.program.order)
    by_dp = {dp: stage.but(_on(0, dp)) for dp in _sides(workers, 0)}
    by_stage = {at: stage.but(_on(1, at)) for at in _sides(workers, 1)}
    by_kind = {kind: stage.but(partial(_is, kind)) for kind in sorted(stage.ideal)}
    slowest = sorted(workers, key=lambda one: (-min(by_dp[one[0]], by_stage[one[1]]), one))
    top, last = set(slowest[: max(1, round(TOP * len(workers)))]), max(by_stage)
    of_workers = stage.saves(lambda node: any(member in top for member in node.members))
    of_last = stage.saves(_on(1, last))
    slowdown = stage.real / stage.best
    verdict, culprit = _verdict(slowdown, slowest[0], of_workers, of_last, by_stage, by_kind)
    return Answer(slowdown, by_dp, by_stage, by_kind, of_workers, of_last, verdict, culprit, slowest[0])


class _Stage:
    """A program with what it takes as measured and at its ideal; seconds of the mean step, 0 when it cannot end."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.ideal = ideals(program)
        self.real = _mean(play(program, lambda node: node.times))
        self.best = _mean(play(program, lambda node: self.ideal[node.kind]))

    def but(self, only: Callable[[Node], bool]) -> float:
        """Slowdown when everything is ideal but some nodes."""
        return _mean(play(self.program, lambda n: n.times if only(n) else self.ideal[n.kind])) / self.best

    def saves(self, mended: Callable[[Node], bool]) -> float:
        """Part of the possible saving that comes from some nodes alone being ideal."""
        left = _mean(play(self.program, lambda n: self.ideal[n.kind] if mended(n) else n.times))
        return (self.real - left) / (self.real - self.best) if self.real > self.best else 0.0


def _on(side: int, which: int) -> Callable[[Node], bool]:
    """Is a node on this data-parallel rank (side 0) or stage (side 1)?"""
    return lambda node: any(member[side] == which for member in node.members)


def _is(kind: str, node: Node) -> bool:
    return node.kind == kind


def _sides(workers: list[Worker], side: int) -> list[int]:
    return sorted({worker[side] for worker in workers})


def _verdict(
    slowdown: float, worker: Worker, of_workers: float, of_last: float, by_stage: dict[int, float],
    by_kind: dict[str, float],
) -> tuple[str, str]:  # fmt: skip
    if slowdown < COSTS:
        return "none", ""
    if of_workers >= MOST and of_workers >= of_last:
        return "worker", f"dp {worker[0]} stage {worker[1]}"
    if of_last >= MOST:
        return "stage", str(max(by_stage, key=lambda stage: by_stage[stage]))
    return "kind", max(by_kind, key=lambda kind: by_kind[kind])


def ideals(program: Program) -> dict[str, float]:
    """Seconds of each kind: the mean of computations; the median of what workers do together, which few slow down."""
    times: dict[str, list[float]] = defaultdict(list)
    together: set[str] = set()
    for node in program.nodes:
        times[node.kind].extend(node.times.tolist())
        if len(node.members) > 1:
            together.add(node.kind)
    return {
        kind: statistics.median(told) if kind in together else statistics.fmean(told) for kind, told in times.items()
    }


def play(program: Program, takes: Callable[[Node], Any]) -> Times | None:
    """Seconds of each step when node n takes `takes(n)`; None when workers wait for each other for ever."""
    import numpy

    zero = numpy.zeros(len(program.steps))
    now: dict[Worker, Times] = dict.fromkeys(program.order, zero)
    at = dict.fromkeys(program.order, 0)
    arrived: dict[int, int] = defaultdict(int)
    starts: dict[int, Times] = {}
    done: dict[int, Times] = {}
    waiting = {worker: _enter(program, worker, 0, arrived, starts, zero) for worker in program.order}
    ready = [node for nodes in waiting.values() for node in nodes]
    while ready:
        node = ready.pop()
        if node in done or arrived[node] < len(program.nodes[node].members):
            continue
        done[node] = starts[node] + takes(program.nodes[node])
        for worker in program.nodes[node].members:
            units = program.order[worker]
            if all(one in done for one in units[at[worker]]):
                now[worker] = numpy.maximum.reduce([done[one] for one in units[at[worker]]])
                at[worker] += 1
                ready += _enter(program, worker, at[worker], arrived, starts, now[worker])
    finished = all(at[worker] == len(units) for worker, units in program.order.items())
    return numpy.maximum.reduce(list(now.values())) if finished else None


def _enter(
    program: Program, worker: Worker, at: int, arrived: dict[int, int], starts: dict[int, Times], now: Times
) -> list[int]:
    """The worker begins its next batch; its nodes start when their last member does."""
    import numpy

    nodes = program.order[worker][at] if at < len(program.order[worker]) else []
    for node in nodes:
        arrived[node] += 1
        starts[node] = numpy.maximum(starts[node], now) if node in starts else now
    return nodes


def _mean(times: Times | None) -> float:
    return 0.0 if times is None else float(times.mean())


Key = tuple[Worker, str, int, int]


def build(ops: Iterable[Op]) -> Program | None:
    """The program of the steps that have the same operations as most; None without one."""
    import numpy

    by_step: dict[int, dict[Key, Op]] = defaultdict(dict)
    for op in ops:
        by_step[op.step][(op.dp, op.stage), op.kind, op.chunk, op.seq] = op
    shapes: dict[frozenset[Key], list[int]] = defaultdict(list)
    for step, told in by_step.items():
        shapes[frozenset(told)].append(step)
    if not shapes:
        return None
    keys, steps = max(shapes.items(), key=lambda item: (len(item[1]), -min(item[1])))
    starts = {key: numpy.array([by_step[step][key].start for step in steps]) for key in keys}
    ends = {key: starts[key] + numpy.array([by_step[step][key].duration for step in steps]) for key in keys}
    depth = 1 + max(key[0][1] for key in keys)
    groups: dict[tuple[Any, ...], list[Key]] = defaultdict(list)
    for key in sorted(keys):
        groups[_group(key, depth)].append(key)
    nodes, place = _nodes(groups, starts, ends)
    return Program(nodes, _order(keys, starts, place), sorted(steps))


def _nodes(groups: dict[tuple[Any, ...], list[Key]], starts: dict[Key, Times], ends: dict[Key, Times]) -> tuple[
    list[Node], dict[Key, int]
]:  # fmt: skip
    """What is done together ends when the first member is through, less the wait for the last to come."""
    import numpy

    nodes: list[Node] = []
    place: dict[Key, int] = {}
    for name, members in groups.items():
        begun = numpy.maximum.reduce([starts[key] for key in members])
        through = numpy.minimum.reduce([ends[key] for key in members])
        place.update(dict.fromkeys(members, len(nodes)))
        nodes.append(Node(name[0], tuple(key[0] for key in members), numpy.maximum(through - begun, 0.0)))
    return nodes, place


def _group(key: Key, depth: int) -> tuple[Any, ...]:
    """What is the same for all who do it together; transfers carry the name of the sending side.

    With several model chunks a stage the last one sends to the first.
    """
    (dp, stage), kind, chunk, seq = key
    if kind in _SENDS:
        return kind, dp, stage, (stage + _STAGES[kind]) % depth, chunk, seq
    for send, receive in _SENDS.items():
        if kind == receive:
            return send, dp, (stage + _STAGES[kind]) % depth, stage, chunk, seq
    if kind in _DATA:
        return kind, stage, chunk, seq
    if kind in _ALL:
        return kind, chunk, seq
    if kind in _ENDS:
        return kind, dp, chunk, seq
    return kind, dp, stage, chunk, seq


def _order(keys: Iterable[Key], starts: dict[Key, Times], place: dict[Key, int]) -> dict[Worker, list[list[int]]]:
    """By when they started in most steps; transfers that start together are one batch."""
    import numpy

    of: dict[Worker, list[tuple[float, str, Key]]] = defaultdict(list)
    base = numpy.minimum.reduce(list(starts.values()))
    for key in keys:
        of[key[0]].append((float(numpy.median(starts[key] - base)), key[1], key))
    order: dict[Worker, list[list[int]]] = {}
    for worker, told in of.items():
        units: list[list[int]] = []
        before: tuple[float, bool] = (-1.0, False)
        for start, kind, key in sorted(told):
            transfer = kind in _STAGES
            if transfer and before == (start, True):
                units[-1].append(place[key])
            else:
                units.append([place[key]])
            before = (start, transfer)
        order[worker] = units
    return order
