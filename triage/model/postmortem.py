"""The post-mortem: claims, each with the places that it rests on. Written to JSON as a part of the report."""

from __future__ import annotations

from triage.model.base import Spec
from triage.vocabulary import Risk


class Source(Spec, frozen=True, kw_only=True, omit_defaults=True):
    """A place in the evidence. `line` counts from 1; binary sources have `at` instead."""

    file: str
    line: int | None = None
    at: str | None = None


class Claim(Spec, frozen=True, kw_only=True):
    """A sentence and what it rests on."""

    text: str
    sources: list[Source] = []


class Impact(Spec, frozen=True, kw_only=True):
    """What it cost. Null is unknown.

    ranks: processes of the job, one GPU each. lost_s: seconds from the last progress (or, when no progress was logged,
    from the first failure: `since` says which) to the end. gpu_hours: ranks x lost_s / 3600.
    """

    ranks: int | None = None
    since: str | None = None
    lost_s: float | None = None
    gpu_hours: float | None = None
    claims: list[Claim] = []


class Task(Spec, frozen=True, kw_only=True):
    """Something to do; owner and due date are for the people who read it."""

    do: str
    risk: Risk = "safe"
    owner: str = ""
    due: str = ""


class Exhibit(Spec, frozen=True, kw_only=True):
    """A cited line with the lines around it, as `[number, text]`."""

    file: str
    line: int | None
    text: str
    at: str | None = None
    signature: str | None = None
    title: str = ""
    context: list[tuple[int, str]] = []


class PostMortem(Spec, frozen=True, kw_only=True):
    """A draft for people to complete; every sentence of it that claims something has sources."""

    schema: str = "triage.postmortem/1"
    title: str
    summary: list[Claim]
    impact: Impact
    root_cause: list[Claim] = []
    ruled_out: list[Claim] = []
    factors: list[Claim] = []
    unseen: list[Claim] = []
    actions: list[Task] = []
    appendix: list[Exhibit] = []
