"""The common shape of all records. Every record says `kw_only=True` itself: msgspec does not inherit it."""

from __future__ import annotations

import math

import msgspec

Scalar = str | int | float | bool | None
Value = Scalar | list[int] | list[float] | list[str]


class Record(msgspec.Struct, frozen=True):
    """A frozen record of evidence or of reasoning."""


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record read from YAML or written to JSON: an unknown field is an error."""


def number(value: object) -> float | None:
    """A finite number, given as one or as text; None for everything else (booleans, NaN, lists, N/A)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None
