"""What the ends of a text file say: how long it is, what it said last, from when to when."""

from __future__ import annotations

import msgspec

from triage.matching.readings import Reader
from triage.matching.scanner import Hit
from triage.matching.windows import View
from triage.model.bundle import File
from triage.model.event import Event, Stamp
from triage.model.summary import Summary

_TRIED = 20  # lines at either end that are asked for a time


def of_first(view: View, reader: Reader) -> Stamp | None:
    """The first time that one of the first lines carries."""
    start = 0
    for _ in range(_TRIED):
        if start >= len(view.chunk.data):
            break
        if view.text(start).strip() and (time := _event(view, reader, start).time):
            return time
        start = view.end(start) + 1
    return None


def of_last(view: View, reader: Reader, first: Stamp | None) -> Summary:
    """The summary of a file from its last chunk and its first time."""
    data, start = view.chunk.data, len(view.chunk.data)
    summary = Summary(file=view.file.path, lines=view.lines() if data else 0, first=first)
    for _ in range(_TRIED):
        if start <= 0 or summary.last is not None:
            break
        start = data.rfind(b"\n", 0, start - 1) + 1
        if view.text(start).strip():
            summary = _with(summary, view, _event(view, reader, start), start)
    return summary


def _with(summary: Summary, view: View, event: Event, start: int) -> Summary:
    if summary.last_line is None:
        summary = msgspec.structs.replace(summary, last_line=view.number(start), last_text=event.text)
    return msgspec.structs.replace(summary, last=event.time)


def unread(file: File) -> Summary:
    """The summary of a file of which nothing could be read."""
    return Summary(file=file.path)


def _event(view: View, reader: Reader, start: int) -> Event:
    return reader.event(view, Hit(start, view.end(start), 0, start), reader.best_source(view.file.sources), reach=0)
