"""The three stages in order; the first that fails is the last that runs."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct, structs

from triage.checks import children, expected, judging
from triage.checks.children import Ended, Job
from triage.errors import UsageError
from triage.model.check import Figure, Outcome, Raw, Stage, State

Run = Callable[[Sequence[Job], Path, float], list[Ended]]
Note = Callable[[str], None]
NAMES = ("gpu", "node", "nodes")
TITLES = {"gpu": "Each GPU alone", "node": "The GPUs of this node together", "nodes": "Nodes in pairs, then all"}
START = 90.0  # seconds that importing torch and making contexts may take on a cold file system
PAIR = 1.0  # seconds a pair of GPUs may take
PORT = 29_517


class Plan(Struct, frozen=True, kw_only=True):
    """What to check.

    gpus: indexes as torch counts them; empty: all. seconds: of load on each card. last: the last stage wanted.
    nodes, node_rank, rendezvous: this node's place among several; rendezvous is `host:port` of node 0.
    plant: `product` or `memory` spoils a value, to show that the check catches it.
    """

    gpus: tuple[int, ...] = ()
    seconds: float = 10.0
    last: str = "nodes"
    force: bool = False
    nodes: int = 1
    node_rank: int = 0
    rendezvous: str = ""
    plant: str = ""


def check(plan: Plan, run: Run = children.run, note: Note = lambda text: None) -> Outcome:
    """Run the stages. Raises UsageError without torch, without a GPU, and when one is in use (unless forced)."""
    if run is children.run and importlib.util.find_spec("torch") is None:
        raise UsageError("torch is not installed here: pip install 'gpu-triage[torch]', or use the job's environment")
    with tempfile.TemporaryDirectory(prefix="triage-check-", ignore_cleanup_errors=True) as folder:
        gpus = _look(plan, run, Path(folder))
        checks = _Checks(plan, run, Path(folder), gpus, note)
        stages = checks.stages()
    worst: State = next((stage.state for stage in stages if stage.state == "failed"), "passed")
    names = [f"{raw.on}: {raw.text}" for raw in gpus.values()]
    return Outcome(state=worst, node=socket.gethostname(), gpus=names, stages=stages)


def _look(plan: Plan, run: Run, folder: Path) -> dict[int, Raw]:
    """The cards that will be checked, by index."""
    ended = run([Job("look", ("gpu_child", "look", "{result}"))], _own(folder, "look"), START)[0]
    cards = {int(raw.on.split()[1]): raw for raw in ended.found if raw.name == "gpu"}
    if not cards:
        raise UsageError(f"no GPU can be used: {ended.why or 'torch finds none'}")
    if unknown := [index for index in plan.gpus if index not in cards]:
        raise UsageError(f"no GPU {unknown[0]}: torch finds {', '.join(str(index) for index in cards)}")
    wanted = {index: cards[index] for index in plan.gpus or sorted(cards)}
    busy = {raw.on: raw.text for raw in ended.found if raw.name == "busy"}
    for raw in wanted.values():
        if raw.ok is False and not plan.force:
            raise UsageError(f"{raw.on} is in use ({busy.get(raw.on, 'by something')}); --force checks it all the same")
    return wanted


def _own(folder: Path, name: str) -> Path:
    own = folder / name
    own.mkdir()
    return own


class _Checks:
    def __init__(self, plan: Plan, run: Run, folder: Path, gpus: dict[int, Raw], note: Note) -> None:
        self.plan, self.run, self.folder, self.gpus, self.note = plan, run, folder, gpus, note
        self.model = expected.model(next(iter(gpus.values())).text)

    def stages(self) -> list[Stage]:
        done: list[Stage] = []
        failed = ""
        for name in NAMES:
            why = self._not_wanted(name) or (f"stage {failed} failed" if failed else "")
            if why:
                done.append(Stage(name=name, title=TITLES[name], state="not run", why=why))
                continue
            self.note(TITLES[name])
            done.append(self._timed(name))
            failed = name if done[-1].state == "failed" else ""
        return done

    def _not_wanted(self, name: str) -> str:
        if NAMES.index(name) > NAMES.index(self.plan.last):
            return f"--up-to {self.plan.last}"
        if name == "node" and len(self.gpus) < 2:
            return "one GPU only"
        if name == "nodes" and self.plan.nodes < 2:
            return "one node only: start it on every node (srun --ntasks-per-node=1 triage check)"
        return ""

    def _timed(self, name: str) -> Stage:
        start = time.monotonic()
        figures, why = {"gpu": self._gpu, "node": self._node, "nodes": self._nodes}[name]()
        failed = bool(why) or any(figure.state == "failed" for figure in figures)
        passed = any(figure.state == "passed" for figure in figures)
        state: State = "failed" if failed else "passed" if passed else "unknown"
        seconds = round(time.monotonic() - start, 1)
        return Stage(name=name, title=TITLES[name], state=state, figures=figures, why=why, seconds=seconds)

    def _gpu(self) -> tuple[list[Figure], str]:
        folder = _own(self.folder, "gpu")
        lock, plan = str(folder / "pcie.lock"), self.plan
        tail = (str(plan.seconds), lock, *([plan.plant] if plan.plant else []))
        jobs = [Job(f"gpu {index}", ("gpu_child", "measure", "{result}", str(index), *tail)) for index in self.gpus]
        # Proofs, sizes and load take at most 3.3 times the seconds; the slots are measured one after the other.
        ended = self.run(jobs, folder, START + 5 * plan.seconds + 5 * len(jobs))
        named = [one.found or [Raw(name="device", on=one.name)] for one in ended]
        return judging.cards(named), _whys(ended)

    def _node(self) -> tuple[list[Figure], str]:
        count = len(self.gpus)
        pairs = Job("pairs", ("group_child", "pairs", "{result}"), self._visible())
        ended = self.run([pairs], _own(self.folder, "pairs"), START + PAIR * count * (count - 1))
        figures = judging.between(self._named(ended[0].found), self.model, one_node=True)
        if _whys(ended) or any(figure.state == "failed" for figure in figures):
            return figures, _whys(ended)
        start = f"file://{self.folder}/rendezvous"
        more = self.run(self._ranks(0, count, start), _own(self.folder, "ranks"), START + 60)
        return figures + judging.between(_all(more), self.model, one_node=True), _whys(more)

    def _named(self, found: list[Raw]) -> list[Raw]:
        """With the numbers that the user knows: a child counts what it sees."""
        known = list(self.gpus)
        name = partial(re.sub, r"gpu (\d+)", lambda match: f"gpu {known[int(match[1])]}")
        return [structs.replace(raw, on=name(raw.on)) for raw in found]

    def _nodes(self) -> tuple[list[Figure], str]:
        each, plan = len(self.gpus), self.plan
        start = f"tcp://{plan.rendezvous}"
        jobs = self._ranks(plan.node_rank * each, plan.nodes * each, start)
        ended = self.run(jobs, _own(self.folder, "nodes"), START + 60 + 10 * plan.nodes.bit_length())
        return judging.between(_all(ended), self.model, one_node=False), _whys(ended)

    def _ranks(self, first: int, world: int, start: str) -> list[Job]:
        each, tail = len(self.gpus), (str(world), str(len(self.gpus)), start, "60")
        return [
            Job(f"rank {rank}", ("group_child", "ranks", "{result}", str(rank), *tail), self._visible())
            for rank in range(first, first + each)
        ]

    def _visible(self) -> str:
        """The wanted cards alone, for a child that takes all it sees; empty when all are wanted."""
        if not self.plan.gpus:
            return ""
        before = os.environ.get("CUDA_VISIBLE_DEVICES")
        seen = before.split(",") if before else [str(index) for index in range(max(self.gpus) + 1)]
        return ",".join(seen[index] for index in self.gpus)


def _all(ended: list[Ended]) -> list[Raw]:
    return [raw for one in ended for raw in one.found]


def _whys(ended: list[Ended]) -> str:
    return "; ".join(f"{one.name} {one.why}" for one in ended if one.why)[:400]


def place(environment: dict[str, str]) -> tuple[int, int, str]:
    """(nodes, this node's number, host:port of node 0) as srun's or torchrun's variables say; (1, 0, "") without.

    Raises UsageError when several checks were started on a node: they would measure each other.
    """
    if "SLURM_STEP_NUM_NODES" in environment:
        count = int(environment["SLURM_STEP_NUM_NODES"])
        _one_each(int(environment.get("SLURM_STEP_NUM_TASKS", count)), count, "srun --ntasks-per-node=1")
        first = first_host(environment.get("SLURM_STEP_NODELIST", ""))
        return count, int(environment.get("SLURM_PROCID", "0")), f"{first}:{PORT}"
    if "GROUP_WORLD_SIZE" in environment and "MASTER_ADDR" in environment:
        count = int(environment["GROUP_WORLD_SIZE"])
        _one_each(int(environment.get("WORLD_SIZE", count)), count, "torchrun --nproc-per-node 1")
        port = int(environment.get("MASTER_PORT", PORT)) + 1  # its own is taken
        return count, int(environment.get("GROUP_RANK", "0")), f"{environment['MASTER_ADDR']}:{port}"
    return 1, 0, ""


def _one_each(tasks: int, nodes: int, how: str) -> None:
    if tasks != nodes:
        raise UsageError(f"{tasks} checks were started on {nodes} node{'s' * (nodes > 1)}; one each is right: {how}")


def first_host(nodelist: str) -> str:
    """`node[017-020,030],login1` to `node017`."""
    found = re.match(r"([^,\[]*)(?:\[(\d+)[^\]]*\]([^,\[]*))?", nodelist)
    return "".join(part for part in found.groups() if part) if found else ""
