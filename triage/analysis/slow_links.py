"""Where bandwidth between pairs is low: all pairs of one GPU or node (a row and a column of the matrix), or one pair.

link.slow     one a GPU, node or pair at fault (entity {gpu, node} or {node}; a pair has {peer} too):
              gpu | gpu-pair | node | node-pair; its text has the figures
link.median   GB/s, beside it: what pairs reach there

A pair is slow below SLOW of the median of all. A row and column that are slow as a whole are one thing at fault, and
its pairs are explained; what is left over is single links. Machines whose pairs are of two kinds by design (two
sockets, two switches) have far more slow pairs than a fault makes: then, and with fewer than ENDS, nothing is said.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from triage.model.base import Scalar, number
from triage.model.event import Fact, Where
from triage.model.incident import Incident

SLOW = 0.75  # of the median: measurements of equal paths differ by less than a tenth
ENDS = 4  # things measured with each other, at least
MET = 3  # others that each of them was measured with, at least
WHOLE = 0.8  # of its pairs, that make a thing slow as a whole
FEW = 0.25  # of the things: more that are slow are the machine's design
Ends = tuple[Scalar, Scalar]


@dataclass(frozen=True)
class Matrix:
    """One measurement: GB/s and place by (from, to); kind is gpu or node."""

    kind: str
    node: Scalar
    rates: dict[Ends, float]
    places: dict[Ends, Where]

    @property
    def ends(self) -> list[Scalar]:
        """The things that were measured."""
        return sorted({end for pair in self.rates for end in pair}, key=str)

    def of(self, end: Scalar, way: int | None = None) -> list[Ends]:
        """Pairs of one thing; way 0: it sends, 1: it receives."""
        return [pair for pair in self.rates if (end in pair if way is None else pair[way] == end)]


def derive(incident: Incident) -> Iterator[Fact]:
    """What every measurement shows."""
    for matrix in _matrices(incident):
        slow = _slow(matrix)
        if slow:
            yield from _told(matrix, slow)


def _matrices(incident: Incident) -> list[Matrix]:
    found: dict[tuple[Scalar, ...], Matrix] = {}
    for fact in incident.facts:
        rate = number(fact.value) if fact.name == "pair.gbs" else None
        if rate is None:
            continue
        entity = fact.entity
        kind = "gpu" if entity.get("gpu") is not None else "node"
        node = entity.get("node") if kind == "gpu" else None
        # Pairs of nodes may be measured in a file each; matrices of GPUs stand in one.
        home = fact.where.file if kind == "gpu" and not str(entity.get("group")).startswith("nccl-tests") else ""
        matrix = found.setdefault((kind, node, entity.get("group"), home), Matrix(kind, node, {}, {}))
        pair = (entity.get(kind), entity.get("peer"))
        matrix.rates[pair], matrix.places[pair] = rate, fact.where
    return [found[key] for key in sorted(found, key=str)]


def _slow(matrix: Matrix) -> set[Ends]:
    """Pairs far below the median; none when too little was measured."""
    ends = matrix.ends
    met = [len({other for pair in matrix.of(end) for other in pair} - {end}) for end in ends]
    if len(ends) < ENDS or min(met) < MET:
        return set()
    middle = statistics.median(matrix.rates.values())
    return {pair for pair, rate in matrix.rates.items() if rate < SLOW * middle}


def _told(matrix: Matrix, slow: set[Ends]) -> Iterator[Fact]:
    whole = [end for end in matrix.ends if (pairs := matrix.of(end)) and len(slow & set(pairs)) >= WHOLE * len(pairs)]
    one_way = {end: way for end in matrix.ends if (way := _one_way(matrix, end, slow)) is not None and end not in whole}
    left = {pair for pair in slow if not any(end in whole or one_way.get(end) == way for way, end in enumerate(pair))}
    links = {tuple(sorted(pair, key=str)) for pair in left}
    if len(whole) + len(one_way) > max(1, FEW * len(matrix.ends)) or len(links) > max(1, FEW * len(matrix.ends)):
        return
    for end in whole:
        yield from _facts(matrix, [end], matrix.of(end), "")
    for end, way in one_way.items():
        yield from _facts(matrix, [end], matrix.of(end, way), "sending " if way == 0 else "receiving ")
    for link in sorted(links, key=str):
        yield from _facts(matrix, list(link), [pair for pair in left if set(pair) == set(link)], "")


def _one_way(matrix: Matrix, end: Scalar, slow: set[Ends]) -> int | None:
    """0 when all that it sends is slow, 1 when all that it receives is; its other direction is sound."""
    shares = [len(slow & set(pairs)) / len(pairs) if (pairs := matrix.of(end, way)) else 0.0 for way in (0, 1)]
    if max(shares) < WHOLE or min(shares) > 1 - WHOLE or len(matrix.of(end, shares.index(max(shares)))) < MET:
        return None
    return shares.index(max(shares))


def _facts(matrix: Matrix, ends: list[Scalar], pairs: list[Ends], way: str) -> Iterator[Fact]:
    """The figures of these pairs beside those of all others."""
    own = [matrix.rates[pair] for pair in pairs]
    rest = [rate for pair, rate in matrix.rates.items() if pair not in pairs]
    name = " and ".join(f"GPU {end}" if matrix.kind == "gpu" else str(end) for end in ends)
    over = "between them" if len(ends) > 1 else f"{way}over {len(own)} pairs"
    usual = statistics.median(rest)
    text = f"{name}: {_range(own)} {over}; the other {len(rest)} pairs {_range(rest)}, median {usual:.1f}"
    entity: dict[str, Scalar] = {matrix.kind: ends[0]} | ({"peer": ends[1]} if len(ends) > 1 else {})
    entity |= {"node": matrix.node} if matrix.kind == "gpu" and matrix.node is not None else {}
    places = tuple(dict.fromkeys(_place(matrix.places[pair]) for pair in pairs))[:4]
    value = f"{matrix.kind}-pair" if len(ends) > 1 else matrix.kind
    yield Fact(name="link.slow", value=value, where=places[0], entity=entity, text=text, evidence=places)
    yield Fact(name="link.median", value=round(usual, 2), where=places[0], entity=entity, evidence=places)


def _place(where: Where) -> Where:
    return Where(file=where.file, at=f"line {where.line}" if where.line else where.at)


def _range(rates: list[float]) -> str:
    low, high = min(rates), max(rates)
    return f"{low:.1f} GB/s" if low == high else f"{low:.1f} to {high:.1f} GB/s"
