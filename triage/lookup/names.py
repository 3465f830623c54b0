"""Names of tables and of content: variables, states, causes, signatures, playbooks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from triage import content
from triage.model.environment import Variable
from triage.model.lookup import Entry, State
from triage.model.playbook import Playbook
from triage.model.signature import Action, Cause, Signature

_VARIABLE = re.compile(r"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?:[ =:]+(\S.*))?")
_ID = re.compile(r"[a-z0-9]+(?:[-/][a-z0-9]+)+|[a-z]+")
_DISRUPTIVE = re.compile(r"\b(?:reset|reboot|power-cycle|reseat|swap|replace|exchange|drain)", re.IGNORECASE)
_HARMLESS = re.compile(r"no action|nothing", re.IGNORECASE)


def entries(query: str) -> Iterator[Entry]:
    """Whatever bears exactly this name."""
    if (found := _VARIABLE.fullmatch(query)) or (found := _VARIABLE.fullmatch(query.upper())):
        yield from variable(found[1], found[2])
    yield from state(query)
    if _ID.fullmatch(query):
        yield from by_id(query)


def by_id(name: str) -> Iterator[Entry]:
    """A cause, a signature, a playbook or a variable by its id."""
    if name.isupper():
        yield from variable(name, None)
        return
    if name in causes():
        yield cause(causes()[name])
    if signature(name) is not None:
        yield of_signature(name)
    if (path := _path("playbooks", name)) is not None:
        yield playbook(content.load(path, Playbook))


def variable(name: str, value: str | None) -> Iterator[Entry]:
    """An environment variable, and whether a value of it is one that does harm."""
    for row in content.load(content.data("environment.yaml"), list[Variable]):
        if row.name == name:
            yield Entry(
                kind="environment variable", name=name, title=name, means=row.does, notes=_notes(row, value),
            )  # fmt: skip


def _notes(row: Variable, value: str | None) -> dict[str, str]:
    notes = {"unset": row.default, "harm": row.harm, "right when": row.when, "since": row.since}
    if value and row.harm and row.harmful:
        does = re.fullmatch(row.harmful, value) is not None
        notes[f"{row.name}={value}"] = "this value does that harm" if does else "not one of the values that do harm"
    return {name: text for name, text in notes.items() if text}


def state(word: str) -> Iterator[Entry]:
    """A state of a job, node or pod, in any spelling: `OUT_OF_MEMORY`, `out of memory`, `oomkilled`."""
    wanted = _plain(word)
    for row in content.load(content.data("states.yaml"), list[State]) if wanted.isalpha() else ():
        if _plain(row.state) == wanted:
            entry = Entry(kind="job state", name=row.state, title=f"{row.state} ({row.system})", means=row.means)
            yield with_cause(entry, row.cause)


def _plain(word: str) -> str:
    return re.sub(r"[\s_*-]", "", word).lower()


def cause(found: Cause) -> Entry:
    """A cause of the closed list."""
    return Entry(
        kind="cause", name=found.id, title=found.title, means=found.means, role="root-cause", cause=found.id,
        cause_title=found.title, next_check=found.next_check, actions=found.actions,
        playbooks=playbooks_of(found.id, None), signatures=_signatures_of(found.id),
    )  # fmt: skip


def of_signature(name: str | None) -> Entry:
    """A signature as an entry; an empty one when there is none of that name."""
    found = signature(name) if name else None
    if found is None:
        return Entry(kind="signature", name="", title="", means="")
    entry = Entry(
        kind="signature", name=found.id, title=found.title, means=found.means, role=found.role,
        severity=found.severity, next_check=found.next_check, actions=found.actions,
        vendor_action=found.vendor_action, confused_with=found.confused_with,
        playbooks=[found.playbook] if found.playbook else playbooks_of(found.cause, found.id), signatures=[found.id],
    )  # fmt: skip
    return with_cause(entry, found.cause)


def playbook(found: Playbook) -> Entry:
    """A decision tree: where to look first, and what it can end at."""
    ends = sorted({leaf.cause for leaf in found.leaves.values() if leaf.cause})
    means = (
        found.means or f"A decision tree of {len(found.nodes)} questions; `triage playbook walk {found.id}` asks them."
    )
    notes = {"can end at": ", ".join(ends)} if ends else {}
    return Entry(kind="playbook", name=found.id, title=found.title, means=means, look=found.look_first, notes=notes)


def with_base(entry: Entry, base: Entry) -> Entry:
    """An entry of a table with what its signature knows besides."""
    actions = entry.actions + [each for each in base.actions if each.do not in {own.do for own in entry.actions}]
    return msgspec.structs.replace(
        entry, role=base.role, cause=base.cause, cause_title=base.cause_title, next_check=base.next_check,
        actions=actions, confused_with=base.confused_with, playbooks=base.playbooks,
        signatures=base.signatures,
    )  # fmt: skip


def with_cause(entry: Entry, name: str | None) -> Entry:
    """An entry with its cause; where it says nothing of its own, the cause's check and actions."""
    found = causes().get(name) if name else None
    if found is None:
        return entry
    return msgspec.structs.replace(
        entry, cause=found.id, cause_title=found.title, next_check=entry.next_check or found.next_check,
        actions=entry.actions or found.actions, playbooks=entry.playbooks or playbooks_of(found.id, None),
    )  # fmt: skip


def ours(text: str) -> list[Action]:
    """Our advice of a table as an action; what stops work is disruptive."""
    if _HARMLESS.match(text):
        return [Action(do=text)]
    return [Action(do=text, risk="disruptive" if _DISRUPTIVE.search(text) else "safe")]


@cache
def causes() -> dict[str, Cause]:
    """The closed list of causes by id."""
    return {each.id: each for each in content.load(content.data("causes.yaml"), list[Cause])}


@cache
def signature(name: str) -> Signature | None:
    """One signature, read by itself."""
    path = _path("signatures", name) if "/" in name else None
    return content.load(path, Signature) if path else None


def playbooks_of(cause: str | None, signature: str | None) -> list[str]:
    """Playbooks that can end at the cause; those that the signature starts first. Looks at the text alone."""
    starts, ends = [], []
    for path in content.files("playbooks"):
        head, _, rest = _text(path).partition("\nnodes:")
        if signature and re.search(rf"(?<![\w/-]){re.escape(signature)}(?![\w/-])", head):
            starts.append(path.stem)
        elif cause and re.search(rf"\bcause: {re.escape(cause)}(?![\w/-])", rest):
            ends.append(path.stem)
    return (starts + ends)[:3]


def _signatures_of(cause: str) -> list[str]:
    """Ids of signatures that name the cause. Looks at the text alone."""
    wanted = f"\ncause: {cause}\n"
    return [f"{path.parent.name}/{path.stem}" for path in content.files("signatures") if wanted in _text(path)][:12]


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _path(folder: str, name: str) -> Path | None:
    """The file of an id, the last one when a team's own folder has it too."""
    wanted = tuple(f"{name}.yaml".split("/"))
    found = [path for path in content.files(folder) if path.parts[-len(wanted) :] == wanted]
    return found[-1] if found else None
