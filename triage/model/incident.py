"""The incident graph: entities, signals on them, cause edges between them."""

from __future__ import annotations

from triage.model.base import Record
from triage.model.bundle import File, Gap
from triage.model.event import Fact, Mark, Signal
from triage.model.summary import Summary


class Rank(Record, frozen=True, kw_only=True):
    """A rank and where it runs; None is unknown."""

    rank: int
    node: str | None = None
    local_rank: int | None = None
    gpu: int | None = None
    pci: str | None = None
    uuid: str | None = None
    pid: int | None = None
    last_step: int | None = None
    last_line: tuple[str, int] | None = None


class Gpu(Record, frozen=True, kw_only=True):
    """A GPU of a node: NVML index, PCI address dddd:bb:dd, UUID."""

    node: str | None
    gpu: int | None = None
    pci: str | None = None
    uuid: str | None = None


class Placed(Record, frozen=True, kw_only=True):
    """A signal on the common time line and in an episode.

    at: seconds on the job's time line (offset of the node's clock taken out), or None; a timeout stands where it began.
    uncertainty: seconds that `at` may be off against another node's.
    order: position within its file, for files without times.
    effect_of: indexes of the signals that explain it; empty for a candidate.
    rule: id of the causality rule, or `echo`, `progress`, `outside-window`, `suppressed`, by which it was demoted.
    """

    signal: Signal
    at: float | None
    uncertainty: float
    episode: int
    effect_of: tuple[int, ...] = ()
    rule: str | None = None


class Epoch(Record, frozen=True, kw_only=True):
    """An episode: a run of the job between restarts."""

    index: int
    why: str
    file: str | None = None
    first_line: int | None = None
    last_line: int | None = None
    failed: bool = True


class Incident(Record, frozen=True, kw_only=True):
    """Everything that reasoning works on."""

    files: tuple[File, ...]
    signals: tuple[Placed, ...]
    facts: tuple[Fact, ...]
    marks: tuple[Mark, ...]
    ranks: dict[int, Rank]
    gpus: tuple[Gpu, ...]
    nodes: tuple[str, ...]
    world_size: int | None
    episodes: tuple[Epoch, ...]
    answered: int
    gaps: tuple[Gap, ...]
    summaries: tuple[Summary, ...] = ()
    start: float | None = None
    hang_start: float | None = None
    end: float | None = None
