"""Walking a playbook: from the root to a leaf, remembering the path and what could not be answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from triage.model.base import Record
from triage.model.playbook import Edge, Leaf, Playbook, Question
from triage.model.report import Missing
from triage.model.signature import Condition
from triage.reasoning.questions import View
from triage.vocabulary import Answer


class Walk(Record, frozen=True, kw_only=True):
    """Where a walk ended. `name` is the leaf's; `path` has `node: answer`; `missing` what unknown answers asked for."""

    playbook: Playbook
    name: str
    leaf: Leaf
    path: tuple[str, ...]
    unknown: int
    missing: tuple[Missing, ...]


def started(playbook: Playbook, view: View) -> bool:
    """Does the playbook's start condition hold?"""
    answers = [_holds(each, view) for each in (playbook.start_when.any or playbook.start_when.all)]
    return any(answers) if playbook.start_when.any else bool(answers) and all(answers)


def _holds(condition: str | Condition, view: View) -> bool:
    return (view.fact(condition) if isinstance(condition, Condition) else view.seen(condition)) == "yes"


def walk(playbook: Playbook, ask: Callable[[str, Question], Answer]) -> Walk:
    """Follow the tree; `ask(node, question)` answers. An unknown answer goes on by its own branch."""
    node = next(iter(playbook.nodes))
    path: list[str] = []
    missing: list[Missing] = []
    while True:
        current = playbook.nodes[node]
        answer = ask(node, current.question)
        path.append(f"{node}: {answer}")
        edge = {"yes": current.if_yes, "no": current.if_no, "unknown": current.if_unknown}[answer]
        if edge.collect:
            missing.append(Missing(what=edge.why or current.ask, how=f"triage collect --only {','.join(edge.collect)}"))
        node, name = _target(edge)
        if name is not None:
            count = sum(step.endswith(": unknown") for step in path)
            return Walk(
                playbook=playbook,
                name=name,
                leaf=playbook.leaves[name],
                path=tuple(path),
                unknown=count,
                missing=tuple(missing),
            )


def _target(edge: Edge) -> tuple[str, str | None]:
    """(next node, leaf): an unknown answer may have its target in `then`."""
    inner = edge.then or edge
    return inner.node or edge.node or "", inner.leaf or edge.leaf


def walks(playbooks: Mapping[str, Playbook], view: View) -> list[Walk]:
    """Every playbook that starts, walked on the evidence."""
    return [
        walk(playbook, lambda _, question: view.answer(question))
        for playbook in playbooks.values()
        if started(playbook, view)
    ]
