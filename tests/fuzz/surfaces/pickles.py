"""The child that loads pickles, as the pipeline uses it: what it may answer is plain data or a reason."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.fuzz.samples import of_parser
from tests.fuzz.targets import Target
from triage.bundle.workers import Bounds, Unpickler
from triage.model.bundle import Rows


def targets() -> Iterator[Target]:
    """The child alone; the parsers of dumps and snapshots use it as well."""
    pickles = tuple(data for data in of_parser("flight_recorder") if data[:1] == b"\x80")
    yield Target("unpickling", pickles, _run, share=0.5)


@cache
def _child() -> Unpickler:
    child = Unpickler(Bounds(memory=1 << 30, cpu=5, wall=20, result=64 << 20))
    atexit.register(child.close)
    return child


def unpickled(data: bytes) -> Any:
    """The plain data of a pickle. Raises ValueError with the reason."""
    return _child().load(data)


def unpickled_rows(data: bytes, rows: Rows, kind: type) -> tuple[Any, list[Any]]:
    """A part of a pickle. Raises ValueError with the reason."""
    return _child().rows(data, rows, kind)


def _run(data: bytes) -> None:
    try:
        unpickled(data)
    except ValueError as error:
        assert str(error).startswith("the pickle cannot be read: "), error
