"""What is known of a job before any node is asked, whatever scheduler said it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from triage.model.base import Record


class Answered(NamedTuple):
    """What a program said, why it did not, and whether the beginning is missing."""

    data: bytes = b""
    fault: str | None = None
    cut: bool = False


class Said(Record, frozen=True, kw_only=True):
    """An answer of a scheduler, or why there is none. path: below job/.

    ask: for answers that are many and large, the question; it is put when the bundle is written, from the seconds that
    it may take.
    """

    path: str
    data: bytes = b""
    fault: str | None = None
    ask: Callable[[float], Answered] | None = None


class Job(Record, frozen=True, kw_only=True):
    """A job as its scheduler knows it.

    nodes: hosts (or pods) to ask. outputs: files that it wrote, patterns allowed. running: whether its processes may
    still be there. environment: variables that steer it, as far as the scheduler kept them. start, end: Unix seconds.
    machines: names of the hosts below, where nodes are pods.
    """

    scheduler: str
    id: str
    name: str | None = None
    state: str | None = None
    user: str | None = None
    workdir: str | None = None
    nodes: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    running: bool = False
    environment: dict[str, str] = {}
    start: float | None = None
    end: float | None = None
    said: tuple[Said, ...] = ()
    machines: tuple[str, ...] = ()

    def request(self) -> dict[str, Any]:
        """What collectors on the nodes are told of it."""
        known: dict[str, Any] = {"id": self.id if self.scheduler == "slurm" else None, "workdir": self.workdir}
        known |= {"home": self.environment.get("HOME"), "environment": self.environment}
        return {key: value for key, value in known.items() if value}

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it."""
        known: dict[str, Any] = {"scheduler": self.scheduler, "id": self.id, "name": self.name, "state": self.state}
        known |= {"nodes": list(self.nodes), "start": self.start, "end": self.end}
        return {key: value for key, value in known.items() if value not in (None, [])}
