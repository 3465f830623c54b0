"""Runs of the job between restarts. The last failed one is answered, the others are listed.

An episode ends where a line says so: an elastic restart or requeue, or a new world that starts after something
fatal was printed in the same file. Files of different attempts (`attempt_1/`) belong to different episodes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence

from triage.model.base import Record
from triage.model.bundle import File
from triage.model.event import Event, Mark, Signal
from triage.model.incident import Epoch


class Episodes(Record, frozen=True, kw_only=True):
    """cuts: by file the first lines of each later episode; attempts: by file the attempt of its path."""

    cuts: dict[str, list[int]]
    attempts: dict[str, int]
    times: list[float]
    count: int

    def of(self, event: Event, at: float | None) -> int:
        """Episode of a line. A file without any cut is placed by time, else it belongs to the last episode."""
        where = event.where
        if where.file in self.attempts:
            return self.attempts[where.file]
        cuts = self.cuts.get(where.file)
        if cuts:
            # Files with fewer cuts than the job has episodes joined late: their last part is the job's last.
            return self.count - 1 - len(cuts) + bisect_right(cuts, where.line or 0)
        if at is not None and self.times:
            return min(bisect_right(self.times, at), self.count - 1)
        return self.count - 1


Clock = Callable[[Event], tuple[float | None, float]]


def find(files: Sequence[File], signals: Sequence[Signal], marks: Sequence[Mark], clock: Clock) -> Episodes:
    """Cut every file at its restarts; `clock` gives an event's time."""
    attempts = {file.path: file.attempt for file in files if file.attempt is not None}
    first = min(attempts.values(), default=0)
    attempts = {path: number - first for path, number in attempts.items()}
    cuts = _cuts(signals, marks)
    count = max([len(lines) + 1 for lines in cuts.values()] + [number + 1 for number in attempts.values()], default=1)
    return Episodes(cuts=cuts, attempts=attempts, times=_starts(cuts, attempts, count, marks, clock), count=count)


def _cuts(signals: Sequence[Signal], marks: Sequence[Mark]) -> dict[str, list[int]]:
    """By file, the lines at which a run begins: a restart, or a world started once more, after something fatal."""
    fatal: dict[str, list[int]] = defaultdict(list)
    for signal in signals:
        known = signal.signature
        if known.severity == "fatal" and known.specificity == "strong" and known.role != "context":
            fatal[signal.event.where.file] += signal.lines or [signal.event.where.line or 0]
    for found in fatal.values():
        found.sort()
    lines: dict[str, list[int]] = defaultdict(list)
    running: dict[str, dict[int | None, int]] = defaultdict(dict)
    for mark in sorted(marks, key=lambda mark: (mark.event.where.file, mark.event.where.line or 0)):
        file, line, rank = mark.event.where.file, mark.event.where.line or 0, mark.event.rank
        begun = running[file].get(rank) if mark.kind == "start" else 0
        if mark.kind in {"restart", "start"} and begun is not None and _any_between(fatal[file], begun, line):
            lines[file].append(line)
            # From here on all ranks start once more: only what is fatal after this line ends the next run.
            running[file] = dict.fromkeys(running[file], line)
        running[file].setdefault(rank, line)
    return {file: cut for file, cut in _apart(lines, fatal).items() if cut}


def _any_between(lines: Sequence[int], first: int, last: int) -> bool:
    """Of ascending lines."""
    return bisect_left(lines, first) < bisect_left(lines, last)


def _apart(lines: dict[str, list[int]], fatal: dict[str, list[int]]) -> dict[str, list[int]]:
    """Restart lines with nothing fatal between them are one restart, told by several ranks."""
    kept: dict[str, list[int]] = {}
    for file, found in lines.items():
        kept[file] = [
            line for last, line in zip([0, *found], found, strict=False) if _any_between(fatal[file], last, line)
        ]
    return kept


def _starts(
    cuts: dict[str, list[int]], attempts: dict[str, int], count: int, marks: Sequence[Mark], clock: Clock
) -> list[float]:
    """When each later episode began, so that files without any cut can be placed; empty when one of them is unknown."""
    earliest: dict[int, float] = {}
    for mark in marks:
        where, seconds = mark.event.where, clock(mark.event)[0]
        if seconds is None:
            continue
        index = attempts.get(where.file)
        if index is None and where.file in cuts and len(cuts[where.file]) == count - 1:
            index = bisect_right(cuts[where.file], where.line or 0)
        if index:
            earliest[index] = min(earliest.get(index, seconds), seconds)
    return [earliest[index] for index in range(1, count)] if len(earliest) == count - 1 else []


def epochs(episodes: Episodes, failed: set[int]) -> tuple[tuple[Epoch, ...], int]:
    """The list of episodes, and the index of the one to answer: the last that failed, else the last."""
    answered = max(failed, default=episodes.count - 1)
    main = max(episodes.cuts, key=lambda path: (len(episodes.cuts[path]), path), default=None)
    cuts = episodes.cuts.get(main or "", [])
    starts: list[int | None] = [None, *cuts] if len(cuts) == episodes.count - 1 else [None] * episodes.count
    rows = []
    for index, start in enumerate(starts):
        end = starts[index + 1] if index + 1 < len(starts) else None
        why = "the first run seen" if index == 0 else "a restart in the log" if cuts else f"attempt {index}"
        rows.append(
            Epoch(
                index=index,
                why=why,
                file=main,
                first_line=start,
                last_line=end - 1 if end else None,
                failed=index in failed,
            )
        )
    return tuple(rows), answered
