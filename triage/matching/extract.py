"""From one line (and its joined message) to the typed fields of a signature."""

from __future__ import annotations

from functools import cache

import regex

from triage.model.base import Scalar
from triage.model.signature import Pattern, Signature, typed

TIMEOUT = 1.0  # seconds for one regex on one message; a second line of defence behind lint's measurement


@cache
def compiled(expression: str) -> regex.Pattern[str]:
    """The regex of a signature, compiled once."""
    return regex.compile(expression, regex.MULTILINE)


def fields(signature: Signature, line: str, body: str) -> dict[str, Scalar] | None:
    """Typed fields of the first pattern that the line (and the message) satisfies; None when none does.

    Raises TimeoutError when a regex takes longer than TIMEOUT.
    """
    for pattern in signature.match:
        groups = _groups(pattern, line, body)
        if groups is not None:
            return _typed(signature, groups)
    return None


def _groups(pattern: Pattern, line: str, body: str) -> dict[str, str] | None:
    found = compiled(pattern.regex).search(line, timeout=TIMEOUT)
    if found is None or (pattern.unless and compiled(pattern.unless).search(body, timeout=TIMEOUT)):
        return None
    groups = {name: text for name, text in found.groupdict().items() if text is not None}
    if pattern.message:
        more = compiled(pattern.message).search(body, timeout=TIMEOUT)
        if more is None:
            return None
        groups |= {name: text for name, text in more.groupdict().items() if text is not None}
    return groups


def _typed(signature: Signature, groups: dict[str, str]) -> dict[str, Scalar] | None:
    try:
        return {name: typed(signature.fields[name].type, text) for name, text in groups.items()}
    except (ValueError, KeyError):
        return None


def entity(signature: Signature, values: dict[str, Scalar]) -> dict[str, Scalar]:
    """What the signal hangs on: fields that name an entity."""
    return {
        spec.entity: values[name]
        for name, spec in signature.fields.items()
        if spec.entity and values.get(name) is not None
    }
