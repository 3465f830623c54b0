"""Walking a playbook: from the root to a leaf, remembering the path and what could not be answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from triage.model.base import Record
from triage.model.playbook import Edge, Leaf, OperatorQuestion, Playbook, Question
from triage.model.report import Missing
from triage.model.signature import Condition
from triage.reasoning.questions import View
from triage.vocabulary import SEVERITIES, Answer, Severity

BROKEN = "?"  # the name of the end of a walk whose tree loops or leads nowhere; such a tree hands over


class Walk(Record, frozen=True, kw_only=True):
    """Where a walk ended. `name` is the leaf's; `path` has `node: answer`; `missing` what unknown answers asked for.

    unknown: how many questions evidence could have answered and did not. What only a person can answer is not counted:
    no evidence is missing there, and the way on for unknown is drawn for it.
    severity: of the worst that the walk started on; what begins with a mere remark claims no failure.
    """

    playbook: Playbook
    name: str
    leaf: Leaf
    path: tuple[str, ...]
    unknown: int
    missing: tuple[Missing, ...]
    severity: Severity = "error"


def started(playbook: Playbook, view: View) -> bool:
    """Does the playbook's start condition hold, on something that nothing else explains yet?"""
    answers = [_holds(each, view) for each in (playbook.start_when.any or playbook.start_when.all)]
    return any(answers) if playbook.start_when.any else bool(answers) and all(answers)


def _holds(condition: str | Condition, view: View) -> bool:
    if isinstance(condition, Condition):
        return view.fact(condition) == "yes"
    return view.unexplained(condition)


def walk(playbook: Playbook, ask: Callable[[str, Question], Answer]) -> Walk:
    """Follow the tree; `ask(node, question)` answers. An unknown answer goes on by its own branch.

    A tree that comes back to a node, or names one that it does not have, ends in an empty leaf: a site's own file that
    was never linted must not hang or break an analysis.
    """
    node: str | None = next(iter(playbook.nodes), None)
    answers: dict[str, Answer] = {}
    missing: list[Missing] = []
    name: str | None = None
    while name is None and node in playbook.nodes and node not in answers:
        current = playbook.nodes[node]
        answers[node] = answer = ask(node, current.question)
        edge = edge_of(playbook, node, answer)
        if edge.collect:
            missing.append(Missing(what=edge.why or current.ask, how=f"triage collect --only {','.join(edge.collect)}"))
        node, name = target(edge)
    return Walk(
        playbook=playbook,
        name=name if name in playbook.leaves else BROKEN,
        leaf=playbook.leaves.get(name or "", Leaf()),
        path=tuple(f"{key}: {answer}" for key, answer in answers.items()),
        unknown=sum(answer == "unknown" and not _for_a_person(playbook, key) for key, answer in answers.items()),
        missing=tuple(missing),
    )


def _for_a_person(playbook: Playbook, node: str) -> bool:
    return isinstance(playbook.nodes[node].question, OperatorQuestion)


def edge_of(playbook: Playbook, node: str, answer: Answer) -> Edge:
    """The way on that an answer takes."""
    current = playbook.nodes[node]
    return {"yes": current.if_yes, "no": current.if_no, "unknown": current.if_unknown}[answer]


def target(edge: Edge) -> tuple[str | None, str | None]:
    """(next node, leaf), one of them None: an unknown answer may have its target in `then`."""
    inner = edge.then or edge
    return inner.node or edge.node, inner.leaf or edge.leaf


def walks(playbooks: Mapping[str, Playbook], view: View) -> list[Walk]:
    """Every playbook that starts, walked on the evidence."""
    found = []
    for playbook in playbooks.values():
        if started(playbook, view):
            walked = walk(playbook, lambda _, question: view.answer(question))
            found.append(msgspec.structs.replace(walked, severity=_worst(playbook, view)))
    return found


def _worst(playbook: Playbook, view: View) -> Severity:
    """A fact that starts a playbook is a finding; a signature says itself how bad it is."""
    start = [each for each in [*playbook.start_when.any, *playbook.start_when.all] if _holds(each, view)]
    told: list[Severity] = [view.catalogue[each].severity for each in start if isinstance(each, str)]
    return max([*told, "error"] if len(told) < len(start) else told, key=SEVERITIES.index)
