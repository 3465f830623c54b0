"""Which marks are kept: enough of each kind and rank to see progress and identity, however long the file is."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import regex

from triage.matching.extract import TIMEOUT, compiled
from triage.matching.readings import Reader
from triage.matching.scanner import OFTEN, Hit, Marker
from triage.matching.windows import View
from triage.model.base import Scalar
from triage.model.event import Mark

FILE, ALL, LEAST = 3_000, 40_000, 100  # marks of a file at most, of all files together about, of a file at least
_REACH = 1  # lines around a mark that its parser sees: marks are lines by themselves
_SHARES = {"env": 500}  # read in full up to here; of other kinds up to FILE, steps always by samples
_LATER, _FAR = 6, 2  # marks of a kind read in a chunk once the file gave its share, and far from its ends
_RARE = 500  # marks kept of each kind but steps and initialisations at either end of a file

_INTEGERS = frozenset({"step", "total", "rank", "nranks", "cuda_dev", "nvml_dev", "world_size", "attempt"})
_NUMBERS = frozenset({"step_ms", "step_s", "loss"})
# Only a key by which to sample: who printed the line, as far as its head or the word `rank` tells cheaply.
_HEAD = re.compile(
    rb"\s{0,6}(?:\[rank\s?\d{1,6}\]|\[\w{1,40}?\d{1,4}\]:|\[\d{1,3},\d{1,6}\]<\w+>|\d{1,6}(?=: )|[\w.-]{1,60}(?=: ))"
)
_RANK = re.compile(rb".{0,240}?\b[Rr]ank[ =:_]{0,2}(\d{1,6})")
_LOOKED = 400  # bytes of a line


def quota(files: int) -> int:
    """Marks that one of so many files may give."""
    return max(LEAST, min(FILE, ALL // max(files, 1)))


class Sampler:
    """Thins the hits of markers in one chunk before anything is parsed, and remembers what a file gave already."""

    def __init__(self, markers: Sequence[Marker], first: int, limit: int) -> None:
        self._markers, self._first, self._limit = markers, first, limit
        self._read: dict[str, int] = defaultdict(int)
        self._marks: dict[tuple[str, object], list[Mark]] = defaultdict(list)

    def marks(self) -> list[Mark]:
        """The marks of the file: of each kind and printer the first, the last and every n-th."""
        kept: list[Mark] = []
        for kind in sorted({kind for kind, _ in self._marks}):
            groups = {key: some for key, some in self._marks.items() if key[0] == kind}
            most = self._limit if kind in {"step", "init"} else min(self._limit, 2 * _RARE)
            total = sum(map(len, groups.values()))
            for some in groups.values():
                kept += thinned(some, -(-total // most))
        return sorted(kept, key=lambda mark: (mark.event.where.line or 0, mark.kind))

    def add(self, view: View, data: bytes, hits: Sequence[Hit], reader: Reader, far: bool) -> None:
        """Parse the hits of one chunk that are worth it; `far`: it is far from the ends of a long file."""
        groups: dict[tuple[str, object], list[Hit]] = defaultdict(list)
        for hit in self._affordable(_one_for_each_kind(hits, self._kind), _FAR if far else _LATER):
            kind = self._kind(hit)
            groups[kind, self._printer(kind, data, hit)].append(hit)
        every = -(-sum(map(len, groups.values())) // self._limit)
        kept = sorted((hit, key) for key, some in groups.items() for hit in thinned(some, every))
        for hit, key in kept:  # in order, so that lines are counted once
            mark = self._mark(view, hit, reader)
            if mark is not None:
                self._marks[key].append(mark)
        for key in groups:
            if len(self._marks[key]) > 2 * self._limit:
                self._marks[key] = thinned(self._marks[key], 2)

    def _affordable(self, hits: Iterable[Hit], later: int) -> list[Hit]:
        """Once a file gave its share of a kind of mark, only a few of each further chunk are looked at.

        Steps are thinned later, by chunk; of these the last of every rank counts, of those the first.
        """
        by_kind: dict[str, list[Hit]] = defaultdict(list)
        for hit in hits:
            by_kind[self._kind(hit)].append(hit)
        for kind, some in by_kind.items():
            if kind not in OFTEN and self._read[kind] > _SHARES.get(kind, FILE):
                by_kind[kind] = some[:: -(-len(some) // later)]
            self._read[kind] += len(by_kind[kind])
        return sorted(hit for some in by_kind.values() for hit in some)

    def _kind(self, hit: Hit) -> str:
        return self._markers[hit.number - self._first].kind

    def _printer(self, kind: str, data: bytes, hit: Hit) -> object:
        if kind != "env":
            return _printer(data, hit)
        # each variable and value once or twice, not once for each of a thousand ranks
        line = data[hit.start : min(hit.end, hit.start + _LOOKED)].decode("utf-8", "replace")
        found = compiled(self._markers[hit.number - self._first].regex).search(line)
        return tuple(sorted(found.groupdict().items())) if found else b""

    def _mark(self, view: View, hit: Hit, reader: Reader) -> Mark | None:
        marker = self._markers[hit.number - self._first]
        try:
            found = compiled(marker.regex).search(view.text(hit.start, hit.at), timeout=TIMEOUT)
        except TimeoutError:
            reader.too_long(f"{marker.source} ({marker.kind})", view.number(hit.start))
            return None
        if found is None:
            return None
        event = reader.event(view, hit, marker.source, reach=_REACH)
        return Mark(kind=marker.kind, event=event, fields=_fields(found))


def lasts(data: bytes, hits: Iterable[Hit]) -> list[Hit]:
    """The last hit of each marker and printer."""
    return list({(hit.number, _printer(data, hit)): hit for hit in hits}.values())


def _printer(data: bytes, hit: Hit) -> bytes:
    line = data[hit.start : min(hit.end, hit.start + _LOOKED)]
    found = _HEAD.match(line)
    if found:
        return found[0]
    found = _RANK.match(line) if b"ank" in line else None
    return found[1] if found else b""


def _one_for_each_kind(hits: Sequence[Hit], kind: Callable[[Hit], str]) -> list[Hit]:
    """Of several markers of one kind on a line the first listed: parsers list the more exact ones first."""
    chosen: dict[tuple[int, str], Hit] = {}
    for hit in hits:
        key = (hit.start, kind(hit))
        if key not in chosen or hit.number < chosen[key].number:
            chosen[key] = hit
    return list(chosen.values())


def thinned(some: list, every: int) -> list:  # type: ignore[type-arg]
    """The first, the last and every n-th."""
    if every <= 1 or len(some) <= 2:
        return some
    return [item for index, item in enumerate(some) if index % every == 0 or index == len(some) - 1]


def _fields(found: regex.Match[str]) -> dict[str, Scalar]:
    values = {name: _value(name, text) for name, text in found.groupdict().items() if text is not None}
    return {name: value for name, value in values.items() if value is not None}


def _value(name: str, text: str) -> Scalar:
    """A named group as a number where its name is that of a number; None when it is none after all."""
    try:
        if name in _INTEGERS:
            return int(text)
        return float(text) if name in _NUMBERS else text
    except ValueError:
        return None
