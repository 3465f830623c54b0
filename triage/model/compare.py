"""Conditions on facts: comparing a value of the evidence with the text of a YAML file."""

from __future__ import annotations

import operator
import re

from triage.model.base import Value
from triage.model.signature import Condition

LONGEST = 2_000  # characters of a value that a regex looks at: parsers give short texts, and a hostile one costs little
_ORDER = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}


def holds(condition: Condition, value: Value) -> bool | None:
    """True or False; None (unknown) when the evidence says nothing."""
    if condition.op == "exists":
        return value is not None
    if value is None or condition.value is None:
        return None
    wanted = condition.value if isinstance(condition.value, list) else [condition.value]
    if condition.op in _ORDER:
        return _ordered(condition.op, value, wanted[0])
    if condition.op == "matches":
        return any(re.search(pattern, str(value)[:LONGEST]) for pattern in wanted)
    if condition.op == "contains":
        inside = [str(item) for item in value] if isinstance(value, list) else str(value)
        return any(item in inside for item in wanted)
    same = any(_plain(value) == item.lower() for item in wanted)
    return not same if condition.op == "ne" else same


def _ordered(op: str, value: Value, wanted: str) -> bool | None:
    try:
        return bool(_ORDER[op](float(value), float(wanted)))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _plain(value: Value) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower()
