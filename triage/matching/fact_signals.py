"""Signatures of facts: a value of a structured source, or of an analysis, that has a known meaning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

from triage.matching.facts import holds
from triage.model.base import Scalar, Value
from triage.model.event import Event, Fact, Signal, Where
from triage.model.signature import Signature

DISTINCT = 5_000  # signals of one signature in one file: a rank or a GPU each
_TEXT = 2_000  # characters of an Event's text

_Group = tuple[str, tuple[tuple[str, Scalar], ...]]


def match_facts(facts: Iterable[Fact], catalogue: dict[str, Signature]) -> list[Signal]:
    """A signal for each entity on which all conditions of a signature hold.

    Conditions are tested on facts of one file and entity; derived facts (those with `evidence`) of one entity.
    A file may state several values of one name for an entity: each condition takes the first that holds.
    """
    stating = _stating(_grouped(facts))
    out = [
        signal
        for signature in catalogue.values()
        if signature.facts
        for signal in islice(_signals(signature, stating.get(signature.facts[0].name, [])), DISTINCT)
    ]
    return sorted(out, key=_order)


def _grouped(facts: Iterable[Fact]) -> dict[_Group, list[Fact]]:
    groups: dict[_Group, list[Fact]] = defaultdict(list)
    for fact in facts:
        entity = tuple(sorted(fact.entity.items(), key=lambda item: (item[0], str(item[1]))))
        groups["" if fact.evidence else fact.where.file, entity].append(fact)
    return dict(sorted(groups.items(), key=lambda item: (item[0][0], str(item[0][1]))))


def _stating(groups: dict[_Group, list[Fact]]) -> dict[str, list[list[Fact]]]:
    """By name of a fact the groups that have it: a signature looks at no others."""
    found: dict[str, list[list[Fact]]] = defaultdict(list)
    for some in groups.values():
        for name in dict.fromkeys(fact.name for fact in some):
            found[name].append(some)
    return found


def _signals(signature: Signature, groups: Iterable[list[Fact]]) -> Iterator[Signal]:
    for some in groups:
        proof = _proof(signature, some)
        if proof:
            yield _signal(signature, proof)


def _proof(signature: Signature, facts: list[Fact]) -> list[Fact] | None:
    """The facts that satisfy the conditions, in the conditions' order; None when one is unsatisfied or unknown."""
    proof = []
    for condition in signature.facts:
        fits = (fact for fact in facts if fact.name == condition.name and holds(condition, fact.value))
        fact = next(fits, None)
        if fact is None:
            return None
        proof.append(fact)
    return proof


def _signal(signature: Signature, proof: list[Fact]) -> Signal:
    fact = proof[0]
    where = fact.evidence[0] if fact.evidence else fact.where
    fields = {name: _scalar(each.value) for each in proof for name in (each.name, each.name.rpartition(".")[2])}
    return Signal(
        signature=signature,
        event=_event(fact, where, proof),
        fields={name: value for name, value in fields.items() if value is not None},
        entity=dict(fact.entity),
        last_line=where.line,
    )


def _event(fact: Fact, where: Where, proof: list[Fact]) -> Event:
    """At the place of the first; the body has what the others rest on too, when that is more than one line."""
    text = (fact.text or f"{fact.name} = {fact.value}")[:_TEXT]
    beside = [each.text[:_TEXT] for each in proof[1:] if each.evidence and each.text and each.where != fact.where]
    numbers = {key: value for key in ("rank", "local_rank", "pid") if isinstance(value := fact.entity.get(key), int)}
    node = fact.entity.get("node")
    body = " + ".join(dict.fromkeys([text, *beside]))
    return Event(
        where=where, text=text, body=body, source=fact.name.partition(".")[0], time=fact.time,
        node=str(node) if node is not None else None, rank=numbers.get("rank"), local_rank=numbers.get("local_rank"),
        pid=numbers.get("pid"),
    )  # fmt: skip


def _scalar(value: Value) -> Scalar:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _order(signal: Signal) -> tuple[str, int, str, str]:
    where = signal.event.where
    return where.file, where.line or 0, signal.signature.id, str(sorted(signal.entity.items(), key=str))
