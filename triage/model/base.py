"""The common shape of all records. Every record says `kw_only=True` itself: msgspec does not inherit it."""

from __future__ import annotations

import msgspec

Scalar = str | int | float | bool | None
Value = Scalar | list[int] | list[float] | list[str]


class Record(msgspec.Struct, frozen=True):
    """A frozen record of evidence or of reasoning."""


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record read from YAML or written to JSON: an unknown field is an error."""
