"""Rewritten regexes match the same lines."""

from __future__ import annotations

import re

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from triage.matching.expressions import pieces, relaxed, repeat, scannable
from triage.matching.shapes import fixed, open_repeats


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        (r"a(?P<x>\d+)", rb"a(\d)"),
        (r"foo.*", b"foo"),
        (r"(foo|bar.*)", b"(foo|bar)"),
        (r"a\\.*", rb"a\\"),
        (r"x{2,5}", b"x{2}"),
        (r"end\b", rb"end\b"),
        (r"(?:pid=(?P<pid>\d+), )?", rb"(?:pid=(\d+), )?"),
        (r"1\.*", b"1"),
        (r"[(?P<x>]+", b"[(?P<x>]"),
        ("é+", rb"(?:\xc3\xa9)+"),
    ],
)
def test_scannable(expression: str, wanted: bytes) -> None:
    assert scannable(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [(r"a(?!b(c))d", b"ad"), (r"(?<=x)y++z", b"y+z"), (r"(a)\1b", rb"(a)[^\n]*b"), (r"(?>a|b)c", b"(?:a|b)c")],
)
def test_relaxed(expression: str, wanted: bytes) -> None:
    assert relaxed(expression) == wanted


_ATOMS = st.sampled_from([r"\d", ".", "a", "b", "[ab]", "[^a]", r"\.", "(?:a|b)", "(?P<x>a)", "(a|b.)"])
_QUANTIFIERS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{2,}?", "*?"])


@given(st.lists(st.tuples(_ATOMS, _QUANTIFIERS), min_size=1, max_size=4), st.text("ab1.c", max_size=12))
def test_the_same_lines_match(parts: list[tuple[str, str]], line: str) -> None:
    expression = "".join(atom + quantifier for atom, quantifier in parts).replace("(?P<x>a)", "(?P<x>a)", 1)
    if expression.count("?P<x>") > 1:
        return
    assert "".join(pieces(expression)) == expression
    want = regex.search(expression, line) is not None
    assert (re.search(scannable(expression), line.encode()) is not None) == want
    assert (re.search(relaxed(expression), line.encode()) is not None) == want


def test_repeat() -> None:
    assert repeat("+") == (1, 1 << 20)
    assert repeat("{2,5}?") == (2, 5)
    assert repeat("{3}") == (3, 3)
    assert repeat("x") is None


@pytest.mark.parametrize(
    ("expression", "length"),
    [
        (r"foo\d+bar baz", 7), (r"(?:foo|bar) x", 5), ("(?i)[Ee]rror", 5), (r"(?P<x>abc)?def", 3), (r"\d+ \S+", 1),
        (r"Xid \((?:PCI:)?", 5), ("long text|ab", 2), (r"a(?=bcdef)", 1), ("(?:abcd)+", 4),
    ],
)  # fmt: skip
def test_fixed_part(expression: str, length: int) -> None:
    assert fixed(expression) == length


def test_open_repeats() -> None:
    assert open_repeats(r"a.*b.*c") == 2
    assert open_repeats(r"a[^\n]{0,200}?b.*") == 0
