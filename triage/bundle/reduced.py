"""Logs of which a node sent only what matters: each line with its number in the original, so that citations stay true.

The first line says `triage.reduced/1`, lines and bytes of the original, lines and bytes kept, with tabs between. Each
further line is a number, a tab and the line. Where lines were left out the reader puts one empty line, so that no
message is joined across.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

from triage.bundle.normalise import normalise
from triage.model.bundle import Chunk, File
from triage.model.lines import Listed

MAGIC = b"triage.reduced/1\t"
BLOCK = 4 << 20  # bytes of numbered lines that become one chunk
_TITLE = 200  # bytes of the first line at most
_PIECE = 1 << 18  # bytes of numbered lines that are restored at once
_DIGITS = 15


class Title(NamedTuple):
    """What the first line says: of the original, and of what was kept."""

    lines: int
    bytes: int
    kept_lines: int
    kept_bytes: int


def title(head: bytes) -> Title | None:
    """The numbers in the first line, or None when it is not that of a reduced file."""
    first = head[:_TITLE].split(b"\n", 1)[0]
    fields = first.split(b"\t")[1:]
    if not first.startswith(MAGIC) or len(fields) != 4 or not all(map(_is_number, fields)):
        return None
    return Title(*map(int, fields))


def _is_number(field: bytes) -> bool:
    return field.isdigit() and len(field) <= _DIGITS


class Restored:
    """The lines without their numbers, as one stream: for recognition and for whatever is read as a whole."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source, self._rest, self._last = source, b"", 0
        source.readline(_TITLE)

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; nothing at the end."""
        while not self._rest and (block := self._source.readlines(_PIECE)):
            lines = list(_numbered(block, self._last))
            self._last = lines[-1][0]
            self._rest = b"".join([text for _, text in lines])
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def reduced_chunks(stream: io.BufferedReader, file: File) -> Iterator[Chunk]:
    """Chunks whose lines have the numbers of the original. Raises OSError."""
    stream.readline(_TITLE)
    block, last = stream.readlines(BLOCK), 0
    while block:
        following = stream.readlines(BLOCK)
        lines = list(_numbered(block, last))
        last = lines[-1][0]
        yield _chunk(file, lines, not following)
        block = following


def _chunk(file: File, lines: list[tuple[int, bytes]], last: bool) -> Chunk:
    plain = normalise(b"".join([text for _, text in lines]), 0)
    numbers = [number for number, _ in lines]
    inner = [numbers[min(at, len(numbers) - 1)] for at in plain.lines.every()]
    return Chunk(file=file, data=plain.data, lines=Listed(inner, plain.data), last=last, seams=plain.seams)


def _numbered(block: Iterable[bytes], last: int) -> Iterator[tuple[int, bytes]]:
    """(number, line), with an empty line for each hole; numbers that are none or go back are the last one."""
    for raw in block:
        tab = raw.find(b"\t", 0, _DIGITS + 1)
        number = int(raw[:tab]) if tab > 0 and raw[:tab].isdigit() else 0
        if number > last + 1:
            yield last + 1, b"\n"
        last = max(number, last, 1)
        yield last, raw[tab + 1 :] if raw.endswith(b"\n") else raw[tab + 1 :] + b"\n"
