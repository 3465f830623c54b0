"""Small incidents made by hand for tests of the graph and of reasoning."""

from __future__ import annotations

from typing import Any

from triage.graph.build import build
from triage.model.base import Scalar
from triage.model.bundle import File
from triage.model.event import Event, Fact, Mark, Signal, Stamp, Where
from triage.model.incident import Incident
from triage.model.signature import Examples, Signature


def signature(identity: str = "gpu/xid-79", **changes: Any) -> Signature:
    """A signature; by default a strong fatal root cause."""
    values: dict[str, Any] = {
        "id": identity,
        "title": identity,
        "means": "for a test",
        "layer": identity.split("/")[0],
        "role": "root-cause",
        "severity": "fatal",
        "sources": ["torch_log"],
        "cause": "gpu/fallen-off-bus",
        "examples": Examples(matches=[], does_not_match=[]),
    }
    return Signature(**values | changes)


def event(
    file: str = "a.log", line: int = 1, at: float | None = None, kind: str = "utc", text: str = "x", **known: Any
) -> Event:
    """An event; `at` are seconds of a stamp of `kind`."""
    time = None if at is None else Stamp(seconds=at, kind=kind)  # type: ignore[arg-type]
    where = Where(file=file, line=line)
    return Event(where=where, text=text, body=text, source=known.pop("source", "torch_log"), time=time, **known)


def signal(of: Signature, where: Event, fields: dict[str, Scalar] | None = None, **entity: Scalar) -> Signal:
    """A signal on the event's own rank and node, and on what else `entity` says."""
    own: dict[str, Scalar] = {
        key: value for key in ("rank", "node", "pid") if (value := getattr(where, key)) is not None
    }
    return Signal(signature=of, event=where, fields=fields or {}, entity=own | entity)


def step(number: int, where: Event, **fields: Scalar) -> Mark:
    """A training step mark."""
    return Mark(kind="step", event=where, fields={"step": number, **fields})


def incident(
    signals: list[Signal],
    marks: list[Mark] | None = None,
    facts: list[Fact] | None = None,
    files: list[File] | None = None,
) -> Incident:
    """The built graph."""
    paths = {each.event.where.file for each in signals} | {each.event.where.file for each in marks or []}
    known = files or [File(path=path, size=1, sources=("torch_log",)) for path in sorted(paths)]
    return build(known, signals, marks or [], facts or [], [])
