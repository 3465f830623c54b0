"""JSON whose text cannot be written again."""

from __future__ import annotations

import json

import pytest

from triage.model import json_text


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (rb'"a\ud800b"', "a\ufffdb"),
        (rb'"\uDC00\ud800"', "\ufffd\ufffd"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\\ud800"', r"\ud800"),
        (rb'"\\\ud800"', "\\\ufffd"),
        (rb'["\ud800\u0041"]', ["\ufffdA"]),
        (b'\xff\xfe"\x00x\x00"\x00', "x"),
    ],
)
def test_halves_of_pairs(given: bytes, found: object) -> None:
    assert json_text.loads(given) == found
    json.dumps(found, ensure_ascii=False).encode()


@pytest.mark.parametrize("data", [b"", b"{", b'"\xff"', b'"\xed\xa0\x80"', b"9" * 5_000])
def test_what_is_none(data: bytes) -> None:
    with pytest.raises(ValueError):
        json_text.loads(data)
