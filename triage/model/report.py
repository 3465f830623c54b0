"""The report: the one result behind every renderer, and the JSON contract `triage.report/1`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from triage.model.base import Spec
from triage.model.bundle import Gap
from triage.model.postmortem import PostMortem
from triage.model.signature import Action, Check
from triage.vocabulary import Verdict


class Culprit(Spec, frozen=True, kw_only=True, omit_defaults=True):
    """One thing at fault. `gpu` is the NVML index when the map is known, else as printed (`gpu_kind`)."""

    node: str | None = None
    rank: int | None = None
    gpu: int | None = None
    gpu_kind: Literal["nvml", "cuda-ordinal"] | None = None
    pci: str | None = None
    uuid: str | None = None
    link: str | None = None
    nic: str | None = None
    port: str | None = None
    mount: str | None = None
    group: str | None = None
    why: str = ""


class Cited(Spec, frozen=True, kw_only=True):
    """A piece of evidence: where it stands and what it says. Binary sources have `at` and no line."""

    file: str
    line: int | None
    text: str
    signature: str | None = None
    time: str | None = None
    at: str | None = None


class Missing(Spec, frozen=True, kw_only=True):
    """Evidence that would decide, and the command that gets it."""

    what: str
    how: str


class Hypothesis(Spec, frozen=True, kw_only=True):
    """A cause with what speaks for it, against it, and what to do."""

    cause: str
    title: str
    confidence: float
    culprits: list[Culprit] = []
    evidence: list[Cited] = []
    against: list[str] = []
    missing: list[Missing] = []
    explains: list[str] = []
    next_check: Check | None = None
    actions: list[Action] = []
    repro: str | None = None
    playbook: str | None = None
    path: list[str] = []
    not_taken: list[str] = []
    if_not_this: list[str] = []
    means: str = ""
    why: list[str] = []


class TimelineEntry(Spec, frozen=True, kw_only=True):
    """One signal on the common time line; `time` is RFC 3339 UTC when zone and year are known, else null.

    rule: the causality rule by which it is only a consequence, or why it counts as context; null: it stands for itself.
    """

    time: str | None
    t: float | None
    uncertainty_s: float
    node: str | None
    rank: int | None
    signature: str
    role: str
    text: str
    file: str
    line: int | None
    rule: str | None = None


class Episode(Spec, frozen=True, kw_only=True):
    """One run of the job between restarts; `answered` is the one that the hypotheses are about.

    cause: of the first root cause seen in a run that failed and is not answered.
    """

    index: int
    file: str
    first_line: int | None
    last_line: int | None
    why: str
    answered: bool
    signatures: list[str] = []
    cause: str | UnsetType = UNSET


class RankEntry(Spec, frozen=True, kw_only=True):
    """What is known of a rank."""

    rank: int
    node: str | None = None
    local_rank: int | None = None
    gpu: int | None = None
    pci: str | None = None
    pid: int | None = None
    last_seen: str | None = None
    last_step: int | None = None


class Entities(Spec, frozen=True, kw_only=True):
    """Nodes and ranks of the job."""

    nodes: list[str] = []
    ranks: list[RankEntry] = []


class BundleSummary(Spec, frozen=True, kw_only=True):
    """What was opened."""

    schema: str = "triage.bundle/1"
    job: str | None = None
    files: int = 0
    bytes: int = 0
    sources: dict[str, int] = {}
    window: list[str] | None = None


class Tool(Spec, frozen=True, kw_only=True):
    """Version of the program and digest of its signatures and playbooks."""

    version: str
    content: str


class Report(Spec, frozen=True, kw_only=True):
    """The answer. `postmortem` is there only when `triage report` wrote it."""

    schema: str
    tool: Tool
    verdict: Verdict
    hypotheses: list[Hypothesis]
    episodes: list[Episode]
    gaps: list[Gap]
    timeline: list[TimelineEntry]
    entities: Entities
    bundle: BundleSummary
    notes: list[str] = []
    postmortem: PostMortem | UnsetType = UNSET
