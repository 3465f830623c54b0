"""Inputs on which a regex that is not linear runs for ever: pieces of real lines, drawn out to a great length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PUMPS = (
    b"9",
    b"a",
    b" ",
    b"a ",
    b"9 ",
    b"\n",
    b" \n",
    b"a\n",
    b"\r\n",
    b":",
    b"9.",
    b"AB_",
    b"[",
    b"{",
    b'"',
    b"/a",
    b"=",
)
_CUTS = (1, 3, 5, 7)  # eighths of a line at which it is broken off


def pumped(samples: Sequence[bytes], size: int, lines: int) -> Iterator[bytes]:
    """Each pump alone; then lines of the samples, broken off, their beginning or a pump repeated, and their end."""
    for pump in PUMPS:
        yield _long(pump, size)
    known = sorted({line for sample in samples for line in sample.split(b"\n") if line})
    for line in known[:: max(1, len(known) // lines)][:lines]:
        for cut in _CUTS:
            start, rest = line[: max(1, len(line) * cut // 8)], line[len(line) * cut // 8 :]
            yield _long(start, size)
            yield _long(start + b"\n", size)
            for pump in (start[-1:], b"9", b" "):
                yield start + _long(pump, size - len(line)) + rest


def _long(piece: bytes, size: int) -> bytes:
    return (piece * (size // len(piece) + 1))[: max(size, 0)]
