"""Every signature of the catalogue keeps what its examples promise, by extraction and through the scanner."""

from __future__ import annotations

from functools import cache

import pytest

from triage.matching.examples import failures, seen
from triage.matching.extract import fields
from triage.matching.loading import catalogue
from triage.matching.scanner import Scanner
from triage.model.signature import Signature

ALL = list(catalogue().values())


@cache
def _scanner() -> Scanner:
    return Scanner([each for each in ALL if each.match])


@pytest.mark.parametrize("signature", ALL, ids=[each.id for each in ALL])
def test_examples(signature: Signature) -> None:
    assert list(failures(signature)) == []


@pytest.mark.parametrize("signature", ALL, ids=[each.id for each in ALL])
def test_examples_through_the_scanner(signature: Signature) -> None:
    for example in signature.examples.matches:
        assert example.facts or _found(signature, example.text), example.text
    for refusal in signature.examples.does_not_match:
        assert refusal.facts or not _found(signature, refusal.text), refusal.text
        assert seen(signature, refusal) is None


def _found(signature: Signature, text: str) -> bool:
    data = text.encode()
    for hit in _scanner().scan(data).hits:
        line = data[hit.start : hit.end].decode()
        if _scanner().signatures[hit.number].id == signature.id and fields(signature, line, text) is not None:
            return True
    return False
