"""What a live check finds: figures, stages and the outcome, the contract `triage.check/1`."""

from __future__ import annotations

from typing import Literal

from triage.model.base import Spec

State = Literal["passed", "failed", "unknown", "told", "not run"]


class Figure(Spec, frozen=True, kw_only=True, omit_defaults=True):
    """One thing measured.

    on: `gpu 3`, `gpu 0 > gpu 1`, `node017 + node018`, `all`. unit: of value, reach, floor and peers.
    reach: what a healthy card of this model gets. floor: below it the figure fails. peers: median of the others.
    state: `unknown` when nothing says what it should be, or when it could not be read; never a pass.
    `told`: for the reader, judged by nothing.
    """

    name: str
    on: str
    state: State
    value: float | None = None
    unit: str = ""
    reach: float | None = None
    floor: float | None = None
    peers: float | None = None
    why: str = ""


class Stage(Spec, frozen=True, kw_only=True, omit_defaults=True):
    """A stage: `gpu`, `node` or `nodes`. It fails with any figure that fails, and when a child failed (`why`)."""

    name: str
    title: str
    state: State
    figures: list[Figure] = []
    why: str = ""
    seconds: float | None = None


class Outcome(Spec, frozen=True, kw_only=True):
    """All stages in order; those behind a failed one were not run."""

    schema: str = "triage.check/1"
    state: State
    node: str
    gpus: list[str]
    stages: list[Stage]


class Raw(Spec, frozen=True, kw_only=True, omit_defaults=True):
    """One line that a child process wrote. ok: the child's own verdict on what needs no expectation, else absent."""

    name: str
    on: str = ""
    value: float | None = None
    unit: str = ""
    ok: bool | None = None
    text: str = ""
