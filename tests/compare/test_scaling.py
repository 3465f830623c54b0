"""Runs of several sizes."""

from __future__ import annotations

import pytest

from tests.compare.making import noisy, run
from triage.comparing.scaling import scaling
from triage.errors import UsageError


def steps(comm: float, seed: int) -> dict[str, list[float]]:
    own, talk = noisy(seed, mean=30, noise=0.01), noisy(seed + 1, mean=comm, noise=0.01)
    return {"step_ms": [a + b for a, b in zip(own, talk, strict=True)], "fwd_ms": own, "comm_ms": talk}


def test_weak_scaling_and_what_eats_it() -> None:
    told = scaling([run(steps(18, 3), ranks=32, name="b"), run(steps(10, 1), ranks=8, name="a")])
    small, large = told.sizes
    assert (told.mode, told.assumed, small.name, small.efficiency, small.speed_up) == ("weak", True, "a", 1.0, 1.0)
    assert large.efficiency == pytest.approx(40 / 48, rel=0.01)
    assert large.speed_up == pytest.approx(4 * 40 / 48, rel=0.01)
    assert large.low and large.high and large.low < 40 / 48 < large.high
    assert large.phases[0].phase == "comm"
    assert large.phases[0].lost_ms == pytest.approx(8, abs=0.2)
    assert "lost: comm" in told.why


def test_strong_scaling_is_known_by_the_batch_of_all() -> None:
    settings = {("setting", "global_batch_size"): ("512",)}
    halves = {phase: [value / 2 for value in values] for phase, values in steps(10, 1).items()}
    told = scaling([run(steps(10, 1), ranks=8, settings=settings), run(halves, ranks=16, settings=settings)])
    assert (told.mode, told.assumed) == ("strong", False)
    assert told.sizes[1].efficiency == pytest.approx(1.0, abs=0.001)
    assert "no phase loses" in told.why


def test_waiting_for_the_slowest_is_noted() -> None:
    told = scaling([run(steps(10, 1), ranks=8), run(steps(14, 3), ranks=16, waits=[4.0] * 100)])
    assert "the slowest rank needs 4.0 ms more" in told.notes[0]


def test_what_cannot_be_scaled() -> None:
    with pytest.raises(UsageError, match="how many ranks ran"):
        scaling([run(steps(10, 1)), run(steps(10, 1), ranks=8)])
    with pytest.raises(UsageError, match="step times cannot be read"):
        scaling([run(ranks=8), run(steps(10, 1), ranks=16)])
    with pytest.raises(UsageError, match="all runs have 8 ranks"):
        scaling([run(steps(10, 1), ranks=8), run(steps(10, 2), ranks=8)])
