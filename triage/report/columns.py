"""Text in columns of a terminal, in which Chinese, Japanese and Korean characters are two columns wide."""

from __future__ import annotations

import re
import unicodedata

from triage.report.clean import clean

_WORDS = re.compile(r"\s+|[^\s\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60]+|.")
_NOT_FIRST = frozenset("，。、；：！？）》」』”’,.;:!?)")  # closing marks never begin a line
LONGEST = 2000


def columns(text: str) -> int:
    """Columns that a text takes."""
    return sum(0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def padded(text: str, width: int) -> str:
    """The text with blanks up to `width` columns."""
    return text + " " * max(0, width - columns(text))


def wrapped(label: str, text: str, width: int, command: str = "", last: str = "") -> list[str]:
    """Lines of at most `width` columns behind a label; what follows is indented as far as the label, at most 12.

    command: stands before the text, on one line, longer than the others if need be: it is there to be copied.
    last: stands behind the text, on one line if that is wide enough.
    """
    indent = " " * min(columns(label), 12)
    lines, line = [], label + (clean(command, LONGEST) + " " if command else "")
    filled = bool(command)
    last = clean(last, LONGEST)
    ending = [" ", last] if columns(indent + last) <= width else _WORDS.findall(" " + last)
    for word in [*_WORDS.findall(clean(text, LONGEST)), *(ending if last else ())]:
        if filled and columns(line + word.rstrip()) > width and word not in _NOT_FIRST:
            lines.append(line.rstrip())
            line, filled = indent, False
            word = word.lstrip()
        line, filled = line + word, filled or bool(word)
    return [*lines, line.rstrip()]
