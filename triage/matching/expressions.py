"""Rewriting a signature's regex for engines that look at bytes and report only whether there is a match.

Every line that the regex matches is still matched. Some more may be, which extraction then refuses.
"""

from __future__ import annotations

import re
from functools import cache

# One piece of a regex, from the left: escapes, classes, group heads, quantifiers, single characters.
_PIECE = re.compile(
    r"""\\x[0-9a-fA-F]{2} | \\u[0-9a-fA-F]{4} | \\[pP]\{[^}]*\} | \\.
    | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]
    | \(\?P?<\w+> | \(\?P=\w+\) | \(\?\#[^)]*\) | \(\?(?:<[=!]|[:=!>|]) | \(\?[a-zA-Z-]+[:)] | \(
    | \{\d*,?\d*\}[?+]? | [*+?][?+]? | .""",
    re.VERBOSE | re.DOTALL,
)
_NAMED = re.compile(r"\(\?P?<\w+>")
_REPEAT = re.compile(r"([*+?]|\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\})[?+]?")
_LOOK = ("(?=", "(?!", "(?<=", "(?<!")
_OPEN_ENDED = 1 << 20  # stands for "no upper limit" of a repeat
# Repeats beyond this are not counted while scanning: it compiles in a third of the time, and bytes are no characters.
_COUNTED = 16


def pieces(expression: str) -> list[str]:
    """The regex cut into tokens; joined they are the regex again."""
    return _PIECE.findall(expression)


def opens(piece: str) -> bool:
    """Is the piece the head of a group?"""
    return piece.startswith("(") and not piece.endswith(")")


def repeat(piece: str) -> tuple[int, int] | None:
    """Least and most repetitions of a quantifier, or None when the piece is none."""
    found = _REPEAT.fullmatch(piece)
    if found is None or piece == "{}":
        return None
    if piece[0] in "*+?":
        return {"*": (0, _OPEN_ENDED), "+": (1, _OPEN_ENDED), "?": (0, 1)}[piece[0]]
    least, most = int(found["least"] or 0), found["most"]
    return least, int(most) if most else _OPEN_ENDED if found["comma"] else least


@cache
def scannable(expression: str) -> bytes:
    """The regex for a byte engine: plain groups, no open tail, characters beyond ASCII as their UTF-8 bytes."""
    parts = ["(" if _NAMED.fullmatch(piece) else _bytes(_uncounted(piece)) for piece in pieces(expression)]
    return "".join(_without_tail(parts)).encode()


def _uncounted(piece: str) -> str:
    """`{0,200}?` -> `*`: far apart is as good as near while scanning."""
    bounds = repeat(piece) if piece.startswith("{") else None
    if bounds is None or bounds[1] <= _COUNTED:
        return piece
    return {0: "*", 1: "+"}.get(bounds[0], f"{{{bounds[0]},}}")


def _bytes(piece: str) -> str:
    if len(piece) == 1 and not piece.isascii():
        return "(?:" + "".join(f"\\x{byte:02x}" for byte in piece.encode()) + ")"
    return piece


def _without_tail(parts: list[str]) -> list[str]:
    """`a(b\\d+)` -> `a(b\\d)`, `a.*` -> `a`: the same lines match, and far fewer ends are reported."""
    body = list(parts)
    end = len(body)
    while end and body[end - 1] == ")":
        end -= 1
    bounds = repeat(body[end - 1]) if end > 1 else None
    if bounds is None or not _single(body[end - 2]):
        return body
    kept = [body[end - 2]] * bounds[0] if bounds[0] <= 1 else [body[end - 2], f"{{{bounds[0]}}}"]
    shorter = body[: end - 2] + kept + body[end:]
    return shorter if bounds[0] else _without_tail(shorter)


def _single(piece: str) -> bool:
    """One character or a class of them; neither a group nor something of no width."""
    return piece not in {")", "|", "^", "$"} and not piece.startswith("(") and not re.fullmatch(r"\\[bBAZzG1-9]", piece)


def relaxed(expression: str) -> bytes:
    """A regex without look-around, back-references and atomic parts that matches at least the same lines (for RE2)."""
    return scannable(_lookless(expression))


def portable(expression: str) -> bytes:
    """The same for Python's `re` of any version: repeats stay counted, for it backtracks where RE2 does not."""
    parts = ["(" if _NAMED.fullmatch(piece) else _bytes(piece) for piece in pieces(_lookless(expression))]
    return "".join(parts).encode()


def _lookless(expression: str) -> str:
    out: list[str] = []
    skip = 0  # depth inside a look-around
    for piece in pieces(expression):
        if skip or piece in _LOOK:
            skip += opens(piece) - (piece == ")")
        elif piece.startswith("(?P=") or re.fullmatch(r"\\[1-9]", piece):
            out.append(r"[^\n]*")
        else:
            out.append("(?:" if piece == "(?>" else piece[:-1] if _possessive(piece) else piece)
    return "".join(out)


def _possessive(piece: str) -> bool:
    return len(piece) > 1 and piece.endswith("+") and repeat(piece) is not None
