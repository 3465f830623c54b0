"""Does everything that a signature names exist?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from triage import content
from triage.model.signature import Cause, Signature
from triage.vocabulary import sources

Fault = tuple[str, str]


class Known(NamedTuple):
    """What may be named. `signatures` maps ids to records, or None for files with faults of form."""

    signatures: dict[str, Signature | None]
    causes: tuple[str, ...]
    playbooks: tuple[str, ...]
    sources: tuple[str, ...]

    @classmethod
    def of(cls, signatures: dict[str, Signature | None]) -> Known:
        """Everything that the content folders and the program hold."""
        playbooks = tuple(sorted(path.stem for path in content.files("playbooks")))
        return cls(signatures, causes(), playbooks, sources())


@cache
def causes() -> tuple[str, ...]:
    """Ids of the closed list of causes."""
    return tuple(cause.id for cause in content.load(content.data("causes.yaml"), list[Cause]))


def faults(signature: Signature, known: Known) -> Iterator[Fault]:
    """Every name that does not exist, with the nearest that does, and names that make no sense where they stand."""
    ids = tuple(known.signatures)
    for at, name in _named(signature):
        if name == signature.id:
            yield at, f"{name!r} is the signature itself"
        elif name not in known.signatures:
            yield at, f"unknown signature {name!r}{content.nearest(name, ids)}"
    if signature.cause is not None and signature.cause not in known.causes:
        yield "cause", f"unknown cause {signature.cause!r}{content.nearest(signature.cause, known.causes)}"
    if signature.playbook is not None and signature.playbook not in known.playbooks:
        yield (
            "playbook",
            f"unknown playbook {signature.playbook!r}{content.nearest(signature.playbook, known.playbooks)}",
        )
    for index, source in enumerate(signature.sources):
        if source not in known.sources:
            yield f"sources[{index}]", f"unknown source {source!r}{content.nearest(source, known.sources)}"
    yield from _senseless(signature, known)


def _named(signature: Signature) -> Iterator[tuple[str, str]]:
    for key in ("suppresses", "overlaps"):
        yield from ((f"{key}[{index}]", name) for index, name in enumerate(getattr(signature, key)))
    yield from ((f"confused_with[{index}].id", other.id) for index, other in enumerate(signature.confused_with))


def _senseless(signature: Signature, known: Known) -> Iterator[Fault]:
    if not signature.sources:
        yield "sources", "needs at least one source"
    for index, name in enumerate(signature.suppresses):
        other = known.signatures.get(name)
        if other is not None and signature.id in other.suppresses and signature.id != name:
            yield f"suppresses[{index}]", f"{name!r} suppresses this one too: neither would be seen"
    for key in ("suppresses", "overlaps", "covers", "sources"):
        names = getattr(signature, key)
        yield from ((key, f"{name!r} stands twice") for name in sorted(set(names)) if names.count(name) > 1)
