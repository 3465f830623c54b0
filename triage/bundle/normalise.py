"""Raw bytes of a log made plain: no terminal sequences, progress bars one line each; lines keep their numbers.

A plain piece is handed on as it is: four searches that run at memory speed decide. Bytes that are no UTF-8 stay: who
decodes a line reads U+FFFD there, as every viewer does.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, overload

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


class Numbers(Sequence[int]):
    """Number on disk of each line of a piece that has more lines than on disk; worked out when one is asked for.

    first: number of the first line. data: the piece, `\\n` for a line end on disk and `\\r` for one that was added.
    """

    def __init__(self, first: int, data: bytes) -> None:
        self._first, self._data = first, data

    @cached_property
    def _places(self) -> tuple[int, list[int]]:
        """Lines of the piece, and ascending indices of those that begin at a break that was added."""
        data, self._data = self._data, b""
        count, added = _counted(data) if len(data) > LONGEST else _listed(data)
        return count + (not data.endswith((b"\n", b"\r"))), added

    def __len__(self) -> int:
        return self._places[0]

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        """A number, or a list of them. Raises IndexError."""
        if isinstance(index, slice):
            return self._slice(range(*index.indices(len(self))))
        count, added = self._places
        at = index + count if index < 0 else index
        if not 0 <= at < count:
            raise IndexError(index)
        return self._first + at - bisect_right(added, at)

    def _slice(self, wanted: range) -> list[int]:
        added = self._places[1]
        before = bisect_right(added, wanted[0]) if wanted else 0
        if wanted and wanted.step == 1 and before == bisect_right(added, wanted[-1]):
            return list(range(self._first + wanted.start - before, self._first + wanted.stop - before))
        return [self[each] for each in wanted]


class Plain(NamedTuple):
    """A piece made plain.

    lines: the number on disk of each of its lines, when there are more than on disk.
    seams: ascending offsets at which a terminal sequence was taken out.
    """

    data: bytes
    lines: Sequence[int] | None = None
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
    return Plain(bounded.replace(b"\r", b"\n"), Numbers(first_line, bounded), seams)


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


def feeds(data: bytes) -> int:
    """Line feeds in a piece; of a large one numpy counts them at three times the speed."""
    if len(data) <= LONGEST:
        return data.count(b"\n")
    import numpy

    return int(numpy.count_nonzero(numpy.frombuffer(data, numpy.uint8) == _LF))


def _listed(data: bytes) -> tuple[int, list[int]]:
    """Line ends, and the indices of the lines behind each `\\r`."""
    added: list[int] = []
    index = at = 0
    while (found := data.find(b"\r", at)) >= 0:
        index += data.count(b"\n", at, found) + 1
        added.append(index)
        at = found + 1
    return index + data.count(b"\n", at), added


def _counted(data: bytes) -> tuple[int, list[int]]:
    """The same, for a large piece."""
    import numpy

    held = numpy.frombuffer(data, numpy.uint8)
    returns, feeds = numpy.flatnonzero(held == _CR), numpy.flatnonzero(held == _LF)
    added: Any = feeds.searchsorted(returns) + numpy.arange(1, len(returns) + 1)
    return len(feeds) + len(returns), list(added.tolist())
