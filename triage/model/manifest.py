"""The manifest of a bundle as collectors write it, the contract `triage.bundle/1`.

It describes what is written. What is read is evidence and is never taken at its word (`bundle/manifest.py`). Unknown
fields may come within a major version, so readers must let them pass.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from triage.model.base import Record

Told = list[str] | bool  # the files or programs that it is about, or the whole


class ManifestJob(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The job as its scheduler knows it. scheduler: slurm, k8s, ssh, local. start, end: Unix seconds."""

    scheduler: str
    id: str
    name: str | None = None
    state: str | None = None
    nodes: list[str] = []
    start: float | None = None
    end: float | None = None


class ManifestWindow(Record, frozen=True, kw_only=True):
    """What was asked for, in Unix seconds; null: open on that side."""

    since: float | None
    until: float | None


class ManifestNode(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A node that was asked. clock_offset_s: its clock minus the launcher's, known to +- clock_uncertainty_s.

    complete: everything that it sent has come. redacted: values taken out, by kind. seconds, bytes: of its answer.
    """

    node: str
    complete: bool
    seconds: float
    bytes: int
    clock_offset_s: float | None = None
    clock_uncertainty_s: float | None = None
    python: str | None = None
    zone: str | None = None
    redacted: dict[str, int] | None = None


class LedgerRow(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One collector on one node (null: the launcher). What is false or empty is left out.

    collector: its name; `node` is the node as such. not_applicable: what the node lacks, so that there is nothing to
    collect. not_there: parts that a node need not have. unreachable: the node's own row says why. exit_code: of the
    first program that failed, when nothing came. seconds: how long it ran.
    """

    collector: str
    node: str | None
    planned: bool
    ran: bool
    title: str | None = None
    bytes: int = 0
    seconds: float | None = None
    exit_code: int | None = None
    truncated: Told = False
    timed_out: Told = False
    denied: Told = False
    failed: Told = False
    absent: Told = False
    skipped: Told | str = False
    not_there: Told = False
    not_applicable: str | None = None
    unreachable: Told = False


class Reduced(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A log of which a node sent only the lines that matter; what it was there, before redaction.

    lines, bytes, sha256: of the whole (no digest when it was too long for the time). kept: lines that were sent.
    first, last: times that its head and its end name, as they stand there.
    """

    lines: int
    bytes: int
    kept: int
    sha256: str | None = None
    first: str | None = None
    last: str | None = None


class FileRow(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One file of the bundle. sha256: of the file as it lies in the bundle, after redaction."""

    path: str
    collector: str
    node: str | None
    bytes: int
    sha256: str
    truncated: bool
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    source: str | None = None
    reduced: Reduced | None = None


class Manifest(Record, frozen=True, kw_only=True):
    """manifest.json, the first member of a bundle.

    job: its id; null where no scheduler was asked. complete: no node or collector is missing. collected: RFC 3339 UTC.
    A bundle that `triage redact` made tells only what still holds of it.
    """

    schema: str
    complete: bool
    nodes: list[ManifestNode]
    ledger: list[LedgerRow]
    files: list[FileRow]
    job: str | UnsetType | None = UNSET
    collected: str | UnsetType = UNSET
    scheduler: ManifestJob | UnsetType = UNSET
    window: ManifestWindow | UnsetType | None = UNSET
    collectors: list[str] | UnsetType = UNSET
