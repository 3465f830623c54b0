"""Raw bytes of a log made plain: UTF-8, no terminal sequences, progress bars one line each; lines keep their numbers.

A plain piece is handed on as it is: four searches that run at memory speed decide.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple

LONGEST = 1 << 20  # bytes of a line; longer ones are cut into pieces

_CURSOR = re.compile(rb"\x1b\[[0-9;]{0,16}[EFHf]")  # moves to another line: what follows is a line of its own
_ESCAPES = re.compile(
    rb"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, erasing, cursor
    rb"|\x1b[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"  # OSC and other strings: titles, hyperlinks
    rb"|\x1b[ -/]{0,4}[0-~]"
    rb"|\x1b"
)
_BLOTTED = re.compile(rb"[^\n\r\x08]\x08")
_LF = ord("\n")
_MARK = b"\xef\xbb\xbf"


def is_plain(data: bytes) -> bool:
    """Nothing in it has to be changed, but for the length of lines."""
    if b"\x1b" in data or b"\r" in data or b"\0" in data or b"\x08" in data:
        return False
    if data.isascii():
        return True
    if data.startswith(_MARK):
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class Plain(NamedTuple):
    """A piece made plain.

    lines: the number on disk of each of its lines, when there are more than on disk.
    seams: ascending offsets at which a terminal sequence was taken out.
    """

    data: bytes
    lines: list[int] | None = None
    seams: list[int] | None = None


def normalise(data: bytes, first_line: int) -> Plain:
    """The piece made plain."""
    seams: list[int] | None = None
    if not is_plain(data):
        data, seams = _stripped(_plain(data))
    bounded = _bounded(data)
    if bounded is not data:
        seams = None  # a cut line has moved what follows it
    if b"\r" not in bounded:
        return Plain(bounded, None, seams)
    return Plain(bounded.replace(b"\r", b"\n"), _numbers(bounded, first_line), seams)


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
        data = _single(data)
    return _utf8(data)


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


def _utf8(data: bytes) -> bytes:
    """What is no UTF-8 becomes U+FFFD, as it does in every viewer that opens the file as UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").encode()
    return data


def _without_nul(data: bytes) -> bytes:
    """Every other byte NUL is UTF-16 without a mark; runs of NUL are holes that a crash or a rotation left."""
    half = len(data) // 2
    if max(data[::2].count(0), data[1::2].count(0)) * 10 > half * 8 and data.count(0) * 10 < len(data) * 6:
        return data.replace(b"\0", b"")
    return re.sub(rb"\0+", b"\r", data)


def _bounded(data: bytes) -> bytes:
    pieces, start = [], 0
    while len(data) - start > LONGEST:
        end = start + LONGEST
        cut = max(data.rfind(b"\n", start, end), data.rfind(b"\r", start, end)) + 1
        if cut > start:
            pieces.append(data[start:cut])
            start = cut
            continue
        while end > start + LONGEST - 4 and data[end] & 0xC0 == 0x80:  # not within a character
            end -= 1
        pieces += [data[start:end], b"\r"]
        start = end
    long = b"\r" in pieces
    return b"".join([*pieces, data[start:]]) if long else data


def _numbers(data: bytes, first_line: int) -> list[int]:
    """Number on disk of each line; lines end at `\\n` or `\\r`, and only the first counts on disk."""
    return _counted(data, first_line) if len(data) > LONGEST else _listed(data, first_line)


def _listed(data: bytes, first_line: int) -> list[int]:
    numbers: list[int] = []
    lines = data.removesuffix(b"\r").split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, first_line):
        numbers.extend([number] * (line.count(b"\r") + 1))
    return numbers


def _counted(data: bytes, first_line: int) -> list[int]:
    """The same, three times as fast on a large piece, where importing numpy pays."""
    import numpy

    data = data.removesuffix(b"\r").removesuffix(b"\n")
    held = numpy.frombuffer(data, numpy.uint8)
    ends = held[(held == 10) | (held == 13)]
    before = numpy.concatenate(([0], numpy.cumsum(ends == 10)))
    numbers: list[int] = (before + first_line).tolist()
    return numbers
