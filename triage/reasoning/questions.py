"""Answering a playbook's questions from evidence: yes, no, or unknown, which is neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatchmethod

from triage.model.base import Value
from triage.model.compare import holds
from triage.model.incident import Incident, Placed
from triage.model.playbook import (
    FactQuestion,
    OperatorQuestion,
    OrderQuestion,
    Question,
    Selector,
    SignalQuestion,
    SpreadQuestion,
)
from triage.model.signature import Condition, Signature, seconds
from triage.vocabulary import Answer

FEW = 4  # below this many ranks or nodes, "all" and "half" mean nothing


class View:
    """What can be asked of an incident: its answered episode, as seen by the questions of a playbook."""

    def __init__(self, incident: Incident, catalogue: Mapping[str, Signature]) -> None:
        self.incident, self.catalogue = incident, catalogue
        self.placed = [
            item for item in incident.signals if item.rule not in {"outside-window", "other-episode", "progress"}
        ]
        self.sources = {source for file in incident.files for source in file.sources}
        self.by_id: dict[str, list[Placed]] = {}
        for item in self.placed:
            self.by_id.setdefault(item.signal.signature.id, []).append(item)
        self.facts: dict[str, list[Value]] = {}
        for fact in incident.facts:
            self.facts.setdefault(fact.name, []).append(fact.value)

    def seen(self, identity: str) -> Answer:
        """Was a signature seen? Unknown when no file of a source that could show it was collected."""
        if identity in self.by_id:
            return "yes"
        signature = self.catalogue.get(identity)
        looked = signature is not None and bool(set(signature.sources) & self.sources)
        return "no" if looked else "unknown"

    def unexplained(self, identity: str) -> bool:
        """Was a signature seen in a place where nothing else explains it?"""
        return any(item.rule is None and not item.effect_of for item in self.by_id.get(identity, []))

    def fact(self, condition: Condition) -> Answer:
        """Does a fact hold, for any entity that has it?"""
        answers = [holds(condition, value) for value in self.facts.get(condition.name, [])]
        if any(answers):
            return "yes"
        return "no" if any(answer is False for answer in answers) else "unknown"

    def select(self, selector: Selector) -> list[Placed]:
        """Signals that a selector means, earliest first; those without a time last."""
        found = [item for item in self.placed if _selected(item, selector)]
        return sorted(found, key=lambda item: (item.at is None, item.at or 0.0))

    @singledispatchmethod
    def answer(self, question: Question) -> Answer:
        """The answer that evidence gives."""
        raise TypeError(question)

    @answer.register
    def _signal(self, question: SignalQuestion) -> Answer:
        each = [self.seen(identity) for identity in (question.any or question.all)]
        if question.any:
            return "yes" if "yes" in each else "unknown" if "unknown" in each else "no"
        return "no" if "no" in each else "unknown" if "unknown" in each else "yes"

    @answer.register
    def _fact(self, question: FactQuestion) -> Answer:
        return self.fact(Condition(name=question.name, op=question.op, value=question.value))

    @answer.register
    def _order(self, question: OrderQuestion) -> Answer:
        found = [item for item in self.select(question.first) if _happened(item)]
        if not found:
            return "no" if self.sources else "unknown"
        if question.before == "end" and question.within is None:
            return "yes"  # whatever was seen in an episode came before its end, with a stamp or without
        each = {self._earlier(item, question) for item in found}
        return "yes" if "yes" in each else "unknown" if "unknown" in each else "no"

    def _earlier(self, item: Placed, question: OrderQuestion) -> Answer:
        moment = self._moment(question.before)
        if moment is None or item.at is None:
            return "unknown"
        lead = moment - item.at
        if abs(lead) <= item.uncertainty:
            return "unknown"
        return "yes" if 0 < lead <= (seconds(question.within) if question.within else lead) else "no"

    @answer.register
    def _spread(self, question: SpreadQuestion) -> Answer:
        items = self.by_id.get(question.of, [])
        if not items:
            return self.seen(question.of)
        return spread(items, self.incident, question.is_)

    @answer.register
    def _operator(self, question: OperatorQuestion) -> Answer:
        return "unknown"

    def _moment(self, name: str) -> float | None:
        if name in {"hang_start", "end"}:
            return self.incident.hang_start if name == "hang_start" else self.incident.end
        chosen = self.by_id.get(name, []) if name != "first_failure" else self.placed
        times = [
            item.at for item in chosen if item.at is not None and item.signal.signature.severity in {"error", "fatal"}
        ]
        return min(times, default=None)


def _happened(item: Placed) -> bool:
    """Is it an event that stands for itself? A conclusion from values has no moment, and a root cause that another
    fault explains, or that is only a warning, does not start anything."""
    signature = item.signal.signature
    if signature.facts:
        return False
    return signature.role != "root-cause" or (item.rule is None and signature.severity in {"error", "fatal"})


def _selected(item: Placed, selector: Selector) -> bool:
    signature = item.signal.signature
    if selector.scope is not None and item.signal.entity.get(selector.scope) is None:
        return False
    wanted = {"id": selector.signature, "role": selector.role, "layer": selector.layer, "cause": selector.cause}
    return all(value is None or getattr(signature, key) == value for key, value in wanted.items())


def spread(items: Sequence[Placed], incident: Incident, wanted: str) -> Answer:
    """On how much of the job: one-rank, one-node, one-rail, half or all of at least four ranks or nodes."""
    ranks, nodes = _distinct(items, "rank"), _distinct(items, "node")
    if wanted == "one-rank":
        return _yes(len(ranks) == 1) if ranks else "unknown"
    if wanted == "one-node":
        return _yes(len(nodes) == 1) if nodes else "unknown"
    if wanted == "one-rail":
        return _yes(len(_distinct(items, "nic")) == 1 and len(nodes) > 1) if _distinct(items, "nic") else "unknown"
    share = share_of(items, incident)
    if share is None:
        return "unknown"
    return _yes(share >= 1.0 if wanted == "all" else share > 0.5)


def share_of(items: Sequence[Placed], incident: Incident) -> float | None:
    """Share of the job's ranks (else nodes) that carry the signals; None when fewer than FEW are known."""
    total = incident.world_size or len(incident.ranks)
    ranks = _distinct(items, "rank")
    if total >= FEW and ranks:
        return len(ranks) / total
    nodes = _distinct(items, "node")
    return len(nodes) / len(incident.nodes) if len(incident.nodes) >= FEW and nodes else None


def _distinct(items: Sequence[Placed], key: str) -> set[object]:
    return {item.signal.entity[key] for item in items if item.signal.entity.get(key) is not None}


def _yes(true: bool) -> Answer:
    return "yes" if true else "no"
