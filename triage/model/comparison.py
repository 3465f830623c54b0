"""What a comparison says: `triage.compare/1` of two runs, `triage.scaling/1` of runs of several sizes."""

from __future__ import annotations

from typing import Literal

from triage.model.base import Spec

Kind = Literal["version", "environment", "topology", "setting"]
Result = Literal["fixed", "better", "no difference", "worse", "not comparable"]
Move = Literal["better", "no difference", "worse", "unknown"]


class Change(Spec, frozen=True, kw_only=True):
    """Something that is not as it was. None: it is not set there."""

    kind: Kind
    name: str
    before: str | None
    after: str | None


class Moved(Spec, frozen=True, kw_only=True, omit_defaults=True):
    """One quantity on both sides.

    ratio: after over before; low, high: its 95 % interval, absent where one value a side is all there is.
    result: `unknown` without an interval. steps: values that the means are of, before and after.
    """

    name: str
    unit: str
    before: float
    after: float
    result: Move
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    steps: list[int] = []


class Device(Spec, frozen=True, kw_only=True):
    """A reading of one GPU that is not as it was. result: `unknown` where neither value is the better one."""

    device: str
    reading: str
    before: str
    after: str
    result: Move


class Errors(Spec, frozen=True, kw_only=True):
    """How often a signature was seen."""

    signature: str
    before: int
    after: int


class Comparison(Spec, frozen=True, kw_only=True):
    """Two runs.

    one_change: exactly one thing changed; null when nothing is known of either run's settings.
    known_once: what only one side's evidence tells, so that nobody knows whether it changed.
    hardware: what GPUs that both sides read say otherwise; it has no part in the result.
    watched_for: the direction that got the larger share of the 5 % that an interval may miss.
    """

    schema: str = "triage.compare/1"
    result: Result
    why: str
    before: str
    after: str
    watched_for: Literal["worse", "better"]
    one_change: bool | None
    changes: list[Change]
    known_once: list[str]
    moved: list[Moved]
    errors: list[Errors]
    hardware: list[Device] = []
    causes_before: list[str]
    causes_after: list[str]
    notes: list[str]


class Eaten(Spec, frozen=True, kw_only=True):
    """A part of the step: what it takes here, what it would take under linear scaling, ms of each step."""

    phase: str
    ms: float
    linear_ms: float
    lost_ms: float


class Size(Spec, frozen=True, kw_only=True, omit_defaults=True):
    """A run of one size beside the smallest. Efficiency 1 is linear; low, high: its 95 % interval."""

    name: str
    ranks: int
    step_ms: float
    speed_up: float
    linear: float
    efficiency: float
    low: float | None = None
    high: float | None = None
    phases: list[Eaten] = []
    waits_ms: float | None = None


class Scaling(Spec, frozen=True, kw_only=True):
    """Runs by size. mode: `weak` when each rank does the same work at all sizes, `strong` when all together do."""

    schema: str = "triage.scaling/1"
    mode: Literal["weak", "strong"]
    assumed: bool
    sizes: list[Size]
    why: str
    notes: list[str]
