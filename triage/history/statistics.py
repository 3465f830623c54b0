"""Is it chance? Exact tests, without approximations that small counts would break."""

from __future__ import annotations

import math
from collections.abc import Sequence


def more_often(count: int, total: int, exposure: float, whole: float) -> float:
    """Probability that a node with its share of the exposure gets `count` or more of `total` incidents by chance.

    Two Poisson rates, the node's and all others', are equal exactly when the node's count, given the total, is
    binomial with the node's share of the exposure (Przyborowski and Wilenski, 1940). 1.0 when nothing is known.
    """
    if count <= 0 or total <= 0 or exposure <= 0 or whole <= 0:
        return 1.0
    share = min(exposure / whole, 1.0)
    if share >= 1.0:
        return 1.0
    return min(1.0, _tail(count, total, share))


def _tail(count: int, total: int, share: float) -> float:
    """Binomial tail from `count` on: each term from the one before, until they no longer matter."""
    term = whole = _binomial(count, total, share)
    for k in range(count, total):
        term *= (total - k) / (k + 1) * share / (1 - share)
        whole += term
        if k > total * share and term < 1e-17 * whole:
            break
    return whole


def _binomial(k: int, n: int, p: float) -> float:
    logarithm = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(logarithm + k * math.log(p) + (n - k) * math.log1p(-p))


def corrected(values: Sequence[float]) -> list[float]:
    """Holm's correction: of a thousand nodes, one is always the worst."""
    order = sorted(range(len(values)), key=lambda at: values[at])
    out, worst = [0.0] * len(values), 0.0
    for place, at in enumerate(order):
        worst = max(worst, min(1.0, (len(values) - place) * values[at]))
        out[at] = worst
    return out
