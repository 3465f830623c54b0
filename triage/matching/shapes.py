"""What must stand literally in every line that a regex matches: the part that makes scanning fast and matches rare."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from triage.matching.expressions import opens, pieces, repeat

_VARIANTS = 64  # spellings that are told apart; beyond, the poorest of a group stands for it
_FEW = 4  # characters of a class that count as one fixed character: `[Ee]rror` has five
_LOOK = {"(?=", "(?!", "(?<=", "(?<!"}
_LETTER = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^\w]|[tfnr])")
_OPEN = {".", r"[^\n]", r"[^\r\n]"}

_Spelling = tuple[str, ...]  # a text cut where anything may stand between


class _Item(NamedTuple):
    spellings: list[_Spelling]
    least: int
    most: int


def fixed(expression: str) -> int:
    """Length of the longest literal run that every match holds, in characters; 0 when there is none."""
    spellings, _ = _alternatives(pieces(expression), 0)
    return min((_longest(spelling) for spelling in spellings), default=0)


def open_repeats(expression: str) -> int:
    """How many repeats of `any character` have no upper limit and something after them."""
    parts = pieces(expression.rstrip(")"))
    found = [
        at for at, (one, other) in enumerate(pairwise(parts))
        if one in _OPEN and (bounds := repeat(other)) and bounds[1] > 1_000_000
    ]  # fmt: skip
    return sum(at + 2 < len(parts) for at in found)


def _longest(spelling: _Spelling) -> int:
    return max(map(len, spelling), default=0)


def _alternatives(parts: list[str], at: int) -> tuple[list[_Spelling], int]:
    """Spellings of the alternatives from a position to the end of their group, and the position after it."""
    out: list[_Spelling] = []
    items: list[_Item] = []
    while at < len(parts) and parts[at] != ")":
        if parts[at] == "|":
            out, items, at = out + _joined(items), [], at + 1
            continue
        item, at = _item(parts, at)
        items.append(item)
    return out + _joined(items), at + 1


def _item(parts: list[str], at: int) -> tuple[_Item, int]:
    part = parts[at]
    if opens(part):
        spellings, after = _alternatives(parts, at + 1)
        spellings = [("",)] if part in _LOOK else spellings
    else:
        spellings, after = [_character(part)], at + 1
    bounds = repeat(parts[after]) if after < len(parts) else None
    return (_Item(spellings, *bounds), after + 1) if bounds else (_Item(spellings, 1, 1), after)


def _character(part: str) -> _Spelling:
    """One character, nothing (of no width), or a gap."""
    if part in {"^", "$"} or part in {r"\b", r"\B", r"\A", r"\Z"} or part.startswith("(?"):
        return ("",)
    if len(part) == 1 and part != ".":
        return (part,)
    if _LETTER.fullmatch(part):
        return ("x",)
    inside = part[1:-1]
    few = part.startswith("[") and not inside.startswith("^") and len(inside) <= _FEW and not set("-\\:") & set(inside)
    return ("x",) if few else ("", "")


def _joined(items: list[_Item]) -> list[_Spelling]:
    out: list[_Spelling] = [("",)]
    for item in items:
        more = item.spellings if item.least else [("", "")]
        if len(out) * len(more) > _VARIANTS:
            more = [min(more, key=_longest)]
        repeated = item.most > 1 and item.least > 0
        out = [
            _glued(one, (*other, "") if repeated and item.least != item.most else other)
            for one in out
            for other in more
        ]
    return out


def _glued(one: _Spelling, other: _Spelling) -> _Spelling:
    return (*one[:-1], one[-1] + other[0], *other[1:])
