"""Are injected stragglers found, and only they? Figures with a fixed seed, not a test (a slice of it is one).

    python -m benchmarks.stragglers [--runs 200] [--healthy 1000] [--seed 7]

Jobs of 8 to 256 ranks and 300 steps. Work has log-normal noise of 3 % a rank and 2 % common to all; in 1 % of the
steps one rank takes two to five times as long; every 100 steps all save a checkpoint. From a step between 50 and 200
one rank, or two, take 10 to 60 % longer, in some runs only for 40 to 120 steps. What is measured differs by run:
whole steps of each rank by itself, the parts of the step with the waiting in the backward pass, the same with the
communication apart, or the whole step with its communication.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy

from triage.analysis.stragglers import judged

RANKS = (8, 16, 32, 64, 128, 256)
STEPS = 300
WARMUP = 5
FORMS = ("step", "parts", "apart", "remainder")
KINDS = ("one", "two", "ends")
NEAR = 5  # steps that a change point may be off
Table = Any


@dataclass
class Job:
    """One run: its tables (phase -> ranks by steps, ms), and for each culprit its first and its last slow step."""

    tables: dict[str, Table]
    culprits: dict[int, tuple[int, int]] = field(default_factory=dict)
    name: str = ""


@dataclass
class Score:
    """Counts over runs."""

    hits: int = 0
    false: int = 0
    missed: int = 0
    near: int = 0
    edges: int = 0
    worst: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float:
        """Of the injected culprits, those that were named."""
        return self.hits / max(self.hits + self.missed, 1)

    @property
    def precision(self) -> float:
        """Of those named, the injected ones."""
        return self.hits / max(self.hits + self.false, 1)


def make(seed: int, ranks: int, form: str, kind: str | None) -> Job:
    """A run of `ranks`; without a kind it is healthy."""
    chance, dice = numpy.random.default_rng(seed), random.Random(seed)
    culprits = _culprits(dice, ranks, kind) if kind else {}
    factor = numpy.ones((ranks, STEPS))
    for rank, (first, last) in culprits.items():
        factor[rank, first:last] *= 1.0 + dice.uniform(0.10, 0.60) if dice.random() < 0.7 else 1.10
    common = numpy.exp(chance.normal(0.0, 0.02, STEPS))[None, :]
    spikes = numpy.ones((ranks, STEPS))
    for step in numpy.flatnonzero(chance.random(STEPS) < 0.01):
        spikes[chance.integers(ranks), step] = chance.uniform(2.0, 5.0)
    noise = numpy.exp(chance.normal(0.0, 0.03, (3, ranks, STEPS))) * common * spikes
    forward, backward, rest = 60.0 * factor * noise[0], 120.0 * factor * noise[1], 20.0 * noise[2]
    save = numpy.where(numpy.arange(STEPS) % 100 == 99, 2000.0, 0.0)[None, :]
    return Job(_measured(form, forward, backward, rest, save, factor * noise[0]), culprits, f"{ranks} {form} {kind}")


def _culprits(dice: random.Random, ranks: int, kind: str) -> dict[int, tuple[int, int]]:
    out = {}
    for rank in dice.sample(range(ranks), 2 if kind == "two" else 1):
        first = dice.randrange(50, 200)
        last = first + dice.randrange(40, 81) if kind == "ends" else STEPS
        out[rank] = (first, last)
    return out


def _measured(form: str, forward: Table, backward: Table, rest: Table, save: Table, own: Table) -> dict[str, Table]:
    """What a recorder writes: all ranks end the step together, by waiting for the slowest."""
    work = forward + backward + rest
    wait = work.max(axis=0)[None, :] - work
    whole = work + wait + 10.0 + save
    tables = {
        "step": lambda: {"step_ms": 200.0 * own + save},
        "parts": lambda: {"fwd_ms": forward, "bwd_ms": backward + wait + 10.0, "opt_ms": rest, "step_ms": whole},
        "apart": lambda: {"fwd_ms": forward, "bwd_ms": backward, "opt_ms": rest, "comm_ms": wait + 10.0,
                          "ckpt_ms": save + 0 * work, "step_ms": whole},
        "remainder": lambda: {"step_ms": whole, "comm_ms": wait + 10.0},
    }[form]()  # fmt: skip
    return {phase: table[:, WARMUP:] for phase, table in tables.items()}


def score(jobs: Iterator[Job]) -> Score:
    """Runs the analysis on each job."""
    total = Score()
    for job in jobs:
        found = {item.row: item for _, item in judged(job.tables)}
        total.hits += len(found.keys() & job.culprits.keys())
        total.false += len(found.keys() - job.culprits.keys())
        total.missed += len(job.culprits.keys() - found.keys())
        for rank in found.keys() & job.culprits.keys():
            first, last = job.culprits[rank]
            off = abs(found[rank].first + WARMUP - first)
            total.near += off <= NEAR
            total.edges += (last == STEPS and not found[rank].ended) or abs(found[rank].end + WARMUP - last) <= NEAR
        if found.keys() != job.culprits.keys():
            total.worst.append(f"{job.name}: wanted {job.culprits}, got {sorted(found)}")
    return total


def injected(runs: int, seed: int) -> Iterator[Job]:
    """Runs with culprits, over all sizes, forms and kinds in turn."""
    for at in range(runs):
        ranks = RANKS[at % len(RANKS)]
        yield make(seed * 1_000_003 + at, ranks, FORMS[at // len(RANKS) % len(FORMS)], KINDS[at // 24 % len(KINDS)])


def healthy(runs: int, seed: int) -> Iterator[Job]:
    """Runs without one."""
    for at in range(runs):
        yield make(seed * 2_000_003 + at, RANKS[at % len(RANKS)], FORMS[at // len(RANKS) % len(FORMS)], None)


def main() -> None:
    """Run both, print the figures."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--runs", type=int, default=600)
    asked.add_argument("--healthy", type=int, default=1000)
    asked.add_argument("--seed", type=int, default=7)
    options, start = asked.parse_args(), time.perf_counter()
    found = score(injected(options.runs, options.seed))
    named = score(healthy(options.healthy, options.seed))
    print(f"{options.runs} runs: recall {found.recall:.4f}, precision {found.precision:.4f}")
    print(
        f"begins within {NEAR} steps {found.near / max(found.hits, 1):.4f}, ends {found.edges / max(found.hits, 1):.4f}"
    )
    print(f"{options.healthy} healthy runs: {named.false} ranks named; {time.perf_counter() - start:.0f} s")
    print("\n".join([*found.worst, *named.worst][:10]))


if __name__ == "__main__":
    main()
