"""How far the mean of step times can be off, when each step resembles the one before.

The long-run variance comes from an autoregression of the series (order by the corrected criterion of Akaike, up to
ORDER): noise variance over (1 - sum of coefficients) squared, the sum corrected for its bias in short series. What is
not known of that variance itself is in the degrees of freedom of Student's distribution. No random numbers.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

ORDER = 4
FEWEST = 6  # values a side
OUTLYING = 4.0  # robust standard deviations from the median, beyond which a step is an exception
FEW = 0.1  # of the values, up to which those outside are single steps
STEADY = 0.97  # highest sum of coefficients: beyond it a series has no mean to speak of
# How the 5 % that a 95 % interval may miss are shared: more to the side that is watched for, so that a change there is
# seen sooner. A regression of 1 % in 200 steps of 3 % noise and autocorrelation 0.5 lies at the edge: with equal
# tails no method finds more than 49 % of those.
WATCHED, UNWATCHED = 0.042, 0.008


@dataclass(frozen=True)
class Mean:
    """A mean, its standard error, the degrees of freedom behind that, and how many independent values it is worth."""

    value: float
    error: float
    freedom: float
    worth: float


@dataclass(frozen=True)
class Ratio:
    """After over before, with an interval that covers it in 95 % of uses."""

    value: float
    low: float
    high: float

    @property
    def differs(self) -> bool:
        """One lies outside."""
        return self.low > 1 or self.high < 1


def mean(values: Sequence[float]) -> Mean | None:
    """The mean of a series in order of time; None when there are fewer than FEWEST values."""
    count = len(values)
    if count < FEWEST:
        return None
    middle = math.fsum(values) / count
    rest = [value - middle for value in values]
    around = math.fsum(item * item for item in rest) / count
    if around <= (1e-9 * middle) ** 2:
        return Mean(middle, abs(middle) * 1e-9, count - 1, count)
    long_run, total = _long_run(rest, around)
    # Relative variance of the estimate of an autoregression of order one with this sum: 2/n + 4(1+s)/(n(1-s)).
    freedom = count / (1 + 2 * (1 + max(total, 0.0)) / (1 - max(total, 0.0)))
    return Mean(middle, math.sqrt(long_run / count), max(freedom, 2.0), count * around / long_run)


def ratio(before: Mean, after: Mean, watch_for: str = "worse", larger_is: str = "worse") -> Ratio | None:
    """After over before. None when a mean is not positive: a ratio of those says nothing."""
    if before.value <= 0 or after.value <= 0:
        return None
    one, two = (before.error / before.value) ** 2, (after.error / after.value) ** 2
    freedom = (one + two) ** 2 / (one**2 / before.freedom + two**2 / after.freedom)
    change, error = math.log(after.value / before.value), math.sqrt(one + two)
    up, down = (WATCHED, UNWATCHED) if watch_for == larger_is else (UNWATCHED, WATCHED)
    low, high = change - quantile(1 - up, freedom) * error, change + quantile(1 - down, freedom) * error
    return Ratio(after.value / before.value, math.exp(low), math.exp(high))


def typical(values: Sequence[float]) -> list[float]:
    """With the median for single steps far outside (checkpoint, evaluation): they do not decide."""
    middle = statistics.median(values)
    deviation = 1.4826 * statistics.median(abs(value - middle) for value in values)
    if deviation <= 0:
        return list(values)
    low, high = middle - OUTLYING * deviation, middle + OUTLYING * deviation
    if sum(not low <= value <= high for value in values) > FEW * len(values):
        return list(values)  # a run in two states: neither is an exception
    return [value if low <= value <= high else middle for value in values]


def quantile(share: float, freedom: float) -> float:
    """Of Student's distribution: the expansion of Cornish and Fisher around the normal one."""
    z = statistics.NormalDist().inv_cdf(share)
    square = z * z
    first = (square + 1) * z / 4
    second = ((5 * square + 16) * square + 3) * z / 96
    third = (((3 * square + 19) * square + 17) * square - 15) * z / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _long_run(rest: Sequence[float], around: float) -> tuple[float, float]:
    """Long-run variance of a centred series, and the sum of coefficients behind it."""
    count = len(rest)
    order = min(ORDER, max(1, count // 10))
    covariances = [around] + [
        math.fsum(rest[at] * rest[at + lag] for at in range(count - lag)) / count for lag in range(1, order + 1)
    ]
    best, chosen = math.inf, (around, 0.0)
    for at, (coefficients, noise) in enumerate(_fits(covariances), start=1):
        score = count * math.log(max(noise, 1e-300)) + 2 * (at + 1) * count / max(count - at - 2, 1)
        if score < best:
            best, chosen = score, (noise, math.fsum(coefficients))
    noise, total = chosen
    total = min(total + (1 + 3 * total) / count, STEADY)  # Kendall's bias of an autoregression, to first order
    return noise * count / max(count - 2, 1) / (1 - total) ** 2, total


def _fits(covariances: Sequence[float]) -> list[tuple[list[float], float]]:
    """Levinson and Durbin: coefficients and noise variance of the autoregressions of order 1, 2, ..."""
    coefficients: list[float] = []
    noise, fits = covariances[0], []
    for order in range(1, len(covariances)):
        known = math.fsum(c * covariances[order - 1 - at] for at, c in enumerate(coefficients))
        partial = (covariances[order] - known) / noise
        partial = min(max(partial, -0.999), 0.999)
        coefficients = [c - partial * coefficients[order - 2 - at] for at, c in enumerate(coefficients)] + [partial]
        noise *= 1 - partial * partial
        fits.append((list(coefficients), noise))
    return fits
