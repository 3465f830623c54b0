"""Raw bytes of a log made plain: no terminal sequences, progress bars one line each; lines keep their numbers.

A plain piece is handed on as it is: four searches that run at memory speed decide. Bytes that are no UTF-8 stay: who
decodes a line reads U+FFFD there, as every viewer does.
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from triage.model.lines import NEAR, Counted, Lines

LONGEST = 1 << 20  # bytes of a line; longer ones are cut into pieces

_CURSOR = re.compile(rb"\x1b\[[0-9;]{0,16}[EFHf]")  # moves to another line: what follows is a line of its own
_ESCAPES = re.compile(
    rb"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, erasing, cursor
    rb"|\x1b[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"  # OSC and other strings: titles, hyperlinks
    rb"|\x1b[ -/]{0,4}[0-~]"
    rb"|\x1b"
)
_BLOTTED = re.compile(rb"[^\n\r\x08]\x08")
_LF, _CR = ord("\n"), ord("\r")
_MARK = b"\xef\xbb\xbf"
MARK = b"\x1b\\"  # a terminal sequence that does nothing: whoever takes bytes out of a line leaves it as a seam


def is_plain(data: bytes) -> bool:
    """Nothing in it has to be changed, but for the length of lines."""
    return not (b"\x1b" in data or b"\r" in data or b"\0" in data or b"\x08" in data or data.startswith(_MARK))


class Plain(NamedTuple):
    """A piece made plain. seams: ascending offsets at which a terminal sequence was taken out."""

    data: bytes
    lines: Lines
    seams: list[int] | None = None


def normalise(data: bytes, first_line: int) -> Plain:
    """The piece made plain."""
    seams: list[int] | None = None
    if not is_plain(data):
        data, seams = _stripped(_plain(data))
    bounded = _bounded(data)
    if bounded is not data:
        seams = None  # a cut line has moved what follows it
    return Plain(bounded.replace(b"\r", b"\n"), Counted(first_line, bounded), seams)


def _stripped(data: bytes) -> tuple[bytes, list[int] | None]:
    """Without the single ESC that `_plain` left for each terminal sequence, and where these stood."""
    if b"\x1b" not in data:
        return data, None
    pieces = data.split(b"\x1b")
    seams = list(accumulate(len(piece) for piece in pieces[:-1]))
    return b"".join(pieces), seams


def _marked(data: bytes) -> bytes:
    """Each terminal sequence as one ESC; at the edge of a line it divides nothing that could be cited, and goes."""
    data = _ESCAPES.sub(b"\x1b", _CURSOR.sub(b"\r", data))
    while b"\x1b\x1b" in data:
        data = data.replace(b"\x1b\x1b", b"\x1b")
    for edge in (b"\r", b"\n"):
        data = data.replace(edge + b"\x1b", edge).replace(b"\x1b" + edge, edge)
    return data


def _plain(data: bytes) -> bytes:
    """All but the terminal sequences. From here on `\\n` is a line end on disk and `\\r` one that was added."""
    data = data.removeprefix(_MARK)
    if b"\x1b" in data:
        data = _marked(data)
    if b"\0" in data:
        data = _without_nul(data)
    if b"\x08" in data:  # progress bars of old: a run of backspaces goes back to the start; a single one overprints
        data = _BLOTTED.sub(b"", re.sub(rb"\x08{3,}", b"\r", data)).replace(b"\x08", b"")
    if b"\r" in data:
        data = _alone(data) if len(data) > LONGEST else _single(data)
    return data


def _single(data: bytes) -> bytes:
    """Of CRs in a row one is left, none beside a line feed or at the start. (Searching for pairs takes ten times.)"""
    pieces = data.split(b"\r")
    parts = [pieces[0]]
    for piece in pieces[1:]:
        if piece:
            if piece[0] != _LF and parts[-1] and parts[-1][-1] != _LF:
                parts.append(b"\r")
            parts.append(piece)
    if not pieces[-1] and parts[-1] and parts[-1][-1] != _LF:
        parts.append(b"\r")
    return b"".join(parts)


def _alone(data: bytes) -> bytes:
    """The same at a fifth of the time, on a piece so large that importing numpy pays."""
    import numpy

    held = numpy.frombuffer(data, numpy.uint8)
    if data[0] != _CR and not any(_side_by_side(held[at : at + NEAR + 1]) for at in range(0, len(held), NEAR)):
        return data  # no line end beside another: a third of the time of looking at each
    returns = numpy.flatnonzero(held == _CR)
    apart = numpy.diff(returns) > 1
    starts, ends = returns[numpy.append(True, apart)], returns[numpy.append(apart, True)]  # of each run
    before = numpy.where(starts > 0, held[starts - 1], _LF)
    after = held[numpy.minimum(ends + 1, len(held) - 1)]
    kept = ends[(before != _LF) & (after != _LF)]
    if len(kept) == len(returns):
        return data
    stays = numpy.ones(len(held), bool)
    stays[returns] = False
    stays[kept] = True
    return held[stays].tobytes()


def _side_by_side(held: Any) -> bool:
    """Does a line end (or a tab) stand beside another? held: an array of bytes."""
    low = held <= _CR
    return bool((low[1:] & low[:-1]).any())


def _without_nul(data: bytes) -> bytes:
    """Every other byte NUL is UTF-16 without a mark; runs of NUL are holes that a crash or a rotation left."""
    half = len(data) // 2
    if max(data[::2].count(0), data[1::2].count(0)) * 10 > half * 8 and data.count(0) * 10 < len(data) * 6:
        return data.replace(b"\0", b"")
    return re.sub(rb"\0+", b"\r", data)


def _bounded(data: bytes) -> bytes:
    cuts, start = [], 0  # where a line is cut, because it is longer than LONGEST
    while len(data) - start > LONGEST:
        end = start + LONGEST
        cut = max(data.rfind(b"\n", start, end), data.rfind(b"\r", start, end)) + 1
        if cut <= start:
            while end > start + LONGEST - 4 and data[end] & 0xC0 == 0x80:  # not within a character
                end -= 1
            cuts.append(cut := end)
        start = cut
    edges = [0, *cuts, len(data)]
    return b"\r".join(data[one:other] for one, other in pairwise(edges)) if cuts else data
