"""Does `triage check` measure between GPUs what torch itself gets? Needs two or more idle GPUs of one host, and torch.

    check_node.py [RAW]      RAW: where to keep the lines that the measuring processes wrote

Runs the stages of one GPU and of one node on all cards, then plain torch in processes of its own: a copy from each card
to each other, and an all-reduce of 1 GiB a rank. Prints both side by side; exit code 1 when a figure is more than 10 %
off or a stage does not pass. Run it from the root of the checkout, with PYTHONPATH=. where triage is not installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from triage.checks import children, listing, stages
from triage.model.check import Outcome, Raw

ALLOWED = 0.10
WORDS = 1 << 28  # of four bytes: what each rank reduces
COPY = 1 << 30
TIMES = 20


def copies() -> None:
    """`SOURCE TARGET GB/s` of each ordered pair."""
    import torch

    count = torch.cuda.device_count()
    for source, target in ((one, other) for one in range(count) for other in range(count) if one != other):
        ours = torch.ones(COPY, dtype=torch.uint8, device=f"cuda:{source}")
        there = torch.empty_like(ours, device=f"cuda:{target}")
        for _ in range(3):
            there.copy_(ours)
        _wait(torch, source, target)
        start = time.perf_counter()
        for _ in range(TIMES):
            there.copy_(ours)
        _wait(torch, source, target)
        print(source, target, COPY * TIMES * 1e-9 / (time.perf_counter() - start))


def _wait(torch: object, *cards: int) -> None:
    for card in cards:
        torch.cuda.synchronize(card)  # type: ignore[attr-defined]


def reduce(rank: int, world: int, start: str) -> None:
    """Bus bandwidth in GB/s, told by rank 0: 2 (n - 1) / n of the bytes over the time, as nccl-tests count it."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=start, rank=rank, world_size=world)
    data = torch.zeros(WORDS, device="cuda")
    for _ in range(5):
        dist.all_reduce(data)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(TIMES):
        dist.all_reduce(data)
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - begin) / TIMES
    if rank == 0:
        print(2 * (world - 1) / world * 4e-9 * WORDS / seconds)
    dist.destroy_process_group()


def plain(*words: str) -> list[str]:
    """The lines of one child of this file."""
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def reduced(world: int) -> float:
    """What torch's all-reduce gets over all cards."""
    with tempfile.TemporaryDirectory() as folder:
        start = [sys.executable, __file__, "reduce"]
        where = f"file://{folder}/meet"
        others = [subprocess.Popen([*start, str(rank), str(world), where]) for rank in range(1, world)]
        (told,) = [line for line in plain("reduce", "0", str(world), where) if line[:1].isdigit()]
        for other in others:
            other.wait(60)
    return float(told)


def checked(kept: list[Raw]) -> Outcome:
    """The stages of one GPU and of one node; what their children wrote goes to `kept`."""

    def run(jobs: object, folder: Path, limit: float) -> list[children.Ended]:
        ended = children.run(jobs, folder, limit)  # type: ignore[arg-type]
        kept.extend(raw for one in ended for raw in one.found)
        return ended

    return stages.check(stages.Plan(seconds=4.0, last="node"), run)


def beside(outcome: Outcome) -> bool:
    """Print the node stage beside torch's own figures."""
    figures = {(figure.name, figure.on): figure.value or 0.0 for figure in outcome.stages[1].figures}
    own = {("copy", f"gpu {one} > gpu {other}"): float(rate) for one, other, rate in map(str.split, plain("copies"))}
    own["all-reduce", "all"] = reduced(len(outcome.gpus))
    good = outcome.state == "passed"
    for (name, on), rate in own.items():
        off = figures.get((name, on), 0.0) / rate - 1
        good &= abs(off) <= ALLOWED
        print(
            f"{name:<11} {on:<14} check {figures.get((name, on), 0.0):7.1f}   torch {rate:7.1f} GB/s {100 * off:+.1f} %"
        )
    return good


def main() -> int:
    """Print all, exit 1 when something is not as promised."""
    kept: list[Raw] = []
    outcome = checked(kept)
    if sys.argv[1:]:
        Path(sys.argv[1]).write_bytes(b"".join(msgspec.json.encode(raw) + b"\n" for raw in kept))
    print(listing.table(outcome))
    good = len(outcome.stages[1].figures) > 0 and beside(outcome)
    print("as promised" if good else "NOT as promised")
    return 0 if good else 1


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["copies"]:
            copies()
        case ["reduce", rank, world, start]:
            reduce(int(rank), int(world), start)
        case _:
            sys.exit(main())
