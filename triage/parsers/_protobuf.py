"""Fields of a protobuf message, without its schema and without trust."""

from __future__ import annotations

import struct
from collections.abc import Iterator

Wire = int | bytes


def fields(data: bytes) -> Iterator[tuple[int, Wire]]:
    """(number, value): varints as int, everything else as its bytes. Ends where the message is damaged."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
            if at <= len(data):
                yield number, value
            continue
        if kind == 2:
            size, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind, -1)
        if size < 0 or at + size > len(data):
            return
        yield number, data[at : at + size]
        at += size


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number there and the place behind it; a place beyond the end when it is cut."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    return 0, len(data) + 1


def text(value: Wire) -> str:
    """Bytes as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def real(value: Wire) -> float | None:
    """A float or double."""
    if not isinstance(value, bytes) or len(value) not in (4, 8):
        return None
    return float(struct.unpack("<f" if len(value) == 4 else "<d", value)[0])
