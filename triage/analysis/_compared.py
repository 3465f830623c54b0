"""The mismatch as torch's debug wrapper shows it: each rank prints its own call beside one that differs."""

from __future__ import annotations

import re
from collections import Counter

from triage.analysis._stall import Stall
from triage.model.event import Where
from triage.model.incident import Incident

SIGNATURE = "collective/mismatch-detected"
_CALL = re.compile(
    r"Rank (\d{1,6}) is running (?:inconsistent )?collective: CollectiveFingerPrint\("
    r"(?:SequenceNumber=\s?(\d{1,12}), )?"
    r"(OpType=\w{1,40}(?:, TensorShape=\[[\d, ]{0,200}\])?(?:, TensorDtypes=\w{1,40})?)"
)


def stall(incident: Incident) -> Stall | None:
    """The ranks whose call is not that of most; nothing when no call has a majority."""
    calls: dict[int, str] = {}
    places: dict[int, tuple[Where, str]] = {}
    sequence: int | None = None
    for placed in incident.signals:
        event = placed.signal.event
        if placed.signal.signature.id != SIGNATURE or placed.episode != incident.answered:
            continue
        for index, (rank, seq, call) in enumerate(_CALL.findall(event.text)[:2]):
            calls.setdefault(int(rank), call)
            sequence = int(seq) if seq and sequence is None else sequence
            if index == 0:
                places.setdefault(int(rank), (event.where, event.text))
    return _of_most(calls, places, sequence)


def _of_most(calls: dict[int, str], places: dict[int, tuple[Where, str]], sequence: int | None) -> Stall | None:
    if len(calls) < 3:
        return None
    usual, count = Counter(calls.values()).most_common(1)[0]
    odd = sorted(rank for rank, call in calls.items() if call != usual)
    if not odd or 2 * count <= len(calls):
        return None
    cited = [places[rank] for rank in [*odd, *sorted(calls)] if rank in places]
    return Stall(
        kind="mismatch", culprits=tuple(odd), op=_operation(usual), seq=sequence, waiting=count,
        places={rank: places[rank][0] for rank in odd if rank in places},
        why={rank: f"rank {rank} called {calls[rank]}, most ranks {usual}" for rank in odd},
        summary=f"{count} ranks called {usual}", evidence=tuple(dict.fromkeys(cited))[:6],
    )  # fmt: skip


def _operation(call: str) -> str:
    return call.removeprefix("OpType=").split(",")[0].lower()
