"""Small helpers to make evidence and incidents in tests."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

from triage.model.bundle import Document, File
from triage.model.event import Event, Fact, Mark, Signal, Where
from triage.model.incident import Incident, Placed, Rank
from triage.model.signature import Examples, Signature
from triage.parsers import parser


def document(data: bytes, path: str = "file", rank: int | None = None) -> Document:
    """A document of our own making: only here may it be unpickled without limits."""

    def unpickle(raw: bytes) -> Any:
        try:
            return pickle.loads(raw)
        except Exception as error:
            raise ValueError(str(error)) from error

    return Document(file=File(path=path, size=len(data), rank=rank), data=data, unpickle=unpickle)


def facts(source: str, data: bytes, path: str = "file", rank: int | None = None) -> list[Fact]:
    """What a parser says of the bytes."""
    return list(parser(source).facts(document(data, path, rank)))


def named(found: Iterable[Fact], name: str) -> list[Any]:
    """Values of the facts of a name."""
    return [fact.value for fact in found if fact.name == name]


def incident(
    found: Iterable[Fact] = (),
    signals: Iterable[Placed] = (),
    marks: Iterable[Mark] = (),
    ranks: dict[int, Rank] | None = None,
    world_size: int | None = None,
) -> Incident:
    """An incident of one episode."""
    return Incident(
        files=(),
        signals=tuple(signals),
        facts=tuple(found),
        marks=tuple(marks),
        ranks=ranks or {},
        gpus=(),
        nodes=(),
        world_size=world_size,
        episodes=(),
        answered=0,
        gaps=(),
    )


def signal(
    name: str, text: str = "", rank: int | None = None, line: int = 1, role: str = "symptom", **fields: Any
) -> Placed:
    """A signature seen in rank<N>.log."""
    signature = Signature(
        id=name,
        title=name,
        means="",
        layer=name.split("/")[0],
        role=role,
        severity="fatal",
        sources=["torch_log"],  # type: ignore[arg-type]
        examples=Examples(matches=[], does_not_match=[]),
    )
    event = Event(where=Where(file=f"rank{rank}.log", line=line), text=text, body=text, source="torch_log", rank=rank)
    return Placed(signal=Signal(signature=signature, event=event, fields=fields), at=None, uncertainty=0.0, episode=0)


def step(number: int, text: str = "", rank: int | None = None, file: str = "train.log", **fields: Any) -> Mark:
    """A step line."""
    event = Event(where=Where(file=file, line=number + 1), text=text, body=text, source="training_log", rank=rank)
    return Mark(kind="step", event=event, fields={"step": number, **fields})
