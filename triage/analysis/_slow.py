"""Which rows of a table (ranks by steps, ms) are slower than the others, from when to when.

A row is compared with the median of the other rows at the same step, as the logarithm of their ratio: what slows all
of them falls out. The stretch that exceeds half of what a slow row would show by most in all is its slow stretch; it
counts when it lasts, when most of its steps are slow, and when it stands out against the row's own other steps, against
chance and, among five rows or more, against how much the rows differ by themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Table = NDArray[Any]


STEPS = 8  # slow steps below which nothing is said
ENDED = 16  # and of a stretch that was over before the run was
RISE = 1.07  # over its own other steps: a rank that is slowed by a tenth measures a little more or less
RATIO = 1.08  # over its peers where it has no other steps
SHARE = 0.0125  # and by this part of the whole step: a part of 0.1 ms may well double
STEADY = 0.8  # in this part of the stretch
BEFORE = 0.25  # and in no more than this part of all other steps: else nothing began then
CERTAIN = 8.0  # standard errors between the stretch and the other steps: the best of many stretches is chosen
DEVIATION = 3.5  # robust z among five to eight ranks, more among more
ALWAYS = 1.0  # and this much more where a rank was slow from the first step to the last: ranks differ by themselves
FIRST_GUESS = math.log(1.10) / 2
SPIKE = 0.7  # a single step counts for no more than twice as slow


@dataclass(frozen=True)
class Slow:
    """Row, its slow columns [first, end), the median ratio to its peers in them, its median share of the whole step.

    began, ended: whether there are enough other steps on that side to say so.
    """

    row: int
    first: int
    end: int
    ratio: float
    cost: float
    began: bool
    ended: bool


def slow(values: Table, whole: Table) -> list[Slow]:
    """The slow rows of a table in ms, NaN where nothing was measured; `whole`: ms of the whole step, same shape."""
    import numpy

    if len(values) < 2 or values.shape[1] < STEPS:
        return []
    with numpy.errstate(invalid="ignore", divide="ignore"):
        peers = of_others(values)
        excess = numpy.log(numpy.maximum(values, 1e-3) / numpy.maximum(peers, 1e-3))
        shares = (values - peers) / numpy.maximum(whole, 1e-3)
    steady = _without_spikes(numpy.clip(excess, -SPIKE, SPIKE))
    starts, ends, gains = _stretches(steady - FIRST_GUESS)
    likely = numpy.flatnonzero(gains >= STEPS * (math.log(RISE) - FIRST_GUESS))
    found = [item for row in likely if (item := _judged(int(row), starts[row], ends[row], steady, excess, shares))]
    if len(found) > max(1, len(values) // 4):
        return []
    return [item for item in found if _stands_out(item, steady)]


def of_others(values: Table) -> Table:
    """For each cell the median of the other known cells of its column; NaN where there is none."""
    import numpy

    rows = len(values)
    ordered = numpy.argsort(values, axis=0, kind="stable")  # NaN last
    place = numpy.empty_like(ordered)
    numpy.put_along_axis(place, ordered, numpy.broadcast_to(numpy.arange(rows)[:, None], values.shape), axis=0)
    in_order = numpy.take_along_axis(values, ordered, axis=0)
    others = numpy.count_nonzero(~numpy.isnan(values), axis=0)[None, :] - 1
    halves = []
    for at in (numpy.maximum(others - 1, 0) // 2, numpy.maximum(others, 0) // 2):
        index = numpy.minimum(at + (at >= place), rows - 1)
        halves.append(numpy.take_along_axis(in_order, index, axis=0))
    middle = (halves[0] + halves[1]) / 2
    return numpy.where((others > 0) & ~numpy.isnan(values), middle, numpy.nan)


def _without_spikes(excess: Table) -> Table:
    """Each cell's median with its two neighbours: a single slow step vanishes, an edge stays within one step."""
    import numpy

    padded = numpy.pad(excess, ((0, 0), (1, 1)), mode="edge")
    one, two, three = padded[:, :-2], padded[:, 1:-1], padded[:, 2:]
    middle = numpy.fmax(numpy.fmin(one, two), numpy.fmin(numpy.fmax(one, two), three))
    return numpy.where(numpy.isnan(excess), numpy.nan, middle)


def _stretches(above: Table) -> tuple[Table, Table, Table]:
    """For each row the stretch [start, end) with the largest sum, and that sum."""
    import numpy

    told = numpy.where(numpy.isnan(above), 0.0, above)
    sums = numpy.concatenate([numpy.zeros((len(told), 1)), numpy.cumsum(told, axis=1)], axis=1)
    gains = sums - numpy.minimum.accumulate(sums, axis=1)
    ends = numpy.argmax(gains, axis=1)
    columns = numpy.arange(sums.shape[1])[None, :]
    starts = numpy.argmin(numpy.where(columns <= ends[:, None], sums, numpy.inf), axis=1)
    return starts, ends, numpy.take_along_axis(gains, ends[:, None], axis=1)[:, 0]


def _judged(row: int, start: int, end: int, steady: Table, excess: Table, shares: Table) -> Slow | None:
    """The stretch once its bounds are set by its own height, if it is one."""
    import numpy

    own = steady[row]
    base, level = _levels(own, start, end)
    reach = max(level - base, 1e-6)
    starts, ends, _ = _stretches(numpy.clip(own - (base + level) / 2, -reach, reach)[None, :])
    start, end = int(starts[0]), int(ends[0])
    inside = _known(own[start:end])
    outside = _known(numpy.concatenate([own[:start], own[end:]]))
    began, ended = len(_known(own[:start])) >= STEPS, len(_known(own[end:])) >= STEPS
    if len(inside) < (ENDED if ended else STEPS) or not _holds(inside, outside, began or ended):
        return None
    if not _certain(excess[row], start, end, began or ended):
        return None
    cost = float(numpy.nanmedian(shares[row, start:end]))
    if cost < SHARE:
        return None
    ratio = math.exp(min(float(numpy.nanmedian(excess[row, start:end])), 20.0))
    return Slow(row, start, end, ratio, cost, began, ended)


def _levels(own: Table, start: int, end: int) -> tuple[float, float]:
    """Medians outside (0 with too few to say) and inside of a stretch."""
    import numpy

    outside = _known(numpy.concatenate([own[:start], own[end:]]))
    inside = _known(own[start:end])
    level = float(numpy.median(inside)) if len(inside) else 0.0
    return (float(numpy.median(outside)) if len(outside) >= STEPS else 0.0), level


def _holds(inside: Table, outside: Table, other: bool) -> bool:
    """Do the steps of the stretch, and the others, say the same by themselves?"""
    import numpy

    level = float(numpy.median(inside))
    base = float(numpy.median(outside)) if other else 0.0
    half = (base + level) / 2
    if level - base < math.log(RISE if other else RATIO) or level < math.log(RISE) / 2:
        return False
    begun = not len(outside) or numpy.mean(outside > half) <= BEFORE
    return bool(begun and numpy.mean(inside > half) >= STEADY)


def _certain(own: Table, start: int, end: int, other: bool) -> bool:
    """Is the stretch further from the other steps (else from the peers) than the noise of single steps makes it?"""
    import numpy

    inside, outside = _known(own[start:end]), _known(numpy.concatenate([own[:start], own[end:]]))
    level, base = float(numpy.median(inside)), float(numpy.median(outside)) if other else 0.0
    apart = numpy.concatenate([inside - level, outside - base]) if other else inside - level
    spread = max(1.4826 * float(numpy.median(numpy.abs(apart))), 1e-3)
    fewer = max(len(outside), STEPS) if other else math.inf
    error = spread * math.sqrt((1 / len(inside) + 1 / fewer) * _dependence(numpy.clip(apart, -3 * spread, 3 * spread)))
    return (level - base) / error >= CERTAIN


def _dependence(noise: Table) -> float:
    """How many steps say as much as one independent step would: 1 and more, from the correlation of neighbours."""
    import numpy

    power = float(numpy.dot(noise, noise))
    near = float(numpy.dot(noise[1:], noise[:-1])) / power if power > 0 else 0.0
    near = min(near - 2 / math.sqrt(len(noise)), 0.95)  # what chance alone gives is no correlation
    return (1 + near) / (1 - near) if near > 0 else 1.0


def _known(values: Table) -> Table:
    import numpy

    return values[~numpy.isnan(values)]


def _stands_out(item: Slow, steady: Table) -> bool:
    """Among five rows or more: far from all in units of their own spread (at least 1 %)."""
    import numpy

    if len(steady) < 5:
        return True
    middles = _medians(steady[:, item.first : item.end])
    wanted = DEVIATION + 0.3 * max(math.log2(len(steady) / 8), 0.0)
    if item.began or item.ended:  # what a rank always was does not count
        middles = middles - _medians(numpy.concatenate([steady[:, : item.first], steady[:, item.end :]], axis=1))
    else:
        wanted += ALWAYS
    middle = float(numpy.nanmedian(middles))
    spread = max(float(numpy.nanmedian(numpy.abs(middles - middle))), 0.01)
    return bool(0.6745 * (middles[item.row] - middle) / spread >= wanted)


def _medians(values: Table) -> Table:
    """Medians of rows; NaN of one that has no value."""
    import numpy

    told = ~numpy.isnan(values).all(axis=1)
    out = numpy.full(len(values), numpy.nan)
    out[told] = numpy.nanmedian(values[told], axis=1) if values.shape[1] else numpy.nan
    return out
