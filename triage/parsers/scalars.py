"""Scalars of trackers: TensorBoard's event files and the `.wandb` file of an offline run.

Facts (entity rank when the file's name says, else 0: the rank that logs):
steps.series.step, steps.series.step_ms, steps.series.loss   as step_times tells them, at most LONGEST points
scalars.tags       how many tags hold scalars
scalars.last_step  the highest step logged
scalars.unread     how many records were of another kind (images, histograms, tensors, media)
scalars.unreadable why nothing was read
"""

from __future__ import annotations

import math
import re
import struct
from collections import defaultdict
from collections.abc import Iterator

from triage.model import json_text
from triage.model.base import number
from triage.model.bundle import Document
from triage.model.event import Fact
from triage.parsers import _protobuf
from triage.parsers._documents import Teller, inflated

SOURCE = "scalars"
MAGIC = (b":W&B",)
RECORDS = 2_000_000
TAGS = 10_000
LONGEST = 1024
_EVENTS = b"brain.Event:"
_WANDB = b":W&B"
_BLOCK = 32768
_STEP = re.compile(
    r"(?:^|[/_ .])(?:iteration|iter|step|batch|train_step)[-_ ]?(?:time|timing|duration)(?![a-z])"
    r"(?:[-_ /.(]*(?:in[-_ ])?(?P<unit>ms|milliseconds|s|sec|secs|seconds)\b)?",
    re.IGNORECASE,
)
_LOSS = re.compile(
    r"^(?:train(?:ing)?[/_ ])?(?:lm[ _-])?(?:reduced_train_)?loss$|^(?:lm|train)[ _-]loss\b", re.IGNORECASE
)
Points = dict[int, float]


def recognises(head: bytes, tail: bytes) -> int:
    """2 for an event file and for an offline run of wandb."""
    return 2 if head[:5] == _WANDB + b"\xe1" or head.startswith(_WANDB) or _EVENTS in head[:256] else 0


def facts(document: Document) -> Iterator[Fact]:
    """The step times and the loss among the scalars, and how much was not read."""
    data = inflated(document.data)
    teller = Teller(document, {"rank": document.file.rank or 0})
    tags: dict[str, Points] = defaultdict(dict)
    unread = 0
    for tag, step, value in _wandb(data) if data.startswith(_WANDB) else _tensorboard(data):
        if value is None or (tag not in tags and len(tags) >= TAGS):
            unread += 1
        else:
            tags[tag][step] = value
    if not tags:
        yield teller.fact("scalars.unreadable", f"no scalar in it; {unread} records of another kind")
        return
    yield from teller.some({
        "scalars.tags": len(tags), "scalars.last_step": max(max(points) for points in tags.values()),
        "scalars.unread": unread or None,
    })  # fmt: skip
    yield from _series(teller, tags)


def _series(teller: Teller, tags: dict[str, Points]) -> Iterator[Fact]:
    times = next((tag for tag in sorted(tags) if _STEP.search(tag)), None)
    losses = next((tag for tag in sorted(tags) if _LOSS.search(tag)), None)
    found = {"step_ms": tags.get(times or "", {}), "loss": tags.get(losses or "", {})}
    steps = sorted({step for points in found.values() for step in points})
    steps = steps[:: max(1, math.ceil(len(steps) / LONGEST))]
    if not steps:
        return
    unit = _STEP.search(times) if times else None
    scale = 1.0 if unit and (unit["unit"] or "").lower().startswith("m") else 1000.0  # a bare time counts seconds
    yield teller.fact("steps.series.step", steps)
    for name, points in found.items():
        if points:
            factor = scale if name == "step_ms" else 1.0
            yield teller.fact(f"steps.series.{name}", [points.get(step, math.nan) * factor for step in steps])


def _tensorboard(data: bytes) -> Iterator[tuple[str, int, float | None]]:
    """(tag, step, value) of each summary value; None for what is no scalar. Ends where the file is cut."""
    at = 0
    for _ in range(RECORDS):
        if at + 16 > len(data):
            return
        (size,) = struct.unpack_from("<Q", data, at)
        if size > len(data) - at - 16:
            return
        yield from _event(data[at + 12 : at + 12 + size])
        at += size + 16


def _event(record: bytes) -> Iterator[tuple[str, int, float | None]]:
    step, summaries = 0, []
    for field, value in _protobuf.fields(record):
        if field == 2 and isinstance(value, int):
            step = value
        elif field == 5 and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for field, value in _protobuf.fields(summary):
            if field == 1 and isinstance(value, bytes):
                tag, found = _value(value)
                yield tag, step, found


def _value(message: bytes) -> tuple[str, float | None]:
    """A tag with its simple value, or with a tensor of one number."""
    tag, found = "", None
    for field, value in _protobuf.fields(message):
        if field == 1:
            tag = _protobuf.text(value)[:200]
        elif field == 2:
            found = _protobuf.real(value)
        elif field == 8 and isinstance(value, bytes):
            found = _tensor(value)
    return tag, found


def _tensor(message: bytes) -> float | None:
    """The one float or double of a scalar tensor: in its content or in its list of values."""
    kind, shaped, held = 0, False, b""
    for field, value in _protobuf.fields(message):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field == 2 and isinstance(value, bytes):
            shaped = bool(value)
        elif field in (4, 5, 6) and isinstance(value, bytes):
            held = value
    return _protobuf.real(held) if kind in (1, 2) and not shaped else None


def _wandb(data: bytes) -> Iterator[tuple[str, int, float | None]]:
    """(key, step, value) of each item of the history; None for media and nested values."""
    for count, record in enumerate(_records(data)):
        for field, value in _protobuf.fields(record):
            if field == 2 and isinstance(value, bytes):
                yield from _history(value, count)


def _records(data: bytes) -> Iterator[bytes]:
    """Records of the log: blocks of 32 KiB, in them chunks of (checksum, length, kind), a record in one or more."""
    at, pieces = 7, b""
    for _ in range(RECORDS):
        left = _BLOCK - at % _BLOCK
        if left < 7:
            at += left
        if at + 7 > len(data):
            return
        size, kind = struct.unpack_from("<HB", data, at + 4)
        piece = data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 2):
            pieces = b""
        pieces += piece
        if kind in (1, 4):
            yield pieces
        elif kind not in (2, 3):
            return


def _history(message: bytes, count: int) -> Iterator[tuple[str, int, float | None]]:
    step, items = count, []
    for field, value in _protobuf.fields(message):
        if field == 1 and isinstance(value, bytes):
            items.append(_item(value))
        elif field == 2 and isinstance(value, bytes):
            step = next((found for at, found in _protobuf.fields(value) if at == 1 and isinstance(found, int)), 0)
    told = next((found for key, found in items if key == "_step" and found is not None), None)
    for key, logged in items:
        if not key.startswith("_"):
            yield key, int(told) if told is not None else step, logged


def _item(message: bytes) -> tuple[str, float | None]:
    key, nested, value = "", [], None
    for field, found in _protobuf.fields(message):
        if field == 1:
            key = _protobuf.text(found)[:200]
        elif field == 2:
            nested.append(_protobuf.text(found)[:200])
        elif field == 16:
            value = _json_number(_protobuf.text(found))
    return key or "/".join(nested[:8]), value


def _json_number(text: str) -> float | None:
    """A number; `NaN` and infinities as they are; None for strings, lists and objects."""
    if text.strip() in ("NaN", "Infinity", "-Infinity"):
        return math.nan
    try:
        return number(json_text.loads(text)) if len(text) < 64 and not text.startswith('"') else None
    except (ValueError, RecursionError):
        return None
