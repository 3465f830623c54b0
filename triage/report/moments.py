"""The rows of the timeline as a person reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from triage.model.base import Record
from triage.model.pictures import Pictures
from triage.model.report import Report, TimelineEntry
from triage.report.clean import clean
from triage.report.language import Words
from triage.report.postmortem import who_of

ROWS = 60
FEW = 4  # with fewer telling rows than this, context is shown too
REPEATS = 8  # rows of one kind of message
_ROLES = {"root-cause": 0, "symptom": 1, "consequence": 2}


class Moment(Record, frozen=True, kw_only=True):
    """One row; `kind` is the role's word in English, for style sheets."""

    when: str
    who: str
    kind: str
    role: str
    title: str
    text: str
    file: str
    line: int | None


def moments(report: Report, pictures: Pictures, words: Words, most: int = ROWS) -> list[Moment]:
    """What failed and what followed, in order; of too many rows, one of each kind before a second of any."""
    rows = _distinct(report.timeline)
    start = min((row.t for row in rows if row.t is not None and row.role != "context"), default=0.0)
    turn: Counter[str] = Counter()
    ranked = []
    for at, row in enumerate(rows):
        turn[row.signature] += 1
        ranked.append((_ROLES.get(row.role, 3) == 3, turn[row.signature], at))
    telling = [row for row in ranked if not row[0]]
    ranked = telling if len(telling) >= FEW else ranked
    kept = sorted(at for _, count, at in sorted(ranked)[:most] if count <= REPEATS)
    return [_moment(rows[at], pictures, words, start) for at in kept]


def _distinct(rows: Iterable[TimelineEntry]) -> list[TimelineEntry]:
    """One row for each line of the evidence: the one whose role tells most."""
    found: dict[tuple[str, int | None, str], TimelineEntry] = {}
    for row in rows:
        key = (row.file, row.line, row.text)
        if key not in found or _ROLES.get(row.role, 3) < _ROLES.get(found[key].role, 3):
            found[key] = row
    return list(found.values())


def _moment(row: TimelineEntry, pictures: Pictures, words: Words, start: float) -> Moment:
    return Moment(
        when=when(row, start), who=who_of(row), kind=row.role, role=words(f"role.{row.role}"),
        title=words.signature(row.signature, pictures.titles.get(row.signature, row.signature)),
        text=clean(row.text, 240), file=row.file, line=row.line,
    )  # fmt: skip


def when(row: TimelineEntry, start: float = 0.0) -> str:
    """The time with what the clocks leave open; without date or zone, seconds since `start`; `?` without any."""
    if row.time is None and row.t is None:
        return "?"
    told = row.time or f"{(row.t or 0.0) - start:+.1f} s"
    return f"{told} ± {row.uncertainty_s:g} s"
