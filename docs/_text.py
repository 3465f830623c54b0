"""Pieces of Markdown that all generated pages are made of."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

_LIVE = re.compile(r"(`[^`]+`)|([\\`*_\[\]<>|#{}$~])")
NOTE = "<!-- generated: change the code or the YAML, not this page -->"


def plain(text: object) -> str:
    """A text without anything that Markdown would take for its own, but for `code`."""
    words = " ".join(str(text).split())
    return _LIVE.sub(lambda found: found[1] or f"&#{ord(found[2])};", words)


def code(text: object) -> str:
    """A short text as code. The site's tables do not cut at a pipe within code, nor take its backslash away."""
    words = " ".join(str(text).split())
    return f"`` {words} ``" if "`" in words else f"`{words}`"


def block(text: str, language: str = "text") -> list[str]:
    """Lines as they are, in a fence that is longer than any in them."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return ["", f"{fence}{language}", *text.rstrip().splitlines(), fence, ""]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table; nothing at all without rows."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return ["", "| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines, ""] if lines else []


def link(text: str, page: str, of: str) -> str:
    """A link from page `of` to another page; both are paths below the site."""
    return f"[{text}]({posixpath.relpath(page, posixpath.dirname(of) or '.')})"


def document(title: str, lines: Iterable[str]) -> str:
    """A page with its heading and without two empty lines in a row."""
    text = "\n".join([f"# {title}", "", NOTE, "", *lines])
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def section(title: str, lines: Iterable[str], depth: int = 2) -> Iterator[str]:
    """A heading with what stands below it; nothing when that is empty."""
    if told := list(lines):
        yield from ("", f"{'#' * depth} {title}", "", *told)
