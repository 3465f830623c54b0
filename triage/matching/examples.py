"""Do a signature's own examples hold? Both polarities, with the fields they must give."""

from __future__ import annotations

from collections.abc import Iterator

from triage.matching.extract import fields
from triage.matching.facts import holds
from triage.model.base import Scalar
from triage.model.signature import Match, Refusal, Signature, typed


def failures(signature: Signature) -> Iterator[str]:
    """One line for each example that does not behave."""
    if not signature.examples.matches or not signature.examples.does_not_match:
        yield "needs at least one example that matches and one that does not"
    for index, example in enumerate(signature.examples.matches):
        yield from _positive(signature, example, f"examples.matches[{index}]")
    for index, refusal in enumerate(signature.examples.does_not_match):
        if seen(signature, refusal) is not None:
            yield f"examples.does_not_match[{index}] matches: {shown(refusal)}"


def seen(signature: Signature, example: Match | Refusal) -> dict[str, Scalar] | None:
    """Fields that the signature finds in an example (any of its lines; the whole text is the joined message)."""
    if example.facts:
        return {} if all(holds(condition, example.facts.get(condition.name)) for condition in signature.facts) else None
    for line in example.text.splitlines():
        found = fields(signature, line, example.text)
        if found is not None:
            return found
    return None


def shown(example: Match | Refusal) -> str:
    """An example in one line."""
    return " ".join(example.text.split())[:80] or str(example.facts)


def _positive(signature: Signature, example: Match, at: str) -> Iterator[str]:
    found = seen(signature, example)
    if found is None:
        yield f"{at} does not match: {shown(example)}"
        return
    for name, text in example.fields.items():
        wanted = typed(signature.fields[name].type, text) if name in signature.fields else text
        if found.get(name) != wanted:
            yield f"{at}.fields.{name}: wanted {wanted!r}, found {found.get(name)!r}"
