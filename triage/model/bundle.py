"""What evidence consists of before anything is understood: files, chunks, documents, gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import IO, Any

import msgspec

from triage.model.base import Record, Scalar, Spec
from triage.model.lines import Lines
from triage.vocabulary import GapReason


class File(Record, frozen=True, kw_only=True):
    """One file of the evidence, as recognised.

    path: relative to what was opened; a single file's base name; `<stdin>`.
    sources: names of parsers that recognise it, best first; empty when nothing does.
    text: false for binary documents, which are never scanned line by line.
    node, rank, local_rank, pid, attempt: what the path says, or None.
    """

    path: str
    size: int
    sources: tuple[str, ...] = ()
    text: bool = True
    truncated: bool = False
    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    attempt: int | None = None


class Chunk(msgspec.Struct):
    """A line-aligned piece of a text file, normalised (no ESC sequences; CR and NUL made line ends).

    lines: the number in the file, as it is on disk, of each line of `data`.
    seams: ascending offsets in `data` where normalising took bytes out of a line (ESC sequences), when known.
    """

    file: File
    data: bytes
    lines: Lines
    last: bool = False
    seams: list[int] | None = None


class Window(Record, frozen=True, kw_only=True):
    """The lines around a hit, for a parser. `lines[hit]` is the line that was hit, `numbers` their numbers."""

    file: File
    lines: tuple[str, ...]
    numbers: Sequence[int]
    hit: int


class Rows(Record, frozen=True, kw_only=True):
    """What is wanted of the records (dictionaries) in the list `of` of a pickle, or in the list that a pickle is.

    columns, then rare: the keys whose values make a row; rare ones are left out of records in which `unless` holds, a
    key and its value.
    """

    of: str
    columns: tuple[str, ...]
    rare: tuple[str, ...]
    unless: tuple[str, Scalar]


class Document(Record, frozen=True, kw_only=True):
    """A whole file for a parser of a structured source.

    data: its bytes, decompressed; nothing when there is a stream.
    stream: the same bytes to be read once, for parsers that say STREAMED: their files are larger than memory.
    unpickle: loads a pickle in a limited child with every class refused; raises ValueError with the reason.
    unpickle_rows: the same for a part of it (see `Unpickler.rows`); None where only `unpickle` is at hand.
    """

    file: File
    data: bytes
    unpickle: Callable[[bytes], Any]
    unpickle_rows: Callable[[bytes, Rows, type], tuple[Any, list[Any]]] | None = None
    stream: IO[bytes] | None = None


class Gap(Spec, frozen=True, kw_only=True):
    """Something that could not be seen: what, why, and what would show it."""

    what: str
    why: GapReason
    node: str | None = None
    file: str | None = None
    how: str | None = None
