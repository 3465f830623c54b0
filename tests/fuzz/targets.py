"""What is fuzzed: each module of surfaces/ gives targets, found by listing the folder.

A target runs one input and raises only when triage is at fault. `check` bounds what an input may cost.
"""

from __future__ import annotations

import importlib
import resource
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.fuzz.mutating import mutated

HERE = Path(__file__).parent
FIXTURES = Path(__file__).parents[2] / "fixtures"
SEEDS = FIXTURES / "fuzz"  # one folder a target: inputs that once broke it
SECONDS = 1.0  # of processor time that one input may take
MEMORY = 512 << 20  # bytes by which one input may raise the peak of the process
SAMPLE = 2 << 10  # bytes of a sample; of longer ones parts are taken: small inputs are tried more often


class Target(NamedTuple):
    """run: raises when triage is at fault. share: of the inputs of a parser, for what takes longer than a parser."""

    name: str
    samples: tuple[bytes, ...]
    run: Callable[[bytes], None]
    share: float = 1.0


class Cost(NamedTuple):
    """Seconds of processor time, and bytes by which the peak of memory rose."""

    seconds: float
    memory: int


@cache
def targets() -> dict[str, Target]:
    """All targets by name."""
    return {target.name: target for target in _listed()}


def _listed() -> Iterator[Target]:
    for path in sorted((HERE / "surfaces").glob("*.py")):
        yield from importlib.import_module(f"tests.fuzz.surfaces.{path.stem}").targets()


def sampled(*folders: Path) -> tuple[bytes, ...]:
    """The files below the folders, sorted; of long ones the head and some parts from within."""
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return tuple(part for path in files for part in parts(path.read_bytes()))


def parts(data: bytes) -> Iterator[bytes]:
    """The data itself, or when it is long its head and two pieces that begin at a line."""
    yield data[:SAMPLE]
    for share in (3, 2) if len(data) > 2 * SAMPLE else ():
        start = data.find(b"\n", len(data) // share) + 1
        yield data[start : start + SAMPLE]


def made(target: Target, seed: str, number: int) -> bytes:
    """The input of a number: the same for ever, as long as the samples stay."""
    return mutated(Random(f"{seed}/{target.name}/{number}"), target.samples)


def check(target: Target, data: bytes) -> Cost:
    """Run one input. Raises what the target raises, and AssertionError when it takes too long or too much."""
    before, begin = _peak(), time.process_time()
    target.run(data)
    cost = Cost(time.process_time() - begin, _peak() - before)
    assert cost.seconds < SECONDS, f"{cost.seconds:.2f} s"
    assert cost.memory < MEMORY, f"{cost.memory >> 20} MiB"
    return cost


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def kept(target: Target) -> list[bytes]:
    """The inputs that once broke a target."""
    folder = SEEDS / target.name
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []
