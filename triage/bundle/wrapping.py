"""What a log was wrapped in on its way here, told from its head: quotes, line numbers, columns, JSON, HTML, a terminal.

A log that came as it was printed costs one look at its first lines. Every other is rewritten line by line to what was
printed, with a MARK wherever bytes were taken out or changed, so that what is cited later still stands on disk.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from triage.bundle import _columns, _records
from triage.bundle._numbering import numbered, quoted
from triage.bundle.normalise import MARK

HEAD = 12_288  # bytes of a file that are looked at
_LINES = 100  # lines of them
_SOME = 20  # lines of which half must begin with a sign of something
_SIGNS = frozenset(b"%c" % sign for sign in b"{>[0123456789")
_FEW, _MANY = 3, 5  # lines of an entity or of a break that show that a log went through a web page

Rewrite = Callable[[bytes], bytes]

_ENTITY = re.compile(rb"&(?:amp;)?(quot|apos|lt|gt|amp|nbsp|#34|#39|#x27|#x22|#x2F|#47);")  # or escaped twice
_CHARACTERS = {
    b"quot": b'"', b"#34": b'"', b"#x22": b'"', b"apos": b"'", b"#39": b"'", b"#x27": b"'", b"lt": b"<", b"gt": b">",
    b"amp": b"&", b"nbsp": b" ", b"#x2F": b"/", b"#47": b"/",
}  # fmt: skip
_BREAK = re.compile(rb"<br ?/?>(?:\x1b\\)?", re.IGNORECASE)


class Wrapping(NamedTuple):
    """rewrites: in this order for each line. width: columns of the terminal that broke long lines, or 0."""

    rewrites: tuple[Rewrite, ...] = ()
    width: int = 0

    def undone(self, data: bytes) -> tuple[bytes, list[int] | None]:
        """What was printed, with marks, `\\r` for line ends that were added, and where each of its lines stood.

        The places count from 0 and are None when lines are as many as on disk.
        """
        lines = data.split(b"\n")
        places = None
        if self.width:
            lines, places = _columns.joined(lines, self.width, MARK)
        for rewrite in self.rewrites:
            lines = [rewrite(line.removesuffix(b"\r")) if line else line for line in lines]
        return b"\n".join(lines), places


NONE = Wrapping()


def wrapping(head: bytes) -> Wrapping:
    """How a file is wrapped whose first bytes are these."""
    data = head[:HEAD].removeprefix(b"\xef\xbb\xbf")
    lines = data.split(b"\n")[: -1 if len(head) > HEAD else None][:_LINES]
    width = _columns.width(lines)
    if width:
        lines, _ = _columns.joined(lines, width, b"")
    elif not _suspicious(data, lines):
        return NONE
    rewrites = _rewrites([line.removesuffix(b"\r") for line in lines if line.strip()])
    return Wrapping(rewrites, width) if rewrites or width else NONE


def _suspicious(data: bytes, lines: list[bytes]) -> bool:
    """The cheap look: most logs end here."""
    if b"\t" in data or b"&" in data or b"<br" in data or b"<BR" in data:
        return True
    signs = sum(line.lstrip()[:1] in _SIGNS for line in lines[:_SOME])
    return signs * 2 >= len(lines[:_SOME])


def _rewrites(lines: list[bytes]) -> tuple[Rewrite, ...]:
    found: list[Rewrite] = []
    for look in (
        quoted,
        numbered,
        _columns.tabbed,
        _records.records,
        _web,
        _web,
    ):  # what was copied twice is escaped twice
        rewrite = look(lines)
        if rewrite is not None:
            found.append(rewrite)
            lines = [part for line in lines for part in rewrite(line).replace(MARK, b"").split(b"\r") if part.strip()]
    return tuple(found)


def _web(lines: list[bytes]) -> Rewrite | None:
    """Entities and line breaks of a page; a document of XML or HTML is none."""
    if not lines or lines[0].lstrip()[:2] in {b"<?", b"<!", b"<h", b"<n"}:
        return None
    text = b"\n".join(lines)
    entities = [name for name in _ENTITY.findall(text) if name != b"amp"] if b"&" in text else []
    broken = sum(1 for line in lines if _BREAK.search(line)) if b"<br" in text.lower() else 0
    return _printed if len(entities) >= _FEW or broken >= _MANY else None


def _printed(line: bytes) -> bytes:
    if b"&" in line:
        line = _ENTITY.sub(lambda found: MARK + _CHARACTERS[found[1]] + MARK, line)
    if b"<" in line and _BREAK.search(line):
        line = _BREAK.sub(b"\r", line).rstrip(b"\r")
    return line
