"""Slow ranks, slow input, changes of the step time, from step files and from log lines."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import stragglers as benchmark
from tests.analysis.build import facts, incident, named, step
from triage.analysis import steps, stragglers
from triage.model.event import Fact

Row = dict[str, float]


def job(ranks: int, count: int, row: Callable[[int, int], Row]) -> list[Fact]:
    """Step files; `row` gives what a rank does by itself; all wait in the backward pass for the slowest."""
    chance = random.Random(1)
    files: dict[int, list[str]] = {rank: [] for rank in range(ranks)}
    for number in range(count):
        own = {}
        for rank in range(ranks):
            base: Row = {"data_ms": 1.0, "fwd_ms": 30.0, "bwd_ms": 60.0, "opt_ms": 5.0}
            own[rank] = {name: value * chance.uniform(0.99, 1.01) for name, value in (base | row(rank, number)).items()}
        slowest = max(sum(parts.values()) for parts in own.values())
        for rank, parts in own.items():
            parts["bwd_ms"] += slowest - sum(parts.values())
            line = {"step": number, "rank": rank, "step_ms": sum(parts.values()), "alloc": 1 << 30, **parts}
            files[rank].append(json.dumps(line))
    return [
        fact
        for rank, lines in files.items()
        for fact in facts("step_times", "\n".join(lines).encode(), f"steps.rank{rank}.jsonl")
    ]


def culprits(found: list[Fact]) -> dict[Any, Any]:
    return {f.entity["rank"]: f.value for f in stragglers.derive(incident(found)) if f.name == "straggler.culprit"}


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize(
    ("phase", "value", "kind"),
    [("data_ms", 60.0, "data"), ("fwd_ms", 45.0, "compute"), ("opt_ms", 30.0, "compute"), ("gc_ms", 40.0, "host")],
)
def test_the_slow_rank_and_its_part(ranks: int, phase: str, value: float, kind: str) -> None:
    slow = ranks - 1
    found = job(ranks, 40, lambda rank, _: {phase: value if rank == slow else 0.01 if phase == "gc_ms" else 5.0})
    if phase == "fwd_ms":
        found = job(ranks, 40, lambda rank, _: {phase: value if rank == slow else 30.0})
    assert culprits(found) == {slow: kind}


def test_a_rank_that_becomes_slow() -> None:
    found = job(4, 80, lambda rank, number: {"fwd_ms": 60.0} if rank == 2 and number >= 50 else {})
    derived = list(stragglers.derive(incident(found)))
    assert named(derived, "straggler.culprit") == ["compute"]
    assert named(derived, "straggler.since_step") == [50]


def test_equal_ranks_are_not_blamed() -> None:
    derived = list(stragglers.derive(incident(job(4, 60, lambda *_: {}))))
    assert named(derived, "straggler.culprit") == []
    assert all(value < 0.05 for value in named(derived, "steps.imbalance"))


def test_few_steps_say_nothing() -> None:
    assert culprits(job(4, 6, lambda rank, _: {"fwd_ms": 90.0} if rank == 2 else {})) == {}


def test_tiny_parts_may_double() -> None:
    assert culprits(job(4, 60, lambda rank, _: {"data_ms": 0.4 if rank == 1 else 0.1})) == {}


def test_uneven_work_without_a_fixed_rank() -> None:
    derived = list(stragglers.derive(incident(job(4, 80, lambda rank, n: {"fwd_ms": 80.0} if n % 4 == rank else {}))))
    assert named(derived, "straggler.culprit") == []
    assert named(derived, "steps.imbalance")[0] > 0.5
    assert named(derived, "steps.uneven") == ["yes"]


@pytest.mark.parametrize(("ranks", "told"), [(2, "yes"), (8, "no")])
def test_two_ranks_exceed_their_mean_by_less(ranks: int, told: str) -> None:
    """The same excess of a tenth: of two ranks it takes work that differs by a fifth, of eight less."""
    longer = 30.0 * (1 + 0.1 * ranks / (ranks - 1.1))
    found = job(ranks, 80, lambda rank, n: {"fwd_ms": longer if n % ranks == rank else 30.0})
    derived = list(stragglers.derive(incident(found)))
    assert named(derived, "steps.imbalance") == [pytest.approx(0.1, abs=0.03)]
    assert named(derived, "steps.uneven") == [told]


def test_step_lines_of_logs_hold_the_parts() -> None:
    marks = [
        step(
            number,
            f"step {number} loss 2.1 step_time 100.0 ms data {60.0 if rank == 1 else 0.5} ms fwd 20.0 ms",
            rank,
            f"rank{rank}.log",
            step_ms=100.0,
        )
        for rank in range(2)
        for number in range(0, 400, 10)
    ]
    derived = list(stragglers.derive(incident(marks=marks)))
    assert [(f.entity, f.value) for f in derived if f.name == "straggler.culprit"] == [({"rank": 1}, "data")]


def test_input_on_all_ranks() -> None:
    derived = list(steps.derive(incident(job(2, 40, lambda *_: {"data_ms": 100.0}))))
    assert named(derived, "steps.data_share")[0] == pytest.approx(0.51, abs=0.03)


def test_input_on_one_rank_is_not_on_all() -> None:
    found = job(2, 40, lambda rank, _: {"data_ms": 100.0 if rank else 1.0})
    assert named(steps.derive(incident(found)), "steps.data_share")[0] < 0.05


def curve(values: list[float]) -> list[Fact]:
    return list(steps.derive(incident(marks=[step(100 + at, step_ms=value) for at, value in enumerate(values)])))


def test_a_lasting_slowdown() -> None:
    chance = random.Random(3)
    derived = curve([chance.gauss(100 if at < 60 else 112, 1.5) for at in range(120)])
    assert named(derived, "steps.change")[0] == pytest.approx(1.12, abs=0.02)
    assert abs(named(derived, "steps.change_step")[0] - 160) <= 3


@pytest.mark.parametrize(
    "values",
    [
        [100.0 + at % 3 for at in range(100)],
        [100.0 if at % 20 else 900.0 for at in range(100)],
        [900.0, 300.0, *([100.0] * 60)],
        [120.0] * 40 + [100.0] * 40,
        [100.0, 104.0, 109.0, 103.0, 108.0],
        [],
    ],
)
def test_what_is_no_slowdown(values: list[float]) -> None:
    assert named(curve(values), "steps.change") == []


def test_a_short_excerpt_that_steps_up() -> None:
    assert named(curve([105.2, 105.1, 105.3, 111.0, 111.5]), "steps.change_step") == [103]


def test_a_larger_batch_takes_longer() -> None:
    marks = [
        step(
            100 + at,
            f"iteration | global batch size: {64 if at < 40 else 128} | lm loss",
            step_ms=100.0 + at % 3 if at < 40 else 200.0 + at % 3,
        )
        for at in range(80)
    ]
    assert named(steps.derive(incident(marks=marks)), "steps.change") == []


@pytest.mark.parametrize(
    ("form", "share"),
    [
        ("Epoch: [0][{0:4d}/5004]\tTime 12.361 ( 12.358)\tData 11.901 ( 11.880)\tLoss 6.9", 0.9628),
        ("iter: {0}  total_loss: 3.185  time: 0.5786  data_time: 0.0209  lr: 0.0065", 0.0361),
        ("Test: [{0}/124] Data 75.717 (96.748) Batch 76.307 (104.039).", 0.9923),
    ],
)
def test_one_log_that_tells_the_time_of_input(form: str, share: float) -> None:
    marks = [step(number, form.format(number)) for number in (0, 10, 20, 30)]
    assert named(list(steps.derive(incident(marks=marks))), "steps.data_share") == [share]


def test_waits_that_come_in_bursts_count_as_part_of_all_the_time() -> None:
    usual, burst = "Time 0.200 (1.0)\tData 0.002 (1.0)", "Time 9.800 (1.0)\tData 9.600 (1.0)"
    marks = [step(at, burst if at % 4 == 0 else usual) for at in range(1, 17)]
    assert named(list(steps.derive(incident(marks=marks))), "steps.data_share") == [pytest.approx(0.92, abs=0.01)]
    once = [step(at, burst if at == 4 else usual) for at in range(1, 17)]
    assert named(list(steps.derive(incident(marks=once))), "steps.data_share") == [pytest.approx(0.01)]


def test_running_averages_leave_out_the_first_step() -> None:
    form = "Epoch: [0][{0}/5005]\tTime 0.550 ({1:.3f})\tData 0.001 ({2:.3f})\tLoss 6.74 (6.84)"

    def share(*lines: tuple[int, float, float]) -> list[float]:
        marks = [step(at, form.format(at, whole, data)) for at, whole, data in lines]
        return named(list(steps.derive(incident(marks=marks))), "steps.data_share")

    assert share((0, 203.582, 196.425), (200, 12.315, 11.761)) == [pytest.approx(0.954, abs=0.001)]
    assert share((0, 203.582, 203.0), (200, 1.360, 1.012)) == [pytest.approx(0.006, abs=0.002)]  # slow once
    assert share((0, 203.582, 203.0), (10, 19.0, 18.5)) == []  # ten steps tell little
    assert share((400, 0.9, 0.8), (450, 0.2, 0.1)) == []  # the second is of a later epoch


def test_two_lines_are_no_share() -> None:
    marks = [step(number, "Time 2.0 (2.0)  Data 1.9 (1.9)") for number in (10, 20)]
    assert named(list(steps.derive(incident(marks=marks))), "steps.data_share") == []


def test_a_slice_of_the_benchmark() -> None:
    found = benchmark.score(benchmark.injected(72, seed=3))
    assert (found.missed, found.false) == (0, 0)
    assert found.near == found.edges == found.hits
    assert benchmark.score(benchmark.healthy(48, seed=3)).false == 0


def test_two_culprits_in_different_parts() -> None:
    found = job(16, 60, lambda rank, _: {"data_ms": 30.0} if rank == 3 else {"fwd_ms": 45.0} if rank == 9 else {})
    assert culprits(found) == {3: "data", 9: "compute"}


def test_an_onset_that_ends() -> None:
    found = job(8, 200, lambda rank, number: {"fwd_ms": 40.0} if rank == 2 and 60 <= number < 120 else {})
    derived = list(stragglers.derive(incident(found)))
    assert named(derived, "straggler.since_step") == [60]
    assert named(derived, "straggler.until_step") == [120]


def test_three_hundred_steps_keep_their_change_point() -> None:
    found = job(8, 300, lambda rank, number: {"fwd_ms": 33.5} if rank == 2 and number >= 151 else {})
    assert abs(named(stragglers.derive(incident(found)), "straggler.since_step")[0] - 151) <= 1


def test_who_waits_least_where_only_waiting_was_measured() -> None:
    rows = {rank: [] for rank in range(8)}  # type: dict[int, list[str]]
    for number in range(60):
        for rank, lines in rows.items():
            wait = 10.0 if rank == 5 else 40.0 + number % 3
            lines.append(json.dumps({"step": number, "rank": rank, "step_ms": 150.0 + number % 3, "comm_ms": wait}))
    found = [fact for rank, lines in rows.items() for fact in facts("step_times", "\n".join(lines).encode(), f"{rank}")]
    assert culprits(found) == {5: "unknown"}
