"""From readings to signals: the more specific one wins, repeats are counted, the first and the last are kept.

Works file by file and piece by piece, so that a file of any size needs bounded memory.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec

from triage.matching.readings import Reading
from triage.model.base import Scalar
from triage.model.event import Signal
from triage.model.signature import Repeat, Signature, seconds

NEAR = 600  # lines within which two hits can be of one message: more than any parser joins
DISTINCT = 50  # signals of one signature, rank and node in one file; a storm of more tells nothing new
_TRIED = 64  # hits of a suppressed signature that are compared with one hit of its suppressor, on either side
_OCCURRENCES = 10_000  # readings kept of a signature that counts by repetition

_Key = tuple[tuple[str, Scalar], ...]


class Merger:
    """Collects the readings of one file, in the order of its lines."""

    def __init__(self) -> None:
        self._pending: list[Reading] = []
        self._kept: dict[str, dict[_Key, _Run]] = defaultdict(dict)
        self._distinct: dict[tuple[str, Scalar, Scalar], int] = defaultdict(int)
        self._repeated: dict[str, list[Reading]] = defaultdict(list)

    def add(self, readings: list[Reading], until: int) -> None:
        """Add the readings of the next piece, which ends at line `until`."""
        self._pending += readings
        self._settle(until - NEAR)

    def signals(self) -> Iterator[Signal]:
        """All signals of the file, once everything was added."""
        self._settle(None)
        for readings in self._repeated.values():
            for reading in frequent(readings):
                self._keep(reading)
        for runs in self._kept.values():
            for run in runs.values():
                yield from run.signals()

    def _settle(self, until: int | None) -> None:
        """Judge everything pending, and let go what later lines can no longer touch."""
        if not self._pending:
            return
        losers = suppressed(self._pending)
        rest = []
        for index, reading in enumerate(self._pending):
            if index in losers:
                continue
            if until is not None and _line(reading) > until:
                rest.append(reading)
            elif reading.signature.repeat:
                self._remember(reading)
            else:
                self._keep(reading)
        self._pending = rest

    def _remember(self, reading: Reading) -> None:
        some = self._repeated[reading.signature.id]
        if len(some) < _OCCURRENCES:
            some.append(reading)

    def _keep(self, reading: Reading) -> None:
        runs, key = self._kept[reading.signature.id], tuple(sorted(reading.entity.items(), key=_order))
        if key in runs:
            runs[key].add(reading)
            return
        group = (reading.signature.id, reading.entity.get("rank"), reading.entity.get("node"))
        if self._distinct[group] < DISTINCT:
            self._distinct[group] += 1
            runs[key] = _Run(reading)


def _order(item: tuple[str, Any]) -> tuple[str, str]:
    return item[0], str(item[1])


LINES = 64  # places of one repeated message that are remembered


class _Run:
    """Occurrences of one signature on one entity."""

    def __init__(self, first: Reading) -> None:
        self.first = self.last = first
        self.count = 1
        self.lines = [_line(first)]

    def add(self, reading: Reading) -> None:
        self.last, self.count = reading, self.count + 1
        self.lines.append(_line(reading))
        if len(self.lines) > LINES:
            del self.lines[LINES // 2]  # the first half stays, of the rest the latest

    def signals(self) -> Iterator[Signal]:
        """The first with the count of all, and the last by itself when there are more."""
        yield msgspec.structs.replace(
            signal(self.first), count=self.count, last_line=_line(self.last), lines=tuple(self.lines)
        )
        if self.count > 1:
            yield signal(self.last)


def signal(reading: Reading) -> Signal:
    """One reading as a signal of its own."""
    return Signal(
        signature=reading.signature, event=reading.event, fields=reading.fields, entity=reading.entity,
        last_line=_line(reading),
    )  # fmt: skip


def _line(reading: Reading) -> int:
    return reading.event.where.line or 0


def suppressed(readings: list[Reading]) -> set[int]:
    """Positions of the readings that a more specific signature on the same line or in the same message replaces."""
    by_id: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for index, reading in enumerate(readings):
        by_id[reading.signature.id].append((_line(reading), index))
    out: set[int] = set()
    for reading in readings:
        for name in reading.signature.suppresses:
            near = _near(by_id.get(name, []), reading)
            out.update(index for index in near if _same_message(reading, readings[index]))
    return out


def _near(others: list[tuple[int, int]], reading: Reading) -> Iterator[int]:
    line = _line(reading)
    middle = bisect.bisect_left(others, (line, -1))
    for number, index in others[max(0, middle - _TRIED) : middle + _TRIED]:
        if abs(number - line) <= NEAR:
            yield index


def _same_message(winner: Reading, loser: Reading) -> bool:
    if winner.event.where.line == loser.event.where.line:
        return True
    if not _compatible(winner.entity.get("rank"), loser.entity.get("rank")):
        return False
    return _inside(winner, loser) or _inside(loser, winner)


def _compatible(one: Scalar, other: Scalar) -> bool:
    return one is None or other is None or one == other


def _inside(part: Reading, whole: Reading) -> bool:
    """Does the line of one stand in the joined message of the other?"""
    text = part.event.text.strip()
    return bool(text) and whole.event.body != whole.event.text and text in whole.event.body


def frequent(readings: list[Reading]) -> list[Reading]:
    """The readings of a `repeat:` signature that come often enough, by the entity that it names."""
    groups: dict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        groups[str(_by(reading.signature, reading))].append(reading)
    out = []
    for group in groups.values():
        rule = group[0].signature.repeat
        out += _dense(group, rule) if rule else group
    return sorted(out, key=_line)


def _by(signature: Signature, reading: Reading) -> Scalar:
    rule = signature.repeat
    return reading.entity.get(rule.by) if rule and rule.by else None


def _dense(group: list[Reading], rule: Repeat) -> list[Reading]:
    """Those in a run of at least so many within the time; lines without comparable times count by number alone."""
    span, need = seconds(rule.within) if rule.within else None, rule.at_least
    chosen: set[int] = set()
    for start in range(len(group) - need + 1):
        if span is None or _within(group[start], group[start + need - 1], span):
            chosen.update(range(start, start + need))
    return [reading for index, reading in enumerate(group) if index in chosen]


def _within(first: Reading, last: Reading, span: float) -> bool:
    one, other = first.event.time, last.event.time
    if one is None or other is None or one.kind != other.kind:
        return True
    return other.seconds - one.seconds <= span
