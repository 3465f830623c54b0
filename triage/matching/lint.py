"""Every fault of every signature at once, with file and line: what keeps the catalogue fit to be trusted.

Checks are small functions that yield (place within the file, what is wrong); `lint` runs them over all files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from triage import content
from triage.matching import lint_overlaps, lint_references, lint_regex
from triage.matching.examples import failures, seen
from triage.matching.extract import compiled
from triage.matching.loading import identity
from triage.model.signature import Pattern, Signature
from triage.vocabulary import LAYERS

Fault = tuple[str, str]
Refused = dict[str, str]


class Subject(NamedTuple):
    """A signature file as read; `signature` is None when its text is at fault already."""

    path: Path
    marked: content.Marked
    signature: Signature | None


def lint(paths: Collection[Path] = ()) -> list[str]:
    """Faults as `file:line: what`, sorted by file and line. With paths (files or folders) only of files below them.

    All files are read either way: references and overlaps concern the whole catalogue.
    """
    subjects = [read(path) for path in sorted({*content.files("signatures"), *_named(paths)})]
    known = lint_references.Known.of(
        {identity(each.path): each.signature for each in subjects if each.signature is not None}
        | {identity(each.path): None for each in subjects if each.signature is None}
    )
    chosen = [each for each in subjects if not paths or _below(each.path, paths)]
    signatures = [each.signature for each in subjects if each.signature is not None]
    patterns = [pattern for signature in signatures for pattern in signature.match if lint_regex.compiles(pattern)]
    refused = lint_regex.refusals(patterns)
    for each in chosen:
        if each.signature is not None:
            _check(each, each.signature, known, refused)
    _check_overlaps(chosen, signatures, refused)
    return [fault for each in chosen for fault in sorted(set(each.marked.faults), key=_place)]


def read(path: Path) -> Subject:
    """A file with its faults of form noted."""
    marked = content.read(path)
    signature = content.convert(marked, Signature) if not marked.faults else None
    return Subject(path, marked, signature)


def _named(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.rglob("*.yaml")) if path.is_dir() else [path]


def _below(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.resolve().is_relative_to(folder.resolve()) for folder in folders)


def _place(fault: str) -> tuple[int, str]:
    line = fault.split(": ", 1)[0].rpartition(":")[2]
    return int(line) if line.isdigit() else 0, fault


def _check(subject: Subject, signature: Signature, known: lint_references.Known, refused: Refused) -> None:
    for at, what in _identity(subject, signature):
        subject.marked.fault(what, at)
    for at, what in lint_references.faults(signature, known):
        subject.marked.fault(what, at)
    for at, what in _patterns(signature, refused):
        subject.marked.fault(what, at)
    if not all(lint_regex.compiles(pattern) for pattern in signature.match):
        return
    for check in _CHECKS:
        for at, what in check(signature):
            subject.marked.fault(what, at)


def _identity(subject: Subject, signature: Signature) -> Iterator[Fault]:
    wanted = identity(subject.path)
    if signature.id != wanted:
        yield "id", f"id {signature.id!r} must be the path below signatures/, {wanted!r}"
    if signature.layer != subject.path.parent.name:
        yield "layer", f"layer {signature.layer!r} must be the folder, {subject.path.parent.name!r}"
    if signature.layer not in LAYERS:
        yield "layer", f"unknown layer {signature.layer!r}{content.nearest(signature.layer, LAYERS)}"


def _patterns(signature: Signature, refused: Refused) -> Iterator[Fault]:
    bodies = [example.text for example in signature.examples.matches]
    lines = [line for body in bodies for line in body.splitlines()]
    for index, pattern in enumerate(signature.match):
        for key, what in lint_regex.faults(pattern, lines, refused, bodies):
            yield f"match[{index}].{key}", what


def _meaning(signature: Signature) -> Iterator[Fault]:
    if bool(signature.match) == bool(signature.facts):
        yield "match", "needs either `match` (lines) or `facts` (values), not both or neither"
    if signature.role == "root-cause" and signature.cause is None:
        yield "role", "a root-cause names its `cause`"
    if signature.role == "context" and signature.cause is not None:
        yield "cause", "context has no cause"
    if signature.role != "context":
        yield from (("role", f"needs `{key}`") for key in ("next_check", "actions") if not getattr(signature, key))


def _groups(signature: Signature) -> Iterator[Fault]:
    """Named groups and fields are the same; facts give their values without groups."""
    if signature.facts:
        return
    groups = {name for pattern in signature.match for name in _names(pattern)}
    for name in sorted(groups - set(signature.fields)):
        yield "fields", f"group {name!r} has no field"
    for name in sorted(set(signature.fields) - groups):
        yield f"fields.{name}", f"field {name!r} is no named group{content.nearest(name, sorted(groups))}"


def _names(pattern: Pattern) -> set[str]:
    return {name for each in (pattern.regex, pattern.message) if each for name in compiled(each).groupindex}


def _examples(signature: Signature) -> Iterator[Fault]:
    try:
        for failure in failures(signature):
            at, _, what = failure.partition(" ")
            yield (at, what) if at.startswith("examples.") else ("examples", failure)
    except TimeoutError:
        yield "examples", "a regex takes too long on an example"


def _coverage(signature: Signature) -> Iterator[Fault]:
    """Each alternative has an example, and a field that an example lacks is optional."""
    if not signature.examples.matches:
        return
    lines = [line for example in signature.examples.matches for line in example.text.splitlines()]
    for index, pattern in enumerate(signature.match):
        if not any(compiled(pattern.regex).search(line) for line in lines):
            yield f"match[{index}]", "no example matches this alternative"
    for index, example in enumerate(signature.examples.matches):
        found = None if signature.facts else seen(signature, example)
        for name, spec in signature.fields.items():
            if found is not None and name not in found and not spec.optional:
                yield f"examples.matches[{index}]", f"gives no {name!r}: the field has to be `optional: true`"


_CHECKS: tuple[Callable[[Signature], Iterator[Fault]], ...] = (_meaning, _groups, _examples, _coverage)


def _check_overlaps(chosen: list[Subject], signatures: list[Signature], refused: Refused) -> None:
    usable = [each for each in signatures if all(lint_regex.usable(pattern, refused) for pattern in each.match)]
    by_id = {each.signature.id: each for each in chosen if each.signature is not None}
    for overlap in lint_overlaps.undeclared([each for each in usable if each.status != "retired"]):
        owner, at, what = overlap.told(set(by_id))
        if owner in by_id:
            by_id[owner].marked.fault(what, at)
