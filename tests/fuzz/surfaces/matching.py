"""Lines through the scanner and every signature, and evidence from end to end: what `triage explain` does."""

from __future__ import annotations

import io
from collections.abc import Iterator

import msgspec

from tests.fuzz.samples import examples
from tests.fuzz.targets import Target
from triage.bundle.opening import open_evidence
from triage.matching.extract import fields
from triage.matching.loading import catalogue
from triage.parsers import parsers, recognise
from triage.pipeline import reason, understand
from triage.report.language import words
from triage.report.render import json, md, text


def targets() -> Iterator[Target]:
    """Fields of each signature, and whole reports."""
    samples = tuple(sample for source in parsers() for sample in examples(source))
    yield Target("fields", samples, _fields, share=0.03)
    yield Target("explain", samples, _explained, share=0.002)


def _fields(data: bytes) -> None:
    """The signatures of one line in turn: as if the scanner had named the line."""
    lines = data[:4_096].decode("utf-8", "replace").split("\n")[:3]
    some = list(catalogue().values())
    for at, line in enumerate(lines):
        for signature in some[(len(data) + at) % 40 :: 40]:
            found = fields(signature, line, "\n".join(lines[at:]))
            msgspec.json.encode(found)


def _explained(data: bytes) -> None:
    with open_evidence(["-"], stdin=io.BytesIO(data), recognise=recognise) as evidence:
        report = reason(understand(evidence))
    json.render(report)
    for module in (text, md):
        shown = module.render(report, 1, 100, words("en"))
        assert not any(letter in shown for letter in "\x1b\0\x07\u202e"), "a control character reaches the reader"
