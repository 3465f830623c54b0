"""The part of a step that input takes, where step lines tell the time of the step and, within it, that of the input."""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from triage.model.base import number
from triage.model.event import Mark, Where
from triage.model.incident import Incident

FEWEST = 3  # step lines that tell both times
LONG = 20  # steps between two lines from which on the difference of their running averages counts
_WHOLE, _DATA = r"(?P<whole>\d{1,7}\.\d{1,6})", r"(?P<data>\d{1,7}\.\d{1,6})"
_INPUT = r"\b(?:data_time|[Dd]ata(?: time)?):?\s{1,6}"
_WORD = "ata"  # in each of the words for input: most step lines have none, and a search for the word costs nothing
_TIMES = (
    re.compile(rf"\b[Tt]ime:?\s{{1,6}}{_WHOLE}(?![^\n]{{0,40}}\btime:)[^\n]{{0,120}}?{_INPUT}{_DATA}"),
    re.compile(
        rf"{_INPUT}{_DATA}(?: \([\d.]{{1,14}}\))?,?\s{{1,6}}"
        rf"(?:[Bb]atch|[Ii]ter|[Tt]otal)(?:[ _]time)?:?\s{{1,6}}{_WHOLE}"
    ),
)
# `Time 0.550 (12.315)  Data 0.001 (11.761)`: of the step, and in brackets of all steps of the epoch so far.
_AVERAGES = re.compile(
    rf"\b[Tt]ime:?\s{{1,6}}[\d.]{{1,14}} ?\( {{0,6}}{_WHOLE}\)[^\n]{{0,120}}?"
    rf"{_INPUT}[\d.]{{1,14}} ?\( {{0,6}}{_DATA}\)"
)


class Told(NamedTuple):
    """What one log tells: the share from 0 to 1, and the line that shows it best."""

    share: float
    where: Where
    text: str


_EPOCH = re.compile(r"[Ee]poch:?\s{0,3}\[?\s{0,3}(\d+)")


class _Times(NamedTuple):
    data: float
    whole: float
    mark: Mark


def logged_shares(incident: Incident) -> list[Told]:
    """One of each log that tells enough, by file."""
    told: dict[str, list[Mark]] = defaultdict(list)
    for mark in incident.marks:
        if mark.kind == "step" and mark.fields.get("step") is not None and _WORD in mark.event.text:
            told[mark.event.where.file].append(mark)
    return [found for _, marks in sorted(told.items()) if (found := _averaged(marks) or _single(marks))]


def _single(marks: Sequence[Mark]) -> Told | None:
    """From the times of single steps, but for the very first, which waits for the workers to start."""
    found = [(mark, _first(mark.event.text)) for mark in marks if mark.fields.get("step")]
    times = [_Times(float(match["data"]), float(match["whole"]), mark) for mark, match in found if match]
    times = [one for one in times if 0 < one.data <= one.whole]
    if len(times) < FEWEST:
        return None
    event = max(times, key=lambda one: one.data).mark.event
    return Told(_part(times), event.where, event.text)


def _first(text: str) -> re.Match[str] | None:
    return next((match for form in _TIMES if (match := form.search(text))), None)


def _part(times: Sequence[_Times]) -> float:
    """Of all the time, when waits come in bursts (each worker brings a batch at once); else that of the usual step."""
    usual = statistics.median(one.data / one.whole for one in times)
    waits = [one.data for one in times if one.data >= one.whole / 2]
    bursts = math.fsum(one.data for one in times) / math.fsum(one.whole for one in times)
    return max(usual, bursts) if len(waits) >= FEWEST else usual


def _averaged(marks: Sequence[Mark]) -> Told | None:
    """From running averages: the difference of two lines leaves out what came before, as a slow first step."""
    found = [(number(mark.fields.get("step")), _AVERAGES.search(mark.event.text), mark) for mark in marks]
    lines = [
        (step + 1, _Times(float(match["data"]), float(match["whole"]), mark))
        for step, match, mark in found
        if match and step is not None
    ]
    between = [
        _Times(late * other.data - early * one.data, late * other.whole - early * one.whole, other.mark)
        for (early, one), (late, other) in pairwise(lines)
        if late - early >= LONG and _epoch(one.mark) == _epoch(other.mark)
    ]
    between = [one for one in between if 0 <= one.data <= one.whole and one.whole > 0]
    if not between:
        return None
    event = max(between, key=lambda one: one.data).mark.event
    share = math.fsum(one.data for one in between) / math.fsum(one.whole for one in between)
    return Told(share, event.where, event.text)


def _epoch(mark: Mark) -> str:
    found = _EPOCH.search(mark.event.text)
    return found[1] if found else ""
