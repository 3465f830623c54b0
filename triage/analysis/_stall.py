"""The result that each way of looking at a hang gives."""

from __future__ import annotations

import dataclasses
from typing import Any

from triage.model.event import Where


@dataclasses.dataclass(frozen=True)
class Stall:
    """A hang: its kind, the ranks at fault (empty when none is), the operation that the others wait in.

    places: where each culprit's own state stands; why: one line for each culprit.
    evidence: places that prove it with the text that stands there (empty for binary sources), best first.
    """

    kind: str
    culprits: tuple[int, ...] = ()
    op: str | None = None
    seq: int | None = None
    group: str | None = None
    frame: str | None = None
    waiting: int = 0
    summary: str = ""
    places: dict[int, Where] = dataclasses.field(default_factory=dict)
    why: dict[int, str] = dataclasses.field(default_factory=dict)
    evidence: tuple[tuple[Where, str], ...] = ()

    def but(self, **changes: Any) -> Stall:
        """The same with some fields changed."""
        return dataclasses.replace(self, **changes)
