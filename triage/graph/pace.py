"""Did the job go on as fast after a moment as before it? Told from the times of its step lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from triage.graph.clocks import Clocks
from triage.model.event import Mark
from triage.model.incident import Placed

LEAST = 3  # step lines on either side
SLOWER = 1.05  # times as long a step: less is within what steps of one run differ by

Step = tuple[int, int, float]  # line, number of the step, seconds on the job's time line


class Pace:
    """Steps by file, with their times."""

    def __init__(self, marks: Sequence[Mark], time: Clocks) -> None:
        found: dict[str, list[Step]] = defaultdict(list)
        for mark in marks:
            step = mark.fields.get("step") if mark.kind == "step" else None
            if isinstance(step, int) and (at := time.at(mark.event)[0]) is not None:
                found[mark.event.where.file].append((mark.event.where.line or 0, step, at))
        self.files = {file: sorted(steps) for file, steps in found.items()}

    def kept(self, item: Placed) -> bool | None:
        """True: as fast after the signal as before; False: slower; None: nothing to compare, as at a job's start."""
        before, after = self._around(item)
        one, two = _seconds(before), _seconds(after)
        return None if one is None or two is None else two <= SLOWER * one

    def _around(self, item: Placed) -> tuple[list[Step], list[Step]]:
        """Steps of its own file by line; else those of the file that has most, by time."""
        where = item.signal.event.where
        if where.file in self.files and where.line is not None:
            steps, last = self.files[where.file], item.signal.last_line or where.line
            return [step for step in steps if step[0] < where.line], [step for step in steps if step[0] > last]
        if item.at is None or not self.files:
            return [], []
        steps = max(sorted(self.files.items()), key=lambda pair: len(pair[1]))[1]
        return [step for step in steps if step[2] < item.at], [step for step in steps if step[2] > item.at]


def _seconds(steps: list[Step]) -> float | None:
    """Seconds a step, over all of them; None when they are few or do not count up."""
    ordered = {step: at for _, step, at in steps}
    if len(ordered) < LEAST:
        return None
    first, last = min(ordered), max(ordered)
    took = ordered[last] - ordered[first]
    return took / (last - first) if took > 0 else None
