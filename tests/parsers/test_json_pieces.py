"""Traces read in pieces: whatever stands in them and wherever a block ends, as if they were read whole."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers.test_kineto import TRACE, read
from triage.model.bundle import Document, File
from triage.parsers import _json_pieces, kineto
from triage.parsers._json_pieces import Pieces, Place, cut

# Texts that look like places to cut, and values that hold objects after objects.
TEXTS = st.one_of(st.sampled_from(['}, {"', "]}", '"a": [', "\\", '\\"', '"traceEvents": [']), st.text(max_size=6))
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(-9, 9), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)
OTHERS = st.dictionaries(TEXTS.filter(lambda name: name not in ("traceEvents", "")), VALUES, max_size=2)


def pieces(data: bytes, block: int, monkeypatch: pytest.MonkeyPatch) -> Pieces:
    monkeypatch.setattr(_json_pieces, "BLOCK", block)
    return Pieces(io.BytesIO(data), "traceEvents", msgspec.json.decode, lambda item: item)


@settings(max_examples=80, deadline=None)
@given(
    head=OTHERS, elements=st.lists(VALUES, max_size=6), tail=OTHERS, block=st.integers(1, 60),
    indent=st.sampled_from([None, 1]),
)  # fmt: skip
def test_every_element_and_every_other_member(
    head: dict[str, Any], elements: list[Any], tail: dict[str, Any], block: int, indent: int | None
) -> None:
    whole = {**head, "traceEvents": elements, **{f"{name} ": value for name, value in tail.items()}}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_json_pieces, "NAMES", 10_000)
        read = pieces(json.dumps(whole, indent=indent).encode(), block, patched)
        assert [item for some in read for item in some] == elements
    read.beside.pop("")
    assert read.beside == {name: value for name, value in whole.items() if name != "traceEvents"}


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'{"a": 1}, {"b": [1, 2]}, {"c"', Place(23, -1)),
        (b'{"a": "}, {"}', Place(-1, -1)),
        (b'{"a": "\\"}, {', Place(-1, -1)),
        (b'1, [2, 3]], "name": 5}', Place(1, 9)),
        (b'1, "ends not, 2', Place(1, -1)),
    ],
)
def test_where_to_cut(data: bytes, place: Place) -> None:
    assert cut(data) == place


def test_one_trace_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    data, whole = json.dumps(TRACE, indent=1).encode(), read(TRACE)
    for block in (1, 7, 64, 300, len(data)):
        monkeypatch.setattr(_json_pieces, "BLOCK", block)
        file = File(path="trace.json", size=len(data))
        streamed = Document(file=file, data=b"", unpickle=bytes, stream=io.BytesIO(data))
        assert list(kineto.facts(streamed)) == whole


@pytest.mark.parametrize(
    "data",
    [
        b'{"traceEvents": [{"a": 1}, {"b": ',
        b'{"traceEvents": [{"a": 1}}',
        b'{"traceEvents": [{"a": 1}], "b": ',
        b'{"traceEvents": [{"a": 1} {"b": 2}]}',
        b'{"a": "' + b'\\"traceEvents\\": [' * 9,
        b'{"a": "' + b'"traceEvents": [' * 99 + b"]}",
    ],
)
def test_what_is_no_json_is_said(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r".+"):
        list(pieces(data, 16, monkeypatch))


def test_one_element_may_not_take_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json_pieces, "LARGEST", 1000)
    endless = b'{"traceEvents": [{"a": "' + b"x" * 5000 + b'"}]}'
    with pytest.raises(ValueError, match="larger than"):
        list(pieces(endless, 100, monkeypatch))
    with pytest.raises(ValueError, match="no events"):
        list(pieces(b'{"x": "' + b"x" * 5000 + b'"}', 100, monkeypatch))
