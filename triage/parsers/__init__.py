"""One file a source. A parser turns the lines around a hit into an Event, or a whole document into Facts.

A parser module has:

    SOURCE: str                       its own name
    recognises(head, tail) -> int     0 no; 1 holds lines of this source; 2 is such a file (both up to 64 KiB)
    SIGNS: tuple[Pattern, ...]        where none of them is in head or tail, `recognises` gives 0
    MAGIC: tuple[bytes, ...]          what its binary files begin with: no parser without it is asked about them
    BEFORE, AFTER: int                lines wanted around a hit (0 when absent)
    parse(window) -> Event            text sources: the message at the hit, its continuation lines joined
    MARKS: ((kind, regex), ...)       lines worth sampling (see `Mark`); named groups become its fields
    facts(document) -> Iterator[Fact] structured sources: the values, names listed in the module's docstring
    BEGINS: Pattern                   `facts` gives nothing of a file that does not begin so
    STREAMED: bool                    it reads `document.stream`, for its files are larger than memory

Files whose name starts with an underscore are shared by parsers and are no sources.
"""

from __future__ import annotations

import importlib
from collections.abc import Container
from functools import cache
from types import ModuleType

from triage.vocabulary import sources


@cache
def parser(source: str) -> ModuleType:
    """The parser module of a source."""
    return importlib.import_module(f"triage.parsers.{source}")


def parsers() -> dict[str, ModuleType]:
    """All parsers by source."""
    return {source: parser(source) for source in sources()}


def recognise(head: bytes, tail: bytes, silent: Container[str] = ()) -> tuple[str, ...]:
    """Sources that a file holds, best first; empty when no parser knows it. silent: those of which no sign is in it."""
    asked = {source: module for source, module in parsers().items() if head.startswith(getattr(module, "MAGIC", ()))}
    modules = asked or {source: module for source, module in parsers().items() if source not in silent}
    scores = {source: module.recognises(head, tail) for source, module in modules.items()}
    return tuple(sorted((name for name, score in scores.items() if score), key=lambda name: (-scores[name], name)))
