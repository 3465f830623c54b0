"""A line of a log, or a pasted message: every signature that it satisfies, the more specific one first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import msgspec

from triage.lookup import names, numbers
from triage.matching.extract import fields
from triage.matching.needles import candidates
from triage.model.base import Scalar
from triage.model.lookup import Entry
from triage.model.signature import Action, Signature
from triage.model.tables import Nvlink5

LINES = 2_000  # lines of a pasted text that are looked at
_LONGEST = 8_192  # characters of a line
_NAMED_FOR = re.compile(r"\w+/xid-(\d+)-[a-z].*")
_ROLES = ("root-cause", "symptom", "consequence", "context")


def entries(text: str) -> Iterator[Entry]:
    """The signatures of a text, root causes first; those that a more specific one replaces are left out."""
    found: dict[str, tuple[Signature, str, dict[str, Scalar]]] = {}
    for line in islice(text.splitlines(), LINES):
        for signature, values in _matches(line[:_LONGEST], text):
            found.setdefault(signature.id, (signature, line, values))
    replaced = {name for signature, _, _ in found.values() for name in signature.suppresses}
    kept = [each for name, each in found.items() if name not in replaced]
    for signature, line, values in sorted(kept, key=lambda each: _order(each[0])):
        yield _entry(signature, line, values)


def _matches(line: str, text: str) -> Iterator[tuple[Signature, dict[str, Scalar]]]:
    for signature in candidates(line) if line.strip() else ():
        try:
            values = fields(signature, line, text)
        except TimeoutError:  # a regex that this line is too hard for: the others may still know it
            continue
        if values is not None:
            yield signature, values


def _order(signature: Signature) -> tuple[int, bool, str]:
    return _ROLES.index(signature.role), signature.specificity == "weak", signature.id


def _entry(signature: Signature, line: str, values: dict[str, Scalar]) -> Entry:
    entry = msgspec.structs.replace(
        names.of_signature(signature.id),
        line=line.strip()[:300],
        fields={name: value for name, value in values.items() if value is not None},
    )
    number = _xid(signature, values)
    row = next(numbers.xid(number), None) if number else None
    if row is not None:
        entry = msgspec.structs.replace(
            entry, vendor_action=entry.vendor_action or row.vendor_action, vendor_follow_up=row.vendor_follow_up,
            follows=row.follows, history=row.history, notes={f"Xid {number}": row.means},
        )  # fmt: skip
    return _decoded(entry, values)


def _xid(signature: Signature, values: dict[str, Scalar]) -> int | None:
    """The number of an Xid line: a field, or the one number that the signature is named for."""
    if isinstance(number := values.get("xid"), int | str):
        return int(number)
    named = _NAMED_FOR.fullmatch(signature.id)
    return int(named[1]) if named else None


def _decoded(entry: Entry, values: dict[str, Scalar]) -> Entry:
    """What the two words of Xid 144 to 150 say."""
    number, first, second = (_integer(values.get(name)) for name in ("xid", "word1", "word2"))
    if number is None or first is None or second is None:
        return entry
    subcode = first >> 20 & 0x3F
    for row in numbers.table("nvlink5.yaml", Nvlink5):
        same = row.xid == number and row.subcode == subcode and str(values.get("unit")) in row.unit.split("/")
        if same and second & int(row.status, 16):
            return msgspec.structs.replace(
                entry, actions=[Action(do=row.action), *entry.actions], vendor_action=row.vendor_action,
                vendor_follow_up=row.vendor_follow_up,
                notes=entry.notes | {"decoded": f"{row.unit}, {row.severity}, from {row.origin}"},
            )  # fmt: skip
    return entry


def _integer(value: Scalar) -> int | None:
    try:
        return int(value, 0) if isinstance(value, str) else value if isinstance(value, int) else None
    except ValueError:
        return None
