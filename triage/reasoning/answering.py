"""How the examples of a playbook answer its questions."""

from __future__ import annotations

from collections.abc import Callable

from triage.model.base import Value
from triage.model.compare import holds
from triage.model.playbook import FactQuestion, PlaybookExample, Question, SignalQuestion
from triage.model.signature import Condition
from triage.vocabulary import Answer

_ANSWERS: dict[str, Answer] = {"yes": "yes", "no": "no", "unknown": "unknown"}


def of(example: PlaybookExample) -> Callable[[str, Question], Answer]:
    """The answers of one example, for `walk`.

    What `answers` says of a node comes first: order, spread and operator questions are answered there, and a signature
    that nobody could have seen is `unknown`. Else a signature is seen when it is listed and absent when it is not, a
    fact that is not listed is unknown, and so is everything else.
    """
    listed, values = seen(example), facts(example)

    def answer(name: str, question: Question) -> Answer:
        if name in example.answers:
            return _ANSWERS.get(example.answers[name], "unknown")
        if isinstance(question, SignalQuestion):
            return _signal(question, listed)
        if isinstance(question, FactQuestion):
            condition = Condition(name=question.name, op=question.op, value=question.value)
            return fact(condition, values.get(question.name))
        return "unknown"

    return answer


def seen(example: PlaybookExample) -> set[str]:
    """The signatures that it lists."""
    return {each for each in example.evidence if isinstance(each, str)}


def facts(example: PlaybookExample) -> dict[str, str]:
    """The facts that it lists."""
    return {key: value for each in example.evidence if isinstance(each, dict) for key, value in each.items()}


def fact(condition: Condition, value: Value) -> Answer:
    """Does a value fulfil a condition? Unknown when there is none."""
    found = holds(condition, value)
    return "unknown" if found is None or value is None else "yes" if found else "no"


def _signal(question: SignalQuestion, listed: set[str]) -> Answer:
    if question.any:
        return "yes" if listed & set(question.any) else "no"
    return "yes" if listed >= set(question.all) else "no"
