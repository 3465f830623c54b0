"""Playbooks and causes, loaded once."""

from __future__ import annotations

from functools import cache

from triage import content
from triage.errors import ContentError
from triage.model.playbook import Playbook
from triage.model.signature import Cause


@cache
def playbooks() -> dict[str, Playbook]:
    """All playbooks by id. Raises ContentError with every fault of every file."""
    found, faults = {}, []
    for path, playbook in content.load_all("playbooks", Playbook):
        if playbook.id != path.stem:
            faults.append(f"{path}:1: id {playbook.id!r} must be the file's name, {path.stem!r}")
        found[playbook.id] = playbook
    if faults:
        raise ContentError(faults)
    return {name: found[name] for name in sorted(found)}


@cache
def causes() -> dict[str, Cause]:
    """The vocabulary of root causes by id."""
    return {cause.id: cause for cause in content.load(content.data("causes.yaml"), list[Cause])}
