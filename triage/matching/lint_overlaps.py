"""Which signatures match each other's examples without saying so: found by one scan of all examples."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from triage.matching.extract import fields
from triage.matching.scanner import Scanner
from triage.model.signature import Signature

_DECLARE = "declare it in `overlaps` or `suppresses` of either"


class Overlap(NamedTuple):
    """`other` matches example `number` of `owner`."""

    owner: Signature
    number: int
    other: Signature

    def told(self, ids: Collection[str]) -> tuple[str, str, str]:
        """(id of the file, place, what): at the example if its file is among the ids, else at the one that matches."""
        if self.owner.id in ids or self.other.id not in ids:
            return self.owner.id, self._at, f"{self.other.id} matches this example too: {_DECLARE}"
        return self.other.id, "match", f"matches {self._at} of {self.owner.id} too: {_DECLARE}"

    @property
    def _at(self) -> str:
        return f"examples.matches[{self.number}]"


class _Line(NamedTuple):
    text: str
    whole: str
    owner: Signature
    number: int


def undeclared(signatures: Sequence[Signature]) -> list[Overlap]:
    """Every pair that matches one example and is not declared, the first example of each pair."""
    scanned = [signature for signature in signatures if signature.match]
    found: dict[tuple[str, str], Overlap] = {}
    for line, other in _hits(scanned, list(_lines(scanned))):
        if other.id == line.owner.id or declared(line.owner, other) or (line.owner.id, other.id) in found:
            continue
        if fields(other, line.text, line.whole) is not None:
            found[line.owner.id, other.id] = Overlap(line.owner, line.number, other)
    return list(found.values())


def declared(one: Signature, other: Signature) -> bool:
    """Does either side say that the two meet on one line?"""
    return other.id in {*one.suppresses, *one.overlaps} or one.id in {*other.suppresses, *other.overlaps}


def _lines(signatures: Sequence[Signature]) -> Iterator[_Line]:
    for signature in signatures:
        for index, example in enumerate(signature.examples.matches):
            for text in example.text.splitlines():
                yield _Line(text, example.text, signature, index)


def _hits(signatures: Sequence[Signature], lines: list[_Line]) -> Iterator[tuple[_Line, Signature]]:
    starts: dict[int, _Line] = {}
    parts, offset = [], 0
    for line in lines:
        part = line.text.encode() + b"\n"
        starts[offset] = line
        parts.append(part)
        offset += len(part)
    for hit in Scanner(signatures).scan(b"".join(parts)).hits:
        yield starts[hit.start], signatures[hit.number]
