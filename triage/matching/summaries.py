"""What the ends of a text file say: how long it is, what it said last, from when to when."""

from __future__ import annotations

from collections.abc import Iterator

from triage.matching.readings import Reader
from triage.matching.windows import View, alone
from triage.model.bundle import File
from triage.model.event import Event, Stamp
from triage.model.summary import Summary

_TRIED = 20  # lines at either end that are asked for a time


def of_first(view: View, reader: Reader) -> Stamp | None:
    """The first time that one of the first lines carries."""
    events = _events(view, reader, 0, after=_TRIED)
    return next((event.time for event in events if event.time), None)


def of_last(view: View, reader: Reader, first: Stamp | None) -> Summary:
    """The summary of a file from its last chunk and its first time."""
    data = view.chunk.data
    if not data:
        return Summary(file=view.file.path, lines=0)
    start = data.rfind(b"\n", 0, len(data) - 1) + 1
    events = _events(view, reader, start, before=_TRIED)
    end = next(events, None)
    timed = end if end is None or end.time else next((event for event in events if event.time), None)
    return Summary(
        file=view.file.path,
        lines=view.number(start),
        last_line=end.where.line if end else None,
        last_text=end.text if end else "",
        first=first,
        last=timed.time if timed else None,
    )


def unread(file: File) -> Summary:
    """The summary of a file of which nothing could be read."""
    return Summary(file=file.path)


def _events(view: View, reader: Reader, start: int, before: int = 0, after: int = 0) -> Iterator[Event]:
    """Events of the lines around an offset that are not blank, each read by itself when it is asked for.

    From the first on, or, when lines before the offset are wanted, from the last one back.
    """
    window, source = view.window(start, before, after), reader.best_source(view.file.sources)
    lines = list(zip(window.lines, window.numbers, strict=True))[:: -1 if before else 1]
    return (reader.parsed(alone(view.file, text, number), source) for text, number in lines if text.strip())
