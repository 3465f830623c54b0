"""What inputs are made from: fixtures of a source, quiet logs, and the lines that signatures give as examples."""

from __future__ import annotations

import ast
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

from tests.fuzz.targets import FIXTURES, SAMPLE, sampled
from triage.matching.loading import catalogue

_TEXT = 60  # bytes: shorter texts in tests are names and parts of lines
_LINES = 40  # examples of signatures in one sample


@cache
def of_parser(source: str) -> tuple[bytes, ...]:
    """Samples of a source: fixtures, quiet logs, examples of signatures, texts of its tests; an empty one without."""
    found = sampled(FIXTURES / "parsers" / source, FIXTURES / "quiet" / source) + examples(source) + tested(source)
    return (found + ((export(),) if source == "nsys" else ())) or (b"",)


@cache
def examples(source: str) -> tuple[bytes, ...]:
    """The lines that signatures of a source match, some dozens in one sample."""
    lines = [
        example.text
        for signature in catalogue().values()
        if source in signature.sources
        for example in signature.examples.matches
        if example.text
    ]
    return tuple("\n".join(lines[at : at + _LINES]).encode() for at in range(0, len(lines), _LINES))


def tested(source: str) -> tuple[bytes, ...]:
    """The longer texts in the tests of a parser: what it reads, mostly."""
    path = FIXTURES.parent / "tests" / "parsers" / f"test_{source}.py"
    if not path.exists():
        return ()
    values = (node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant))
    texts = (value if isinstance(value, bytes) else str(value).encode() for value in values)
    return tuple(text[:SAMPLE] for text in sorted(set(texts)) if len(text) > _TEXT)


@cache
def export() -> bytes:
    """A small export of Nsight Systems: two steps, each with a wait, a launch, a kernel and a copy."""
    with tempfile.TemporaryDirectory() as folder:
        base = sqlite3.connect(Path(folder) / "export.sqlite")
        base.executescript("""
            PRAGMA page_size = 512;
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, shortName INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, nameId INTEGER);
            CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER);
            INSERT INTO StringIds VALUES (1, 'gemm_kernel'), (2, 'cudaLaunchKernel'), (3, 'dataload');
            INSERT INTO NVTX_EVENTS VALUES (1000, 9000, 59, 'step 1', NULL), (9000, 19000, 59, 'step 2', 3);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1500, 1600, 2), (9500, 9600, 2);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 8000, 0, 1), (10000, 18000, 1, 1);
            INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (8000, 8500, 0);
        """)
        base.close()
        return (Path(folder) / "export.sqlite").read_bytes()
