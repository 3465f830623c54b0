"""From a window to an Event: who printed the line and when, the same way for all logs of the training processes."""

from __future__ import annotations

import re

from triage.model.bundle import Window
from triage.model.event import Event, Where
from triage.parsers import _stamps
from triage.parsers._prefix import Prefix, split

TEXT = 2000  # characters of a line that an Event keeps
BODY = 40_000  # characters of a joined message that an Event keeps

# How messages name their own rank: `[Rank 3] ...`, `[PG ID 1 PG GUID 0(default_pg) Rank 3] ...`, `[rank=3]`,
# `[rank: 3] Seed set`, `Rank 3: ...`, `rank 3 | ...`; rank 0 prints the tracebacks of others, with `(RANK 3)` behind.
_SAYS_RANK = (
    re.compile(r"\[rank(?P<rank>\d{1,6})\]:"),
    re.compile(r"\[(?:PG [^\]\n]{0,120}? )?[Rr]ank[ :=]{1,2}(?P<rank>\d{1,6})\]"),
    re.compile(r"^\s{0,4}(?:global )?[Rr]ank[ _:=]{1,2}(?P<rank>\d{1,6})[:,|\]]"),
    re.compile(r"^Traceback \(most recent call last\): \(RANK (?P<rank>\d{1,6})\)"),
    re.compile(r"^\s{0,4}rank\s{0,8}: (?P<rank>\d{1,6}) \(local_rank: (?P<local_rank>\d{1,4})\)"),
)
_SAYS_LOCAL = re.compile(r"\blocal[_ ]rank[ :=]{1,2}(?P<local_rank>\d{1,4})\b")
_HEAD = 240  # characters of a line in which it names its rank


def event(window: Window, source: str, body: str | None = None, about: str = "") -> Event:
    """The Event of the line that was hit.

    body: the joined message; the line itself when None.
    about: more text that may name the rank, such as the message's first line.
    """
    prefix = split(window.lines[window.hit])
    text = prefix.rest[:TEXT]
    rank, local_rank = _who(prefix, text, about, window)
    return Event(
        where=Where(file=window.file.path, line=window.numbers[window.hit]),
        text=text,
        body=text if body is None else body[:BODY],
        source=source,
        time=_stamps.find(text)[0] or _stamps.find(window.lines[window.hit])[0] or _stamps.find(about)[0],
        node=prefix.node or window.file.node,
        rank=rank,
        local_rank=local_rank,
        pid=prefix.pid if prefix.pid is not None else window.file.pid,
    )


def _who(prefix: Prefix, text: str, about: str, window: Window) -> tuple[int | None, int | None]:
    rank, local_rank = prefix.rank, prefix.local_rank
    for part in (text[:_HEAD], about[:_HEAD]):
        if "ank" not in part and "RANK" not in part:
            continue
        said = next(filter(None, (form.search(part) for form in _SAYS_RANK)), None)
        if said and rank is None:
            rank = int(said["rank"])
        local = _SAYS_LOCAL.search(part)
        if local and local_rank is None:
            local_rank = int(local["local_rank"])
    if rank is None:
        rank = window.file.rank if window.file.rank is not None else _from_task(prefix, window)
    return rank, local_rank if local_rank is not None else window.file.local_rank


def _from_task(prefix: Prefix, window: Window) -> int | None:
    """The task number of `srun -l` as a rank, unless the lines around show that each task is a whole node."""
    if prefix.task is None or prefix.local_rank is not None:
        return None
    near = window.lines[max(0, window.hit - 40) : window.hit + 40]
    for line in near:
        other = split(line)
        if other.task is not None and (other.local_rank is not None or other.rank not in {None, other.task}):
            return None
    return prefix.task
