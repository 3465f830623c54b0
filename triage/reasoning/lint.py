"""Faults of playbooks, all at once: every answer leads somewhere, every leaf has an example, nothing loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from triage import content
from triage.model.base import Value
from triage.model.compare import holds
from triage.model.playbook import (
    Edge,
    FactQuestion,
    OperatorQuestion,
    OrderQuestion,
    Playbook,
    PlaybookExample,
    Question,
    SignalQuestion,
    SpreadQuestion,
)
from triage.model.signature import Condition, Signature
from triage.reasoning.loading import causes
from triage.reasoning.walking import walk
from triage.vocabulary import Answer

_ANSWERS = ("yes", "no", "unknown")


def lint(catalogue: Mapping[str, Signature]) -> list[str]:
    """One line a fault, `file:line: what`."""
    faults: list[str] = []
    for path in content.files("playbooks"):
        marked = content.read(path)
        playbook = content.convert(marked, Playbook) if not marked.faults else None
        if playbook is not None:
            for at, what in _faults(playbook, path, catalogue):
                marked.fault(what, at)
        faults += marked.faults
    return faults


def _faults(playbook: Playbook, path: Path, catalogue: Mapping[str, Signature]) -> Iterator[tuple[str, str]]:
    if playbook.id != path.stem:
        yield "id", f"id {playbook.id!r} must be the file's name, {path.stem!r}"
    if not playbook.nodes or not playbook.leaves:
        yield "", "needs at least one node and one leaf"
        return
    yield from _edges(playbook)
    yield from _names(playbook, catalogue)
    if not any(True for _ in _edges(playbook)):
        yield from _loops(playbook)
        yield from _examples(playbook)


def _edges(playbook: Playbook) -> Iterator[tuple[str, str]]:
    """Each edge leads to exactly one known node or leaf; everything is reachable."""
    reached = {next(iter(playbook.nodes))}
    for name, node in playbook.nodes.items():
        for answer in _ANSWERS:
            edge: Edge = getattr(node, f"if_{answer}")
            target, leaf = _target(edge)
            at = f"nodes.{name}.if_{answer}"
            if (target is None) == (leaf is None):
                yield at, "must lead to exactly one node or leaf"
            elif target is not None and target not in playbook.nodes:
                yield at, f"no node {target!r}{content.nearest(target, list(playbook.nodes))}"
            elif leaf is not None and leaf not in playbook.leaves:
                yield at, f"no leaf {leaf!r}{content.nearest(leaf, list(playbook.leaves))}"
            reached.add(target or leaf or "")
    for section, names in (("nodes", playbook.nodes), ("leaves", playbook.leaves)):
        for name in names.keys() - reached:
            yield f"{section}.{name}", "nothing leads here"


def _target(edge: Edge) -> tuple[str | None, str | None]:
    inner = edge.then or edge
    return inner.node or edge.node, inner.leaf or edge.leaf


def _names(playbook: Playbook, catalogue: Mapping[str, Signature]) -> Iterator[tuple[str, str]]:
    """Signatures and causes exist."""
    for each in [*playbook.start_when.any, *playbook.start_when.all]:
        if isinstance(each, str) and each not in catalogue:
            yield "start_when", f"no signature {each!r}{content.nearest(each, list(catalogue))}"
    for name, node in playbook.nodes.items():
        for identity in _signatures(node.question):
            if identity not in catalogue:
                yield f"nodes.{name}.question", f"no signature {identity!r}{content.nearest(identity, list(catalogue))}"
    for name, leaf in playbook.leaves.items():
        for cause in [leaf.cause, *leaf.if_not_this]:
            if cause is not None and cause not in causes() and cause not in playbook.leaves:
                yield f"leaves.{name}", f"no cause {cause!r}{content.nearest(cause, list(causes()))}"
        for identity in leaf.explains:
            if identity not in catalogue:
                yield (
                    f"leaves.{name}.explains",
                    f"no signature {identity!r}{content.nearest(identity, list(catalogue))}",
                )


def _signatures(question: Question) -> list[str]:
    if isinstance(question, SignalQuestion):
        return [*question.any, *question.all]
    if isinstance(question, SpreadQuestion):
        return [question.of]
    if isinstance(question, OrderQuestion) and question.first.signature:
        return [question.first.signature]
    return []


def _loops(playbook: Playbook) -> Iterator[tuple[str, str]]:
    """No path comes back to a node that it went through."""
    stack: list[tuple[str, tuple[str, ...]]] = [(next(iter(playbook.nodes)), ())]
    while stack:
        name, path = stack.pop()
        if name in path:
            yield f"nodes.{name}", f"a loop: {' -> '.join([*path, name])}"
            return
        node = playbook.nodes[name]
        for answer in _ANSWERS:
            target, _ = _target(getattr(node, f"if_{answer}"))
            if target is not None:
                stack.append((target, (*path, name)))


def _examples(playbook: Playbook) -> Iterator[tuple[str, str]]:
    """Each example ends at its leaf, and each leaf has one."""
    reached = set()
    for index, example in enumerate(playbook.examples):
        found = walk(playbook, lambda name, question, example=example: answered(name, question, example))  # type: ignore[misc]
        reached.add(found.name)
        if found.name != example.leaf:
            yield f"examples[{index}]", f"ends at {found.name} ({'; '.join(found.path)}), not at {example.leaf}"
    for leaf in playbook.leaves.keys() - reached:
        yield f"leaves.{leaf}", "no example reaches it"


def answered(name: str, question: Question, example: PlaybookExample) -> Answer:
    """What an example answers: by node name, else by its evidence. A listed `not: id` is looked for and absent."""
    if name in example.answers:
        return example.answers[name]  # type: ignore[return-value]
    seen = {each for each in example.evidence if isinstance(each, str)}
    facts = {key: value for each in example.evidence if isinstance(each, dict) for key, value in each.items()}
    if isinstance(question, SignalQuestion):
        return _signal(question, seen)
    if isinstance(question, FactQuestion):
        return _fact(question, facts.get(question.name))
    if isinstance(question, OperatorQuestion):
        return "unknown"
    return "unknown"


def _signal(question: SignalQuestion, seen: set[str]) -> Answer:
    if question.any:
        return "yes" if seen & set(question.any) else "no"
    return "yes" if seen >= set(question.all) else "no"


def _fact(question: FactQuestion, value: Value) -> Answer:
    found = holds(Condition(name=question.name, op=question.op, value=question.value), value)
    return "unknown" if found is None or value is None else "yes" if found else "no"
