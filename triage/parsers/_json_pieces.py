"""JSON with one array too long for memory: its elements some megabytes at a time, and what stands beside it.

A piece is everything up to a comma behind which one may cut. That a comma is such a one is never guessed: a piece is
taken only when it decodes as an array, which the beginning of an array does nowhere but between two elements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import msgspec

from triage.parsers._documents import json_value, mapping

BLOCK = 8 << 20  # bytes read at once
LARGEST = 64 << 20  # bytes of one element, and of all that stands before or behind the array
NAMES = 16  # times that the name of the array may stand in a text or an inner object before it
TRIES = 3  # commas that look right and are not (inside of an element), before all that is there is looked at
_LOOKED = 1 << 16  # bytes at the end of a block in which such a comma is looked for
_COMMA = re.compile(rb"\}\s{0,64},(?=\s{0,64}\{)")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{},]', re.DOTALL)
Decode = Callable[[bytes], "list[Any]"]


class Place(NamedTuple):
    """comma: where the last one between two elements stands, or -1. close: the end of the array, or -1."""

    comma: int
    close: int


class Pieces:
    """An object of which the array `name` is read in pieces; `beside` has its other members when all are read.

    decode: bytes of an array to its elements; what it raises MsgspecError at is read as any JSON and given to `plain`.
    """

    def __init__(self, stream: IO[bytes], name: str, decode: Decode, plain: Callable[[Any], Any]) -> None:
        self.beside: dict[Any, Any] = {}
        self._stream, self._decode, self._plain = stream, decode, plain
        self._name = re.compile(b'"' + re.escape(name.encode()) + rb'"\s{0,64}:\s{0,64}\[')
        self._left, self._ended, self._names = b"", False, NAMES

    def __iter__(self) -> Iterator[list[Any]]:
        """Lists of elements, in order. Raises ValueError with the reason where it is no JSON, or too large."""
        if not self._begin():
            return
        while not self._ended:
            block = self._stream.read(BLOCK)
            self._left += block
            yield self._last() if not block else self._next()

    def _begin(self) -> bool:
        """Read up to the array; what was read of it stays. False when there is none."""
        while block := self._stream.read(BLOCK):
            self._left += block
            if self._headed():
                return True
            if len(self._left) > LARGEST:
                raise ValueError(f"no events in the first {LARGEST >> 20} MiB")
        self.beside = mapping(json_value(self._left))
        return False

    def _headed(self) -> bool:
        """Does the array begin in what was read? The member is one of the object itself when both halves are JSON."""
        for found in self._name.finditer(self._left):
            self._names -= 1
            if self._names < 0:
                raise ValueError("its events are not found")
            try:
                self.beside = mapping(json_value(self._left[: found.start()] + b'"":0}'))
            except ValueError:
                continue
            self._left = self._left[found.end() :]
            return True
        return False

    def _next(self) -> list[Any]:
        """The elements up to a comma near the end; none when one element has not ended yet."""
        start = max(len(self._left) - _LOOKED, 0)
        for found in list(_COMMA.finditer(self._left, start))[: -TRIES - 1 : -1]:
            try:
                elements = self._decode(b"[" + self._left[: found.start() + 1] + b"]")
            except (msgspec.MsgspecError, ValueError, RecursionError):
                continue
            self._left = self._left[found.end() :]
            return elements
        return self._searched()

    def _searched(self) -> list[Any]:
        place = cut(self._left)
        if place.close >= 0:
            return self._last(place)
        if place.comma < 0:
            if len(self._left) > LARGEST:
                raise ValueError(f"an event larger than {LARGEST >> 20} MiB")
            return []
        piece, self._left = self._left[: place.comma], self._left[place.comma + 1 :]
        return self._elements(piece)

    def _last(self, place: Place | None = None) -> list[Any]:
        """The elements before the end of the array, and the members behind it."""
        place = place or cut(self._left)
        if place.close < 0:
            raise ValueError("it ends within the events")
        piece, rest = self._left[: place.close], self._left[place.close + 1 :]
        rest += self._stream.read(LARGEST)
        self.beside |= mapping(json_value(b'{"":0' + rest))
        self._ended, self._left = True, b""
        return self._elements(piece)

    def _elements(self, piece: bytes) -> list[Any]:
        data = b"[" + piece + b"]"
        try:
            return self._decode(data)
        except (msgspec.MsgspecError, RecursionError):  # NaN, or a value of a kind that is not expected
            return [self._plain(item) for item in json_value(data)] if piece.strip() else []


def cut(data: bytes) -> Place:
    """Where the beginning of an array, of which `[` is not there any more, may be cut. One look at each byte."""
    depth, comma = 0, -1
    for found in _TOKEN.finditer(data):
        token = data[found.start()]
        if token in b"[{":
            depth += 1
        elif token in b"]}":
            depth -= 1
            if depth < 0:
                return Place(comma, found.start() if token == 0x5D else -1)
        elif token == 0x2C and depth == 0:
            comma = found.start()
        elif token == 0x22 and found.end() - found.start() == 1:
            break  # a text that does not end here
    return Place(comma, -1)
