"""How often are slow links, odd GPUs, late ranks and deadlocks of transfers told right? Figures, not a test.

    python -m benchmarks.deep_evidence [--rounds 500] [--seed 1]

Makes up evidence with a known answer (or with none) and counts answers that are right, absent and wrong.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator

from tests.analysis.build import incident
from tests.analysis.test_peers import card
from tests.analysis.test_transfers import Way, culprits, told
from tests.parsers.test_nccl_inspector import dumps
from tests.parsers.test_nccl_inspector import told as late
from tests.parsers.test_pair_bandwidth import Cells, found, matrix, of
from triage.analysis import peers

Answer = tuple[object, object]  # what is true, what was said; None is nothing
Program = dict[int, list[Way]]


def main() -> None:
    """Print a table: what was made up, how often, right, silent, wrong, milliseconds each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(f"{'made up':<50}{'cases':>7}{'right':>7}{'silent':>8}{'wrong':>7}{'ms each':>9}")
    for make in (sound_links, slow_gpu, slow_pair, sound_gpus, odd_gpu, punctual, late_rank, stopped, crossed):
        dice = random.Random(asked.seed)
        counts: Counter[str] = Counter()
        begin = time.process_time()
        for true, said in make(dice, asked.rounds):
            counts["right" if said == true else "silent" if said is None else "wrong"] += 1
        each = 1000 * (time.process_time() - begin) / asked.rounds
        row = [asked.rounds, counts["right"], counts["silent"], counts["wrong"]]
        print(f"{(make.__doc__ or '').strip('.'):<50}{row[0]:>7}{row[1]:>7}{row[2]:>8}{row[3]:>7}{each:>9.1f}")


def _links(dice: random.Random, low: Cells, count: int) -> object:
    slow = found(matrix(count, low, usual=dice.choice([20.0, 276.0, 780.0]), seed=dice.randrange(1 << 30)))
    return slow or None


def sound_links(dice: random.Random, rounds: int) -> Iterator[Answer]:
    """Matrix of 4 to 16, all sound."""
    for _ in range(rounds):
        yield None, _links(dice, {}, dice.randint(4, 16))


def slow_gpu(dice: random.Random, rounds: int) -> Iterator[Answer]:
    """Matrix of 4 to 16, one GPU at a third."""
    for _ in range(rounds):
        count = dice.randint(4, 16)
        gpu, ways = dice.randrange(count), dice.choice(["both", "out", "in"])
        yield [("gpu", gpu)], _links(dice, of(gpu, 6.0, count, ways), count)


def slow_pair(dice: random.Random, rounds: int) -> Iterator[Answer]:
    """Matrix of 4 to 16, one pair at a third."""
    for _ in range(rounds):
        count = dice.randint(4, 16)
        one, two = sorted(dice.sample(range(count), 2))
        named = sorted((one, two), key=str)
        yield [("gpu-pair", *named)], _links(dice, {(one, two): 6.0, (two, one): 6.1}, count)


def _node(dice: random.Random, odd: dict[int, float]) -> object:
    cards = [
        card(gpu, clock__sm_mhz=odd.get(gpu, dice.choice([1980.0, 1965.0, 1950.0])), temperature_c=dice.gauss(60, 4))
        for gpu in range(8)
    ]
    return [fact.entity["gpu"] for fact in peers.derive(incident(f for each in cards for f in each))] or None


def sound_gpus(dice: random.Random, rounds: int) -> Iterator[Answer]:
    """Eight busy GPUs, temperatures of 60 +- 4 degrees."""
    for _ in range(rounds):
        yield None, _node(dice, {})


def odd_gpu(dice: random.Random, rounds: int) -> Iterator[Answer]:
    """The same, one clock 15 to 60 % lower."""
    for _ in range(rounds):
        gpu = dice.randrange(8)
        yield [gpu], _node(dice, {gpu: 1980.0 * dice.uniform(0.4, 0.85)})


def punctual(dice: random.Random, rounds: int) -> Iterator[Answer]:
    """NCCL Inspector, nobody late."""
    for _ in range(rounds):
        yield None, late(dumps(late=None, seed=dice.randrange(1 << 30))) or None


def late_rank(dice: random.Random, rounds: int) -> Iterator[Answer]:
    """NCCL Inspector, one rank late by 0.5 to 4 ms."""
    for _ in range(rounds):
        rank = dice.randrange(8)
        yield (
            [(rank, "compute")],
            late(dumps(late=rank, wait=dice.uniform(0.25, 2.0), seed=dice.randrange(1 << 30))) or None,
        )


def _pipeline(ranks: int, micro: int) -> Program:
    """All forwards, then all backwards, by blocking transfers between neighbours; nothing is done yet."""
    programs: Program = {rank: [] for rank in range(ranks)}
    for first, step in ((0, 1), (ranks - 1, -1)):
        for _ in range(micro):
            for rank in range(first, ranks - 1 - first + step, step):
                before, after = rank - step, rank + step
                programs[rank] += [("recv", before, False)] if 0 <= before < ranks else []
                programs[rank] += [("send", after, False)] if 0 <= after < ranks else []
    return programs


def _run(programs: Program, stops: dict[int, int]) -> Program:
    """What each rank has issued when nothing moves any more: one transfer at a time, each meets its other half."""
    at = dict.fromkeys(programs, 0)

    def now(rank: int) -> Way | None:
        over = at[rank] >= min(len(programs[rank]), stops.get(rank, len(programs[rank])))
        return None if over else programs[rank][at[rank]]

    moved = True
    while moved:
        moved = False
        for rank in programs:
            mine = now(rank)
            other = now(mine[1]) if mine else None
            if mine and other and other[1] == rank and other[0] != mine[0]:
                at[rank], at[mine[1]], moved = at[rank] + 1, at[mine[1]] + 1, True
    return {
        rank: [(way, peer, True) for way, peer, _ in program[: at[rank]]] + ([mine] if (mine := now(rank)) else [])
        for rank, program in programs.items()
    }


def _said(programs: Program) -> object:
    return culprits(told(dict(programs))) or None


def stopped(dice: random.Random, rounds: int) -> Iterator[Answer]:
    """Pipeline of 3 to 12, one rank stops sending."""
    for _ in range(rounds):
        ranks = dice.randint(3, 12)
        programs, rank = _pipeline(ranks, dice.randint(2, 6)), dice.randrange(ranks)
        left = _run(programs, {rank: dice.randint(1, len(programs[rank]) - 1)})
        yield {rank: "never-arrived"}, _said(left)


def crossed(dice: random.Random, rounds: int) -> Iterator[Answer]:
    """Pipeline of 3 to 12, one rank turns two around."""
    for _ in range(rounds):
        ranks = dice.randint(3, 12)
        programs, rank = _pipeline(ranks, dice.randint(2, 6)), dice.randrange(ranks - 1)
        program = programs[rank]
        last = max(index for index, way in enumerate(program) if way[:2] == ("send", rank + 1))
        program[last], program[last + 1] = (
            program[last + 1],
            program[last],
        )  # the first backward before the last forward
        yield dict.fromkeys((rank, rank + 1), "order-inversion"), _said(_run(programs, {}))


if __name__ == "__main__":
    main()
