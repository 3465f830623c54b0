"""Text of evidence on its way to a reader: no control characters, no terminal sequences, nothing running backwards."""

from __future__ import annotations

import unicodedata

# Bidirectional controls and zero-width characters: they make a line read differently from what it says.
_HIDDEN = frozenset(
    "\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
)


def clean(text: str, width: int = 400) -> str:
    """One printable line of at most `width` characters."""
    line = "".join(_visible(char) for char in text[: 4 * width])
    line = " ".join(line.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def indented(text: str, width: int = 400) -> str:
    """The same with its blanks kept, for lines of code and logs that are shown as they stand."""
    line = "".join(_visible(char) for char in text[:width].expandtabs(4)).rstrip()
    return line if len(text) <= width else line[: width - 1] + "…"


def _visible(char: str) -> str:
    if char in "\t\n\r":
        return " "
    if char in _HIDDEN or unicodedata.category(char) in {"Cc", "Cs", "Co", "Cn"}:
        return "\N{REPLACEMENT CHARACTER}"
    return char
