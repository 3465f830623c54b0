"""Runs of the job between restarts. The last failed one is answered, the others are listed; a last one that ended well
by its own word is answered itself.

An episode ends where a line says so: an elastic restart or requeue, or, after something fatal was printed in the same
file, a new world that starts, or a rank that counts its steps from further back. Files of different attempts
(`attempt_1/`) belong to different episodes.
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
    by_file: dict[str, list[Mark]] = defaultdict(list)
    for mark in sorted(marks, key=lambda mark: (mark.event.where.file, mark.event.where.line or 0)):
        by_file[mark.event.where.file].append(mark)
    for file, told in by_file.items():
        if fatal[file]:
            lines[file] = _Runs(fatal[file]).begun(told)
    return {file: cut for file, cut in _apart(lines, fatal).items() if cut}


class _Runs:
    """The marks of one file in order, with the lines of what was fatal there."""

    def __init__(self, fatal: Sequence[int]) -> None:
        self._fatal = fatal
        self._running: dict[int | None, int] = {}  # by rank the line since which its run goes on
        self._steps: dict[int | None, tuple[int, int]] = {}  # by rank the last step and its line

    def begun(self, marks: Sequence[Mark]) -> list[int]:
        """Lines at which a run begins."""
        out = []
        for mark in marks:
            line, rank = mark.event.where.line or 0, mark.event.rank
            if (start := self._start(mark, line, rank)) is not None:
                out.append(start)
                # From here on all ranks start once more: only what is fatal after this line ends the next run.
                self._running, self._steps = dict.fromkeys(self._running, start), {}
            self._running.setdefault(rank, line)
            step = mark.fields.get("step")
            if mark.kind == "step" and isinstance(step, int):
                self._steps[rank] = (step, line)
        return out

    def _start(self, mark: Mark, line: int, rank: int | None) -> int | None:
        """The line where the run began that a mark belongs to, when it is a new one."""
        if mark.kind in {"restart", "start"}:
            begun = self._running.get(rank) if mark.kind == "start" else 0
            if begun is None and self._steps:  # who has made steps had started before its log begins
                begun = max(at for _, at in self._steps.values())
            return line if begun is not None and _any_between(self._fatal, begun, line) else None
        step, (before, at) = mark.fields.get("step"), self._steps.get(rank, (0, line))
        again = mark.kind == "step" and isinstance(step, int) and step < before
        return line if again and _any_between(self._fatal, at, line) else None


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


def ended(episodes: Episodes, marks: Sequence[Mark], clock: Clock) -> bool:
    """Does the last run say by itself that it came to its end, in a log that tells it from those before?"""
    ends = (mark.event for mark in marks if mark.kind == "end")
    own = (event for event in ends if event.where.file in episodes.cuts or event.where.file in episodes.attempts)
    return episodes.count > 1 and any(episodes.of(event, clock(event)[0]) == episodes.count - 1 for event in own)


def epochs(episodes: Episodes, failed: set[int], well: bool = False) -> tuple[tuple[Epoch, ...], int]:
    """The list of episodes, and the index of the one to answer: the last that failed, else the last.

    well: the last run ended well by its own word; then it is answered, whatever those before it did.
    """
    answered = episodes.count - 1 if well else max(failed, default=episodes.count - 1)
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
