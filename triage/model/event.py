"""Events, facts and signals: what parsers and matching say of the evidence."""

from __future__ import annotations

from typing import Literal

from triage.model.base import Record, Scalar, Value
from triage.model.signature import Signature


class Stamp(Record, frozen=True, kw_only=True):
    """A time as far as the text gives it.

    utc: Unix seconds. local: date and clock without a zone, as Unix seconds of the same reading in UTC.
    yearless: seconds since 1 January of an unknown year. boot: seconds since the node booted.
    clock: time of day only, seconds since midnight.
    east: of utc, the seconds by which the zone that the text names is ahead of UTC; None when it names none.
    """

    seconds: float
    kind: Literal["utc", "local", "yearless", "boot", "clock"]
    east: int | None = None


class Where(Record, frozen=True, kw_only=True):
    """A place in the evidence. `line` counts from 1; binary sources have `at` instead."""

    file: str
    line: int | None = None
    at: str | None = None


class Event(Record, frozen=True, kw_only=True):
    """One message, its continuation lines joined.

    text: the line itself, without line prefix, at most 2,000 characters; it stands so in the file.
    body: the joined message (text first line to last) when it has more than one line, else equal to text.
    node, rank, local_rank, gpu, pid: what the line's prefix, its content or its file's name say; None is unknown.
    gpu: the NVML index unless `gpu_kind` says otherwise.
    """

    where: Where
    text: str
    body: str
    source: str
    time: Stamp | None = None
    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None


class Fact(Record, frozen=True, kw_only=True):
    """One value of a structured source or of an analysis.

    name: dotted, lower case, listed in the docstring of the parser or analysis that makes it.
    value: None means that the source has the field but says nothing (N/A, [Unknown Error]): unknown, not zero.
    entity: what it is about, keys of EntityKind.
    evidence: places that prove a derived fact, best first.
    """

    name: str
    value: Value
    where: Where
    entity: dict[str, Scalar] = {}
    text: str = ""
    time: Stamp | None = None
    evidence: tuple[Where, ...] = ()


class Signal(Record, frozen=True, kw_only=True):
    """A signature seen.

    fields: named groups of the match, typed by the signature.
    entity: what it hangs on, keys of EntityKind, from typed fields and the event's own rank and node.
    count: how many lines said the same (same signature, entity) in this file; the first is kept.
    lines: where those stand, at most 64 of them (the first and the last), so that runs of a job can be told apart.
    """

    signature: Signature
    event: Event
    fields: dict[str, Scalar] = {}
    entity: dict[str, Scalar] = {}
    count: int = 1
    last_line: int | None = None
    lines: tuple[int, ...] = ()


class Mark(Record, frozen=True, kw_only=True):
    """A sampled line that is no signal: its kind (`step`, `init`, `start`, `end`, `raised`, `well` ...) and values."""

    kind: str
    event: Event
    fields: dict[str, Scalar] = {}
