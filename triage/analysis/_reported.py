"""The hang as messages name it: torch's desync report, the analyser of dumps, ranks that wait for another's NCCL id."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from triage.analysis._stall import Stall
from triage.model.event import Event
from triage.model.incident import Incident

MANY = 8
_BEHIND = re.compile(
    r"\[(?P<ranks>\d{1,7}(?:, ?\d{1,7}){0,64})\] (?:finished|joined)[^\n]{0,80}"
    r"didn't join collective #(?P<seq>\d{1,12})"
)
_ID = re.compile(
    r"\[(?P<waiting>\d{1,7})\] is setting up NCCL communicator and retr(?:ie|ei)ving ncclUniqueId from "
    r"\[(?P<root>\d{1,7})\][^\n]{0,300}(?:time|Time)[- ]?d?[- ]?out"
)

_ODD = re.compile(r"Culprit rank (\d{1,7}); Error type: (?:COLLECTIVE_TYPE|SIZE_OR_SYNTAX|COLLECTIVE_DTYPE)_MISMATCH")


def stall(incident: Incident) -> Stall | None:
    """Ranks that a report says did not join, or called otherwise, else the rank for whose id the others waited."""
    events = [placed.signal.event for placed in incident.signals if placed.episode == incident.answered]
    return _not_joined(events) or _analysed(events) or _no_id(events)


def _lines(events: list[Event], expression: re.Pattern[str]) -> Iterator[tuple[Event, re.Match[str]]]:
    for event in events:
        if found := expression.search(event.text):
            yield event, found


def _not_joined(events: list[Event]) -> Stall | None:
    told: dict[int, tuple[Event, int]] = {}
    for event, found in _lines(events, _BEHIND):
        for rank in found.group("ranks").split(","):
            told.setdefault(int(rank), (event, int(found.group("seq"))))
    if not told or len(told) > MANY:
        return None
    places = {rank: event.where for rank, (event, _) in told.items()}
    evidence = tuple({event.where: event.text for event, _ in told.values()}.items())
    seq = min(number for _, number in told.values())
    return Stall(
        kind="never-arrived", culprits=tuple(sorted(told)), seq=seq, summary=evidence[0][1], places=places,
        evidence=evidence,
    )  # fmt: skip


def _analysed(events: list[Event]) -> Stall | None:
    """The ranks that the analyser of dumps found in another call than the rest; it compares all with the first."""
    told: dict[int, Event] = {}
    for event in events:
        for rank in _ODD.findall(event.text):
            told.setdefault(int(rank), event)
    if not told or len(told) > MANY:
        return None
    evidence = tuple({event.where: event.text for event in told.values()}.items())
    return Stall(
        kind="mismatch", culprits=tuple(sorted(told)), summary=evidence[0][1],
        places={rank: event.where for rank, event in told.items()}, evidence=evidence,
    )  # fmt: skip


def _no_id(events: list[Event]) -> Stall | None:
    """Only rank 0 of the whole job: numbers count within a group, so they must be those of the lines' prefixes."""
    found = list(_lines(events, _ID))
    roots = Counter(int(match.group("root")) for _, match in found)
    waiting = {int(match.group("waiting")) for _, match in found}
    local = any(event.rank not in (None, int(match.group("waiting"))) for event, match in found)
    if set(roots) != {0} or 0 in waiting or local:
        return None
    evidence = tuple({event.where: event.text for event, _ in found}.items())[:MANY]
    return Stall(
        kind="never-arrived", culprits=(0,), waiting=len(waiting), summary=evidence[0][1],
        why={0: f"{len(waiting)} ranks waited for the id that rank 0 publishes"}, evidence=evidence,
    )  # fmt: skip
