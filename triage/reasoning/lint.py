"""Faults of playbooks, all at once: every answer leads somewhere, every leaf has an example, nothing loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from triage import content
from triage.model.playbook import Playbook, PlaybookExample, SignalQuestion
from triage.model.signature import Condition, Signature
from triage.reasoning import answering, lint_names
from triage.reasoning.walking import edge_of, target, walk
from triage.vocabulary import Answer

ANSWERS: tuple[Answer, ...] = ("yes", "no", "unknown")
PATHS = 10_000  # paths that are followed in search of a loop; a tree with more is too large for a person, too
Fault = tuple[str, str]  # path within the file, what is wrong there


def lint(catalogue: Mapping[str, Signature], paths: list[Path] | None = None) -> list[str]:
    """One line a fault, `file:line: what`: of all playbooks, or of the files named."""
    everything = content.files("playbooks")
    known = frozenset(path.stem for path in everything)
    faults: list[str] = []
    for path in everything if paths is None else paths:
        marked = content.read(path)
        playbook = content.convert(marked, Playbook) if not marked.faults else None
        if playbook is not None:
            for at, what in check(playbook, path.stem, catalogue, known):
                marked.fault(what, at)
        faults += marked.faults
    return faults


def check(
    playbook: Playbook, name: str, catalogue: Mapping[str, Signature], playbooks: frozenset[str]
) -> Iterator[Fault]:
    """Faults of one playbook. `name`: of its file; `playbooks`: ids of all."""
    if playbook.id != name:
        yield "id", f"id {playbook.id!r} must be the file's name, {name!r}"
    if not playbook.nodes or not playbook.leaves:
        yield "", "needs at least one node and one leaf"
        return
    yield from lint_names.check(playbook, catalogue, playbooks)
    yield from _leaves(playbook)
    yield from _unproven(playbook, catalogue)
    broken = list(_edges(playbook))
    yield from broken
    if not broken:
        loops = list(_loops(playbook))
        yield from loops or [*_nothing_known(playbook), *_examples(playbook)]


def _edges(playbook: Playbook) -> Iterator[Fault]:
    """Each edge leads to exactly one known node or leaf; everything is reachable."""
    reached = {next(iter(playbook.nodes))}
    for name in playbook.nodes:
        for answer in ANSWERS:
            node, leaf = target(edge_of(playbook, name, answer))
            at = f"nodes.{name}.if_{answer}"
            if (node is None) == (leaf is None):
                yield at, "must lead to exactly one node or leaf"
            elif node is not None and node not in playbook.nodes:
                yield at, f"no node {node!r}{content.nearest(node, list(playbook.nodes))}"
            elif leaf is not None and leaf not in playbook.leaves:
                yield at, f"no leaf {leaf!r}{content.nearest(leaf, list(playbook.leaves))}"
            reached |= {each for each in (node, leaf) if each}
    for section, names in (("nodes", playbook.nodes), ("leaves", playbook.leaves)):
        for name in names:
            if name not in reached:
                yield f"{section}.{name}", "nothing leads here"


def _leaves(playbook: Playbook) -> Iterator[Fault]:
    """A leaf says what to do; one that names no cause says what it is instead, and where to go on."""
    for name, leaf in playbook.leaves.items():
        at = f"leaves.{name}"
        if leaf.cause is None and not (leaf.title and leaf.if_not_this):
            yield at, "a leaf without a cause needs a title and if_not_this: where to go on"
        if leaf.cause is None and (leaf.culprits or leaf.explains or leaf.repro):
            yield at, "a leaf without a cause names no culprits, explains nothing and reproduces nothing"
        if leaf.cause is not None and not (leaf.actions and leaf.next_check and leaf.if_not_this):
            yield at, "a leaf with a cause needs actions, next_check and if_not_this"
        if leaf.cause is not None and leaf.cause in leaf.if_not_this:
            yield f"{at}.if_not_this", f"{leaf.cause} is this leaf's own cause"
        if unknown := leaf.culprits.keys() - {"from", "else"}:
            yield (
                f"{at}.culprits",
                f"{', '.join(sorted(unknown))}: the keys are `from` and, if that is not there, `else`",
            )


def _unproven(playbook: Playbook, catalogue: Mapping[str, Signature]) -> Iterator[Fault]:
    """A strong leaf right behind a question that a mere hint can answer with yes."""
    for name, node in playbook.nodes.items():
        leaf = playbook.leaves.get(target(node.if_yes)[1] or "")
        if (
            leaf is None
            or leaf.cause is None
            or leaf.support != "strong"
            or not isinstance(node.question, SignalQuestion)
        ):
            continue
        for identity in node.question.any:
            signature = catalogue.get(identity)
            if signature and (signature.role != "root-cause" or signature.specificity == "weak"):
                yield f"nodes.{name}", f"{identity} alone leads to a leaf with strong support and proves nothing alone"


def _loops(playbook: Playbook) -> Iterator[Fault]:
    """No path comes back to a node that it went through."""
    stack: list[tuple[str, tuple[str, ...]]] = [(next(iter(playbook.nodes)), ())]
    for _ in range(PATHS):
        if not stack:
            return
        name, path = stack.pop()
        if name in path:
            yield f"nodes.{name}", f"a loop: {' -> '.join([*path, name])}"
            return
        for node in {target(edge_of(playbook, name, answer))[0] for answer in ANSWERS}:
            if node is not None:
                stack.append((node, (*path, name)))
    yield "nodes", f"more than {PATHS} paths: too large to be walked by a person"


def _nothing_known(playbook: Playbook) -> Iterator[Fault]:
    """Where no question has an answer, nothing was proven."""
    found = walk(playbook, lambda _, __: "unknown")
    if found.leaf.cause is not None and found.leaf.support == "strong":
        yield f"leaves.{found.name}", "support strong, although the way of all unknown answers ends here"


def _examples(playbook: Playbook) -> Iterator[Fault]:
    """Each example starts the playbook and ends at its leaf, and each leaf has one."""
    reached = set()
    for index, example in enumerate(playbook.examples):
        at = f"examples[{index}]"
        if not _starts(playbook, example):
            yield at, "its evidence does not start the playbook"
        found = walk(playbook, answering.of(example))
        reached.add(found.name)
        if found.name != example.leaf:
            yield at, f"ends at {found.name} ({'; '.join(found.path)}), not at {example.leaf}"
        for node in example.answers.keys() - {step.split(":")[0] for step in found.path}:
            yield f"{at}.answers", f"{node} is not asked on the way"
    for leaf in playbook.leaves:
        if leaf not in reached:
            yield f"leaves.{leaf}", "no example reaches it"


def _starts(playbook: Playbook, example: PlaybookExample) -> bool:
    conditions = playbook.start_when.any or playbook.start_when.all
    holds = [_holds(each, example) for each in conditions]
    return any(holds) if playbook.start_when.any else all(holds)


def _holds(condition: str | Condition, example: PlaybookExample) -> bool:
    if isinstance(condition, str):
        return condition in answering.seen(example)
    return answering.fact(condition, answering.facts(example).get(condition.name)) == "yes"
