"""Names in playbooks that nothing bears: signatures, facts, causes, playbooks, collectors, reproductions, answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, singledispatch
from pathlib import Path

from triage import content
from triage.model.playbook import (
    FactQuestion,
    Leaf,
    Node,
    OperatorQuestion,
    OrderQuestion,
    Playbook,
    PlaybookExample,
    Question,
    SignalQuestion,
    SpreadQuestion,
)
from triage.model.signature import Condition, Signature, seconds
from triage.reasoning.loading import causes
from triage.reasoning.walking import edge_of
from triage.vocabulary import LAYERS, Answer

Fault = tuple[str, str]
_ANSWERS: tuple[Answer, ...] = ("yes", "no", "unknown")
_MOMENTS = ("hang_start", "first_failure", "end")
_ORDERED = ("gt", "ge", "lt", "le")


def check(playbook: Playbook, catalogue: Mapping[str, Signature], playbooks: frozenset[str]) -> Iterator[Fault]:
    """Every name in a playbook that is not known, with the nearest that is."""
    ids = list(catalogue)
    starts = [*playbook.start_when.any, *playbook.start_when.all]
    if bool(playbook.start_when.any) == bool(playbook.start_when.all):
        yield "start_when", "needs either any or all"
    yield from _listed("start_when", "signature", [each for each in starts if isinstance(each, str)], ids)
    for each in starts:
        if isinstance(each, Condition):
            yield from _condition("start_when", each)
    for name, node in playbook.nodes.items():
        yield from _node(playbook, name, node, ids)
    for name, leaf in playbook.leaves.items():
        yield from _leaf(f"leaves.{name}", leaf, catalogue, playbooks)
    for index, example in enumerate(playbook.examples):
        yield from _example(f"examples[{index}]", example, playbook, ids)


def _listed(at: str, what: str, names: Iterable[str], known: list[str]) -> Iterator[Fault]:
    for name in names:
        if name not in known:
            yield at, f"no {what} {name!r}{content.nearest(name, known)}"


def _node(playbook: Playbook, name: str, node: Node, ids: list[str]) -> Iterator[Fault]:
    at = f"nodes.{name}"
    yield from _question(node.question, f"{at}.question", ids)
    if not node.ask.endswith("?"):
        yield f"{at}.ask", "a question ends with a question mark"
    if isinstance(node.question, OperatorQuestion) and not node.how:
        yield at, "a question that a person answers needs `how`: where to look"
    for answer in _ANSWERS:
        edge = edge_of(playbook, name, answer)
        if collectors():
            yield from _listed(f"{at}.if_{answer}.collect", "collector", edge.collect, collectors())
        if bool(edge.collect) != bool(edge.why):
            yield f"{at}.if_{answer}", "collect and why (what it would show) go together"


@singledispatch
def _question(question: Question, at: str, ids: list[str]) -> Iterator[Fault]:
    raise TypeError(question)


@_question.register
def _signal(question: SignalQuestion, at: str, ids: list[str]) -> Iterator[Fault]:
    if bool(question.any) == bool(question.all):
        yield at, "needs either any or all"
    yield from _listed(at, "signature", [*question.any, *question.all], ids)
    yield from _scope(question.scope, at)


def _scope(scope: str | None, at: str) -> Iterator[Fault]:
    if scope is not None:
        yield (
            f"{at}.scope",
            "nothing answers by scope yet: select by `first: {scope: rank}`, or ask how far it is spread",
        )


@_question.register
def _fact(question: FactQuestion, at: str, ids: list[str]) -> Iterator[Fault]:
    yield from _condition(at, Condition(name=question.name, op=question.op, value=question.value))


@_question.register
def _order(question: OrderQuestion, at: str, ids: list[str]) -> Iterator[Fault]:
    first = question.first
    if not any((first.signature, first.role, first.layer, first.cause, first.scope)):
        yield f"{at}.first", "selects everything: name a signature, role, layer, cause or scope"
    yield from _listed(f"{at}.first", "signature", [first.signature] if first.signature else [], ids)
    yield from _listed(f"{at}.first", "layer", [first.layer] if first.layer else [], list(LAYERS))
    yield from _listed(f"{at}.first", "cause", [first.cause] if first.cause else [], list(causes()))
    if question.before not in _MOMENTS:
        yield from _listed(f"{at}.before", "moment or signature", [question.before], [*_MOMENTS, *ids])
    if question.within is not None and not _is_duration(question.within):
        yield f"{at}.within", f"{question.within!r} is no duration (30s, 10m, 2h)"
    yield from _scope(question.scope, at)


@_question.register
def _spread(question: SpreadQuestion, at: str, ids: list[str]) -> Iterator[Fault]:
    yield from _listed(at, "signature", [question.of], ids)


@_question.register
def _operator(question: OperatorQuestion, at: str, ids: list[str]) -> Iterator[Fault]:
    yield from _listed(f"{at}.answers", "answer", question.answers.values(), list(_ANSWERS))
    if question.answers and not {"yes", "no"} <= set(question.answers.values()):
        yield f"{at}.answers", "some word must mean yes and some no"


def _is_duration(text: str) -> bool:
    try:
        return seconds(text) >= 0
    except ValueError:
        return False


def _condition(at: str, condition: Condition) -> Iterator[Fault]:
    if not is_fact(condition.name):
        yield at, f"no fact {condition.name!r}: no parser or analysis has it in its docstring"
    values = condition.value if isinstance(condition.value, list) else [condition.value]
    if condition.op != "exists" and condition.value is None:
        yield at, f"{condition.op} needs a value"
    elif condition.op in _ORDERED and not all(re.fullmatch(r"-?\d+(\.\d+)?", str(value)) for value in values):
        yield at, f"{condition.op} needs a number, not {condition.value!r}"
    elif condition.op == "matches" and not all(_compiles(str(value)) for value in values):
        yield at, f"{condition.value!r} is no regular expression"


def _compiles(pattern: str) -> bool:
    try:
        return re.compile(pattern) is not None
    except re.error:
        return False


def _leaf(at: str, leaf: Leaf, catalogue: Mapping[str, Signature], playbooks: frozenset[str]) -> Iterator[Fault]:
    known = list(causes())
    yield from _listed(f"{at}.cause", "cause", [leaf.cause] if leaf.cause else [], known)
    yield from _listed(f"{at}.if_not_this", "cause or playbook", leaf.if_not_this, [*known, *sorted(playbooks)])
    yield from _listed(f"{at}.explains", "signature", leaf.explains, list(catalogue))
    for identity in leaf.explains:
        if identity in catalogue and (other := _root_of(catalogue[identity])) not in (None, leaf.cause):
            yield f"{at}.explains", f"{identity} is a root cause of its own ({other})"
    for source in leaf.culprits.values():
        if source not in catalogue and not is_fact(source):
            yield (
                f"{at}.culprits",
                f"{source!r} is neither a fact nor a signature{content.nearest(source, list(catalogue))}",
            )
    if leaf.repro and reproductions():
        yield from _listed(f"{at}.repro", "reproduction", [leaf.repro], reproductions())


def _root_of(signature: Signature) -> str | None:
    return signature.cause if signature.role == "root-cause" else None


def _example(at: str, example: PlaybookExample, playbook: Playbook, ids: list[str]) -> Iterator[Fault]:
    yield from _listed(f"{at}.leaf", "leaf", [example.leaf], list(playbook.leaves))
    yield from _listed(f"{at}.answers", "node", example.answers, list(playbook.nodes))
    yield from _listed(f"{at}.answers", "answer", example.answers.values(), list(_ANSWERS))
    for each in example.evidence:
        if isinstance(each, str):
            yield from _listed(f"{at}.evidence", "signature", [each], ids)
        else:
            unknown = [name for name in each if not is_fact(name)]
            yield from ((f"{at}.evidence", f"no fact {name!r}") for name in unknown)


@cache
def collectors() -> list[str]:
    """Names of the collectors; empty when they are not installed."""
    return _names(content.root() / "collectors", ".py")


@cache
def reproductions() -> list[str]:
    """Names of the templates of reproductions; empty when they are not installed."""
    return _names(content.data("x").parent.parent / "repro" / "templates", "")


def _names(folder: Path, ending: str) -> list[str]:
    found = folder.iterdir() if folder.is_dir() else iter(())
    names = [path.name for path in found if path.name.endswith(ending) and not path.name.startswith(("_", "."))]
    return sorted({name.split(".")[0] for name in names})


@cache
def _docstrings() -> tuple[frozenset[str], ...]:
    """The words of the docstring of each parser and analysis: they name their facts there."""
    texts = [*content.docstrings("parsers"), *content.docstrings("analysis")]
    return tuple(frozenset(re.findall(r"[a-z_0-9]+", text)) for text in texts)


@cache
def is_fact(name: str) -> bool:
    """Does one of the docstrings have all parts of a dotted name? (They abbreviate: `gpu.remap.{pending,failure}`.)"""
    parts = set(name.split("."))
    return len(parts) > 1 and any(parts <= words for words in _docstrings())
