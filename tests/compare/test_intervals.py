"""Intervals keep what they promise: few false alarms, changes found. benchmarks/compare.py has the exact figures."""

from __future__ import annotations

import math
import statistics

import pytest

from tests.compare.making import noisy
from triage.comparing.intervals import mean, quantile, ratio, typical


def called(change: float, together: float, pairs: int = 150, watch: str = "worse") -> float:
    seen = 0
    for seed in range(pairs):
        one, two = (
            mean(noisy(2 * seed, together=together)),
            mean(noisy(2 * seed + 1, mean=40 * (1 + change), together=together)),
        )
        assert one
        assert two
        found = ratio(one, two, watch)
        seen += found is not None and found.differs
    return seen / pairs


def test_false_alarms_are_few_whatever_the_autocorrelation() -> None:
    assert max(called(0.0, together) for together in (0.0, 0.5, 0.8)) <= 0.09  # 5 % of 150, and three deviations


def test_changes_are_found() -> None:
    assert called(0.03, 0.5) >= 0.95
    assert called(0.01, 0.5) >= 0.42  # half of 150, less two deviations
    assert called(-0.01, 0.5, watch="better") >= 0.42


def test_taking_steps_for_independent_would_call_every_fifth_pair() -> None:
    one = noisy(1, count=4000)
    found = mean(one)
    assert found
    naive = statistics.stdev(one) / math.sqrt(len(one))
    assert found.error / naive == pytest.approx(math.sqrt(3), rel=0.1)  # (1 + 0.5) / (1 - 0.5)
    assert found.worth == pytest.approx(4000 / 3, rel=0.2)


def test_student_quantiles() -> None:
    for share, freedom, value in ((0.975, 10, 2.228), (0.975, 60, 2.000), (0.95, 30, 1.697), (0.99, 20, 2.528)):
        assert quantile(share, freedom) == pytest.approx(value, abs=0.005)


def test_short_constant_and_negative_series() -> None:
    assert mean([1.0] * 5) is None
    still = mean([40.0] * 50)
    assert still
    same = ratio(still, still)
    assert same
    assert not same.differs
    negative = mean([-1.0, -2.0] * 10)
    assert negative
    assert ratio(still, negative) is None


def test_single_slow_steps_do_not_decide_but_two_states_stay() -> None:
    steps = noisy(3)
    stalls = [value * (20 if at % 50 == 49 else 1) for at, value in enumerate(steps)]
    assert statistics.fmean(typical(stalls)) == pytest.approx(statistics.fmean(steps), rel=0.01)
    states = [value * (3 if at > 100 else 1) for at, value in enumerate(steps)]
    assert typical(states) == states
