"""What a node needs to know to send only the lines that matter: literals and regexes of all signatures and marks.

`collectors/_reduction.py` reads it with the standard library alone. Its answer may be wider than the catalogue's, never
narrower: a regex that the standard library refuses is left out, and then the literals decide.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from triage.matching.expressions import pieces, portable
from triage.matching.needles import needles
from triage.matching.scanner import Marker
from triage.model.signature import Signature

SCHEMA = "triage.reduction/1"
_DIGITS = "0123456789"
_GROUP = re.compile(r"\((?!\?)|\(\?P?<(?P<name>\w+)>")


def spec(signatures: Sequence[Signature], marks: Sequence[Marker]) -> dict[str, Any]:
    """Rules as plain data, in the order of the signatures and then of the kinds of marks.

    `groups`: one for each signature that reads lines and each kind of mark: [kind, wide, least], where `kind` is
    `signal` or that of the mark, `wide` says that whole messages are wanted around its lines, and `least` how many
    repeats of it are needed at least.
    `patterns`: [group, needles, regex or null, positions of the regex's groups that say what a line is about, digits],
    where `digits` says that another number on the line can change whether it matches.
    """
    groups: list[list[Any]] = [
        ["signal", _wide(each), each.repeat.at_least if each.repeat else 1] for each in signatures
    ]
    patterns = [
        [number, *_pattern(pattern.regex, {name for name, field in each.fields.items() if field.entity})]
        for number, each in enumerate(signatures)
        for pattern in each.match
    ]
    kinds = sorted({mark.kind for mark in marks})
    groups += [[kind, False, 1] for kind in kinds]
    for mark in marks:
        names = {"name", "value"} if mark.kind == "env" else set[str]()
        patterns.append([len(signatures) + kinds.index(mark.kind), *_pattern(mark.regex, names)])
    return {"schema": SCHEMA, "groups": groups, "patterns": patterns}


def _wide(signature: Signature) -> bool:
    mild = signature.role == "context" or signature.severity in {"info", "warning"}
    return not mild or any(each.message or each.unless for each in signature.match)


def _pattern(regex: str, names: set[str]) -> list[Any]:
    plain = portable(regex).decode("ascii")
    kept = plain if _taken(plain) else None
    return [list(needles(regex, _weight)), kept, list(_positions(regex, names)) if kept else [], _of_digits(regex)]


def _weight(needle: str) -> int:
    """The longest word without digits: nodes look for words, and read all numbers as the same."""
    return max(map(len, "".join(letter for letter in needle if letter not in _DIGITS).split(" ")))


def _taken(regex: str) -> bool:
    """Does the standard library take it, as Python 3.6 had it?"""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(regex.encode("ascii"), re.MULTILINE)
    except (re.error, ValueError, Warning, OverflowError):
        return False
    return True


def _positions(regex: str, names: set[str]) -> Iterator[int]:
    """Numbers of the groups with these names, as the portable regex counts them, in which look-arounds are gone."""
    count, skip = 0, 0
    for piece in pieces(regex):
        if skip or piece in {"(?=", "(?!", "(?<=", "(?<!"}:
            skip += (piece.startswith("(") and not piece.endswith(")")) - (piece == ")")
        elif found := _GROUP.fullmatch(piece):
            count += 1
            if found["name"] in names:
                yield count


def _of_digits(regex: str) -> bool:
    """Is some digit told from another one?"""
    return any(_tells(piece) for piece in pieces(regex))


def _tells(piece: str) -> bool:
    if piece.startswith("(?P=") or (len(piece) == 2 and piece[0] == "\\" and piece[1] in _DIGITS):
        return True
    if piece.startswith("["):
        return len({bool(re.fullmatch(piece, digit)) for digit in _DIGITS}) > 1
    return piece in _DIGITS
