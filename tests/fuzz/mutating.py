"""Inputs that are almost evidence: samples of a parser, cut, spliced, repeated, nested and spoilt.

Everything is drawn from the `random.Random` that is handed in, so that a number names an input for ever.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

LARGEST = 8 << 10  # bytes of an input; a few become LARGE
LARGE = 1 << 20
_NUMBER = re.compile(rb"\d+(?:\.\d+)?")
_NUMBERS = (
    b"0", b"-1", b"1e309", b"-0.0", b"NaN", b"Infinity", b"2147483648", b"-9223372036854775809",
    b"18446744073709551615", b"18446744073709551616", b"9" * 30, b"9" * 5_000, b"0x7fffffff", b"1.7976931348623157e308",
    b"00", b"1_000", b"\xd9\xa3", b"", b"4294967295",
)  # fmt: skip
_WORDS = (
    b"\0", b"\x1b[31m", b"\x1b]0;t\x07", b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", "\u202e\u2066".encode(), b"\r",
    b"\n", b"\t", b"\x08", b'"', b"'", b"{{ 7*7 }}", b"<script>", b"%s%n", b"\\ud800", b"\\u0000", b"../../etc/passwd",
    b"--help",
    "\N{KELVIN SIGN}\u0130\u2028\x85".encode(), b"=cmd()", b"null", b"[", b"]", b"{", b"}", b":", b",", b"|", b"\\",
    b"N/A", b"[Unknown Error]", b"]]>", b"&a;", b"<!ENTITY a 'b'>", b"<![CDATA[", b"-" * 70, b" " * 300, b"rank",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1 << 31, 1 << 63, -(1 << 63) - 1, 1 << 64, 10**25, 0.5, float("inf"), float("nan"), -0.0,
    1e308, "", "0", "nan", "-1", "\ud800", "\0", "\u202e", "9" * 400, "x" * 5_000, [], {}, [[]], [None], {"": None},
    [1, "a", None, {}], {"a": {"b": []}}, "2026-13-45T99:99:99Z", "99999-01-01",
)  # fmt: skip
_OPENERS = (b"[", b'{"a":', b"(", b"<a>", b"- ", b"a: ", b"  ", b"{", b"\\", b"(l", b"]", b"'\n")


def mutated(random: Random, samples: Sequence[bytes]) -> bytes:
    """One of the samples after some changes, of its structure when it has one that is known."""
    data = random.choice(samples)
    if random.random() < 0.35 and (tree := _tree(data)) is not None:
        data = _written(random, tree, data)
        if random.random() < 0.7:
            return data
    for _ in range(min(1 + int(random.expovariate(0.5)), 12)):
        data = random.choice(_CHANGES)(random, data, samples)
    most = LARGEST if random.random() > 0.0005 else LARGE
    return data[:most]


# ---- changes of bytes ----


def _span(random: Random, data: bytes, most: int = 64) -> tuple[int, int]:
    start = random.randrange(len(data) + 1)
    return start, min(len(data), start + random.randint(0, most))


def _flip(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return b"\0"
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]


def _byte(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]


def _cut(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] if random.random() < 0.7 else data[at:]


def _drop(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(random, data)
    return data[:start] + data[end:]


def _double(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(random, data, 400)
    return data[:end] + data[start:end] * random.choice((1, 2, 20)) + data[end:]


def _word(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(random, data, random.choice((0, 0, 1, 8)))
    return data[:start] + random.choice(_WORDS) + data[end:]


def _number(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    found = _NUMBER.search(data, random.randrange(len(data) + 1)) or _NUMBER.search(data)
    return data[: found.start()] + random.choice(_NUMBERS) + data[found.end() :] if found else data


def _splice(random: Random, data: bytes, samples: Sequence[bytes]) -> bytes:
    other = random.choice(samples)
    start, end = _span(random, other, 2_000)
    at, to = _span(random, data, random.choice((0, 0, 2_000)))
    return data[:at] + other[start:end] + data[to:]


def _lines(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A line repeated, dropped, joined with the next, or changed with another's place."""
    lines = data.split(b"\n")
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    kind = random.randrange(5)
    if kind == 0:
        lines[at:at] = [lines[at]] * random.choice((1, 3, 100))
    elif kind == 1:
        del lines[at]
    elif kind == 2:
        lines[at : at + 2] = [b"".join(lines[at : at + 2])]
    elif kind == 3:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines = lines[at:] + lines[:at]
    return b"\n".join(lines)


def _nest(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(_OPENERS) * random.choice((3, 40, 1_500)) + data[at:]


def _ends(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    end = random.choice((b"\r\n", b"\r", b" ", b"\n\n", b"\0\n"))
    return data.replace(b"\n", end, random.choice((1, 5, -1)))


def _wide(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """As UTF-16 with and without a mark; rarely, for it leaves nothing that a text parser knows."""
    if random.random() < 0.9:
        return _word(random, data, _)
    return data.decode("latin-1").encode(random.choice(("utf-16", "utf-16-le", "utf-32-be")))


Change = Callable[[Random, bytes, Sequence[bytes]], bytes]
_CHANGES: tuple[Change, ...] = (
    _flip, _byte, _cut, _drop, _double, _word, _word, _number, _number, _splice, _lines, _lines, _nest, _ends, _wide,
)  # fmt: skip

# ---- changes of trees ----

_TREES: dict[bytes, Any] = {}


def _tree(data: bytes) -> Any:
    """The document that a sample is (JSON, or a pickle of plain data), or None; each sample is parsed once."""
    if data not in _TREES:
        try:
            _TREES[data] = pickle.loads(data) if data[:1] == b"\x80" else json.loads(data)  # samples are our own
        except Exception:
            _TREES[data] = None
    return _TREES[data]


def _written(random: Random, tree: Any, data: bytes) -> bytes:
    for _ in range(random.choice((1, 1, 2, 5))):
        tree = changed(random, tree)
    if data[:1] == b"\x80":
        return pickle.dumps(tree, random.choice((2, 4, 5)))
    return json.dumps(tree, ensure_ascii=random.random() < 0.8, indent=random.choice((None, None, 1))).encode(
        "utf-8", "surrogatepass"
    )


def changed(random: Random, tree: Any) -> Any:
    """A copy of a tree with one value replaced, moved, dropped or repeated; what is not touched is shared."""
    if isinstance(tree, dict) and tree and random.random() < 0.9:
        key = random.choice(list(tree))
        return _changed_entry(random, tree, key)
    if isinstance(tree, (list, tuple)) and tree and random.random() < 0.9:
        return _changed_item(random, list(tree), random.randrange(len(tree)))
    return random.choice(_VALUES)


def _changed_entry(random: Random, tree: dict[Any, Any], key: Any) -> dict[Any, Any]:
    kind = random.random()
    if kind < 0.1:
        return {name: value for name, value in tree.items() if name != key}
    if kind < 0.15:
        return tree | {random.choice(("", "name", "0", "\ud800", "x" * 300)): tree[key]}
    if kind < 0.2:
        return tree | {key: tree[random.choice(list(tree))]}
    return tree | {key: changed(random, tree[key])}


def _changed_item(random: Random, tree: list[Any], at: int) -> list[Any]:
    kind = random.random()
    if kind < 0.1:
        return tree[:at] + tree[at + 1 :]
    if kind < 0.2:
        return tree[:at] + [tree[at]] * random.choice((2, 5, 50)) + tree[at + 1 :]
    if kind < 0.25:
        return tree[::-1]
    return [*tree[:at], changed(random, tree[at]), *tree[at + 1 :]]
