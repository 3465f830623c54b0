"""Which signatures may match a text, without a scanner: the text must hold one of a few literals of their regex.

For one line this is quicker than loading the compiled databases. Extraction on the line decides, as always.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from functools import cache

import msgspec

from triage.matching import cache as stored
from triage.matching.expressions import opens, pieces, repeat
from triage.matching.loading import catalogue
from triage.model.signature import Signature

_SPECIAL = frozenset(".^$|()[]{}*+?\\")
_LOOK = ("(?=", "(?!", "(?<=", "(?<!")
_MANY = 40  # alternatives; beyond, looking for them all is no quicker than the regex

Needles = tuple[str, ...]
Weight = Callable[[str], int]


def candidates(text: str) -> list[Signature]:
    """Signatures of the catalogue that may match a line of the text, by id, with only the patterns that may."""
    known, out, text = stored_needles(), [], text.lower()
    for signature in catalogue().values():
        fits = [pattern for pattern in signature.match if any(each in text for each in known[pattern.regex])]
        if fits:
            out.append(msgspec.structs.replace(signature, match=fits))
    return out


@cache
def stored_needles() -> dict[str, Needles]:
    """The needles of every regex of the catalogue."""
    regexes = sorted({pattern.regex for each in catalogue().values() for pattern in each.match})
    key = hashlib.sha256("\0".join(["needles", *regexes]).encode()).hexdigest()
    if (known := stored.read(key)) is not None:
        with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
            return msgspec.msgpack.decode(known, type=dict[str, Needles])
    found = {regex: needles(regex) for regex in regexes}
    stored.write(key, msgspec.msgpack.encode(found))
    return found


def needles(expression: str, weight: Weight = len) -> Needles:
    """Texts (in small letters, for some regexes ignore case) of which every match holds at least one.

    weight: how much a text tells; of several that must be there the one that tells most is chosen.
    One empty text when nothing can be said.
    """
    return _alternatives(pieces(expression), 0, weight)[0]


def _alternatives(parts: list[str], at: int, weight: Weight) -> tuple[Needles, int]:
    """The needles of a group from a position on, and the position after the group."""
    found: list[Needles] = []
    while True:
        best, at = _sequence(parts, at, weight)
        found.append(best)
        if at >= len(parts) or parts[at] == ")":
            break
        at += 1
    union = tuple(dict.fromkeys(each.lower() for best in found for each in best))
    return (union if len(union) <= _MANY and all(union) else ("",)), at + 1


def _sequence(parts: list[str], at: int, weight: Weight) -> tuple[Needles, int]:
    """The best needles of one alternative, and the position of what ends it."""
    runs: list[Needles] = []
    text = ""
    while at < len(parts) and parts[at] not in {"|", ")"}:
        part, inner = parts[at], None
        if opens(part):
            inner, at = _alternatives(parts, at + 1, weight)
        else:
            at += 1
        bounds = repeat(parts[at]) if at < len(parts) else None
        at += bounds is not None
        literal = _literal(part) if inner is None and (bounds is None or bounds[0]) else ""
        text += literal
        if not literal or bounds:
            runs, text = [*runs, (text,)], ""
        if inner and part not in _LOOK and (bounds is None or bounds[0]):
            runs.append(inner)
    return max([*runs, (text,)], key=lambda each: min(map(weight, each))), at


def _literal(part: str) -> str:
    if len(part) == 1:
        return "" if part in _SPECIAL else part
    return part[1] if len(part) == 2 and part[0] == "\\" and not part[1].isalnum() else ""
