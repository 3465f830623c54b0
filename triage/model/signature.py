"""The signature: what a line or a fact looks like, and what it means. Written in YAML below signatures/."""

from __future__ import annotations

from collections.abc import Callable

from triage.model.base import Scalar, Spec
from triage.vocabulary import (
    EntityKind,
    FieldType,
    Op,
    Progress,
    Risk,
    Role,
    Severity,
    Specificity,
    Status,
)


class Pattern(Spec, frozen=True, kw_only=True):
    """One way a message is spelled.

    regex: matched against one line (never across lines); the subset that hyperscan takes.
    message: a second regex that the joined message must also match (in any of its lines); its groups are fields too.
    unless: a regex that the joined message must not match.
    prefilter: why hyperscan takes the regex as a prefilter only (look-around and such); absent when it takes it whole.
    """

    regex: str
    message: str | None = None
    unless: str | None = None
    prefilter: str | None = None


class Condition(Spec, frozen=True, kw_only=True):
    """A test of one fact: `{name: ecc.uncorrected, op: gt, value: 0}`."""

    name: str
    op: Op = "eq"
    value: str | list[str] | None = None


class Repeat(Spec, frozen=True, kw_only=True):
    """Counts only when it comes this often: `{at_least: 3, within: 10m, by: port}`."""

    at_least: int
    within: str | None = None
    by: EntityKind | None = None


class Field(Spec, frozen=True, kw_only=True):
    """Type of a named group; `entity` hangs the signal on that kind of thing."""

    type: FieldType = "str"
    entity: EntityKind | None = None
    optional: bool = False


class Check(Spec, frozen=True, kw_only=True):
    """A command to run next and what its answer tells."""

    command: str
    tells: str


class Action(Spec, frozen=True, kw_only=True):
    """Something to do, and what it risks."""

    do: str
    risk: Risk = "safe"


class Confusable(Spec, frozen=True, kw_only=True):
    """Another signature that looks alike, and how to tell them apart."""

    id: str
    tell: str


class Verified(Spec, frozen=True, kw_only=True):
    """Where the wording was verified."""

    component: str
    version: str = ""
    how: str = ""


class Reference(Spec, frozen=True, kw_only=True):
    """A public page to read on."""

    title: str
    url: str = ""


class Match(Spec, frozen=True, kw_only=True):
    """An example that must match (the line, or for fact signatures the facts) and the fields it must give."""

    text: str = ""
    facts: dict[str, str] = {}
    fields: dict[str, str] = {}


class Refusal(Spec, frozen=True, kw_only=True):
    """An example that must not match, and why."""

    text: str = ""
    facts: dict[str, str] = {}
    why: str


class Examples(Spec, frozen=True, kw_only=True):
    """Both polarities."""

    matches: list[Match]
    does_not_match: list[Refusal]


class Signature(Spec, frozen=True, kw_only=True):
    """A message or value with a known meaning. See CONTRIBUTING.md for how to write one."""

    id: str
    title: str
    means: str
    layer: str
    role: Role
    severity: Severity
    sources: list[str]
    examples: Examples
    status: Status = "stable"
    cause: str | None = None
    specificity: Specificity = "strong"
    match: list[Pattern] = []
    facts: list[Condition] = []
    repeat: Repeat | None = None
    fields: dict[str, Field] = {}
    suppresses: list[str] = []
    overlaps: list[str] = []
    progress: Progress = "fatal"
    next_check: Check | None = None
    actions: list[Action] = []
    vendor_action: str | None = None
    confused_with: list[Confusable] = []
    playbook: str | None = None
    covers: list[str] = []
    verified_in: list[Verified] = []
    references: list[Reference] = []


class Cause(Spec, frozen=True, kw_only=True):
    """An entry of the closed vocabulary of root causes (triage/data/causes.yaml)."""

    id: str
    title: str
    blame: str
    means: str
    actions: list[Action] = []
    next_check: Check | None = None


def typed(kind: FieldType, text: str) -> Scalar:
    """The value of a captured group. A PCI address becomes dddd:bb:dd (lower case, no function); bytes an int."""
    return _TYPES[kind](text)


def pci_address(text: str) -> str:
    """`PCI:0000:3B:00`, `00000000:3B:00.0`, `3b:00.0` -> `0000:3b:00`."""
    parts = text.lower().removeprefix("pci:").split(".")[0].split(":")
    if len(parts) == 2:
        parts = ["0000", *parts]
    return ":".join([parts[0][-4:].rjust(4, "0"), *parts[1:]])


def size_in_bytes(text: str) -> int:
    """`79.20 GiB`, `512 MB`, `81920kB`, `1024` -> bytes; decimal prefixes of logs are read as binary ones.

    Raises ValueError for what is no number, or one beyond floats.
    """
    number, unit = "", ""
    for char in text.strip().replace(",", ""):
        if char.isdigit() or char == ".":
            number += char
        elif not char.isspace():
            unit += char
    power = "kmgtpe".find(unit[:1].lower()) + 1 if unit[:1].lower() in set("kmgtpe") else 0
    amount = float(number or "0") * 1024**power
    if amount == float("inf"):
        raise ValueError(f"{text[:40]!r} is beyond all sizes")
    return int(amount)


def seconds(text: str) -> float:
    """`30s`, `10m`, `2h`, `1d`, `250ms` or a bare number of seconds -> seconds."""
    units = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    for unit, factor in units.items():
        head = text.strip().removesuffix(unit)
        if head != text.strip() and head.replace(".", "", 1).isdigit():
            return float(head) * factor
    return float(text)


_TYPES: dict[FieldType, Callable[[str], Scalar]] = {
    "str": str,
    "int": lambda text: int(text, 0) if text.lower().startswith("0x") else int(text),
    "float": float,
    "bytes": size_in_bytes,
    "pci-address": pci_address,
    "duration": seconds,
}
