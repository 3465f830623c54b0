"""What a look-up gives: entries of the tables and of the content, told in one form."""

from __future__ import annotations

from typing import Literal

from triage.model.base import Spec
from triage.model.signature import Action, Check, Confusable
from triage.vocabulary import Role, Severity

Kind = Literal[
    "Xid", "SXid", "NVLink 5", "exit code", "signal", "environment variable", "RDMA status", "RDMA vendor error",
    "job state", "cause", "signature", "playbook",
]  # fmt: skip


class ExitCode(Spec, frozen=True, kw_only=True):
    """A row of exit_codes.yaml: what a process ended with. `signal` when a signal ended it."""

    code: int
    name: str
    means: str
    look: str
    signal: int | None = None
    cause: str | None = None


class RdmaStatus(Spec, frozen=True, kw_only=True):
    """A row of rdma_status.yaml: a completion status of RDMA verbs, or a vendor error that goes with one.

    signature: id of the signature that recognises it in a line.
    """

    name: str
    means: str
    look: str
    status: int | None = None
    vendor: int | None = None
    cause: str | None = None
    consequence: bool = False
    signature: str | None = None


class State(Spec, frozen=True, kw_only=True):
    """A row of states.yaml: a state of a job, step, node or pod."""

    system: str
    state: str
    means: str
    cause: str | None = None


class Entry(Spec, frozen=True, kw_only=True):
    """One thing that was found.

    kind, name: what it is. role: whether it names a root cause or follows from something else, where that is known.
    cause: the cause that it speaks for. actions: ours; vendor_action, vendor_follow_up: the vendor's own words.
    look: where to look next, in words. notes: further facts by heading. follows: what tends to follow from it.
    line, fields: the line of a log that it was found in, and the values in it.
    """

    kind: Kind
    name: str
    title: str
    means: str
    role: Role | None = None
    severity: Severity | None = None
    cause: str | None = None
    cause_title: str | None = None
    look: str | None = None
    next_check: Check | None = None
    actions: list[Action] = []
    vendor_action: str | None = None
    vendor_follow_up: str | None = None
    follows: list[str] = []
    history: list[str] = []
    notes: dict[str, str] = {}
    confused_with: list[Confusable] = []
    playbooks: list[str] = []
    signatures: list[str] = []
    line: str | None = None
    fields: dict[str, str | int | float] = {}


class Answer(Spec, frozen=True, kw_only=True):
    """What is known about the words. found: best first; empty when nothing is known, and then `nearest` may help.

    further: names that fit as well and are not told here.
    """

    query: str
    found: list[Entry] = []
    further: list[str] = []
    nearest: list[str] = []
