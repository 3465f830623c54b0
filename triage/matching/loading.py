"""The catalogue: every signature, by id."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from triage import content
from triage.errors import ContentError
from triage.model.signature import Signature


@cache
def catalogue() -> dict[str, Signature]:
    """All signatures that are not retired, by id, sorted. Raises ContentError with every fault of every file."""
    faults, found = [], {}
    for path, signature in content.load_all("signatures", Signature):
        if signature.id != identity(path):
            faults.append(f"{path}:1: id {signature.id!r} must be the path below signatures/, {identity(path)!r}")
        found[signature.id] = signature
    if faults:
        raise ContentError(faults)
    return {name: found[name] for name in sorted(found) if found[name].status != "retired"}


def identity(path: Path) -> str:
    """`.../signatures/gpu/foo.yaml` -> `gpu/foo`."""
    return f"{path.parent.name}/{path.stem}"
