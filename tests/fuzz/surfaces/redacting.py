"""Redaction: never an exception, and `triage redact` and the nodes' own module give the same bytes."""

from __future__ import annotations

import importlib.util
import io
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.bundle.secrets import planted
from tests.fuzz.samples import of_parser
from tests.fuzz.targets import FIXTURES, Target
from triage.bundle.redaction import Redactor, rules_file

_WORDS = {"user": ["someone"], "host": ["node017"]}
_KEY = b"key of a test"


def targets() -> Iterator[Target]:
    """Redaction in both places."""
    lines = [line.encode() for line, _secret in planted().values()]
    secrets = tuple(b"\n".join(lines[at : at + 3]) for at in range(0, len(lines), 3))
    yield Target("redaction", (*secrets, *of_parser("slurm")[:4], *of_parser("kubernetes")[:4]), _run, share=0.1)


@cache
def _redactors() -> tuple[Any, Any]:
    spec = importlib.util.spec_from_file_location("_redaction", FIXTURES.parent / "collectors" / "_redaction.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("_redaction", module)
    spec.loader.exec_module(module)
    return Redactor(_KEY, _WORDS, hosts=True), module.Redactor(rules_file(), _KEY, _WORDS, hosts=True)


def _run(data: bytes) -> None:
    here, there = (_redacted(each, data) for each in _redactors())
    assert here == there, "the node and triage differ"
    assert here.count(b"\n") == data.count(b"\n") or data[:2] in (b"\xff\xfe", b"\xfe\xff"), "a line is lost"


def _redacted(redactor: Any, data: bytes) -> bytes:
    sink = io.BytesIO()
    redactor.copy(io.BytesIO(data), sink)
    return sink.getvalue()
