"""Which processes stand elsewhere than most, by the last stack of each.

stack.differ   yes: at least three and most wait for others, and a few do not; no: at least three wait in one call
stack.odd      one for each that stands elsewhere (entity {rank}, or {pid, node} when no rank is known): what it is at
Nothing is said when fewer were looked at, or when those that stand elsewhere went on between two dumps.
"""

from __future__ import annotations

from collections.abc import Iterator

from triage.analysis._standing import Stand, moved, stands
from triage.analysis._stood import MANY, MOST_WAIT, sentence
from triage.model.base import Scalar
from triage.model.event import Fact
from triage.model.incident import Incident


def derive(incident: Incident) -> Iterator[Fact]:
    """Who stands elsewhere."""
    last, went_on = _last(stands(incident))
    waiting = [stand for stand in last if stand.waits]
    odd = [stand for stand in last if not stand.waits]
    if len(waiting) < MOST_WAIT:
        return
    if not odd:
        if len({(stand.frame, stand.user) for stand in waiting}) == 1:
            yield _fact("stack.differ", "no", waiting[0], {})
    elif len(odd) <= min(MANY, max(1, len(last) // 4)) and not any(_key(stand) in went_on for stand in odd):
        yield _fact("stack.differ", "yes", odd[0], {})
        for stand in odd:
            yield _fact("stack.odd", stand.at, stand, _entity(stand))


def _last(found: list[Stand]) -> tuple[list[Stand], set[Scalar | tuple[Scalar, Scalar]]]:
    """The last stand of each process, and the processes that moved since the one before."""
    last: dict[Scalar | tuple[Scalar, Scalar], Stand] = {}
    went_on: set[Scalar | tuple[Scalar, Scalar]] = set()
    for stand in found:
        key = _key(stand)
        if key in last and moved(last[key], stand):
            went_on.add(key)
        last[key] = stand
    return list(last.values()), went_on


def _key(stand: Stand) -> Scalar | tuple[Scalar, Scalar]:
    """A process: by its rank, else by its number and file, which stands for its node."""
    return stand.rank if stand.rank is not None else (stand.pid, stand.where.file)


def _entity(stand: Stand) -> dict[str, Scalar]:
    return {"rank": stand.rank} if stand.rank is not None else {"pid": stand.pid} if stand.pid is not None else {}


def _fact(name: str, value: str, stand: Stand, entity: dict[str, Scalar]) -> Fact:
    return Fact(name=name, value=value, where=stand.where, entity=entity, text=sentence(stand), evidence=(stand.where,))
