"""Where the blocks of a device lie, in the order of addresses, coarse enough for a picture.

snapshot.map             a text for each segment, in the order of addresses: `address size run,run,...`, the address in
                         hexadecimal or `-`; a run is neighbouring blocks that are alike: a letter, bytes, and `@n` when
                         place n of snapshot.map_holders holds them. a in use, p freed but awaited by a stream, i free
                         inside a segment in use, f free in a wholly free segment, u not told; m pools small blocks of
                         several kinds, followed by `/` and the bytes of it that are in use
snapshot.map_holders     `bytes blocks place`, the call sites that hold most of the segments in the map
snapshot.map_left        segments that are not in the map, when there are any; snapshot.map_left_bytes their size
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from triage.model.base import Value
from triage.parsers._documents import integer, listing, mapping

SEGMENTS = 192  # the largest ones; a card of 141 GiB has 145 when they are of 1 GiB
RUNS = 400  # of a segment: a bar of a page is hardly wider in pixels
RUNS_IN_ALL = 25_600
HOLDERS = 24
BLOCKS = 500_000  # looked at for all segments of a device
_STATES = {"active_allocated": "a", "active_pending_free": "p", "active_awaiting_free": "p", "inactive": "i"}
Segments = list[dict[Any, Any]]


class Run(NamedTuple):
    """Neighbouring blocks: state letter, bytes, of these in use, blocks, and who holds them."""

    state: str
    size: int
    used: int
    blocks: int
    place: str


def memory_map(segments: Segments, place: Callable[[dict[Any, Any]], str]) -> dict[str, Value]:
    """The facts of one device; `place` is the call site of a block."""
    ordered = sorted(segments, key=lambda each: (-_size(each, "total_size"), integer(each.get("address")) or 0))
    chosen = [(each, blocks) for each, blocks in _looked_at(ordered[:SEGMENTS]) if _size(each, "total_size")]
    if not chosen:
        return {}
    if all(integer(each.get("address")) is not None for each, _ in chosen):
        chosen.sort(key=lambda item: integer(item[0]["address"]) or 0)
    told, most = [list(_runs(*each, place)) for each in chosen], min(RUNS, RUNS_IN_ALL // len(chosen))
    holders = _holders(run for runs in told for run in runs)
    numbers = {name: at for at, (name, _, _) in enumerate(holders)}
    left = [_size(each, "total_size") for each in ordered[SEGMENTS:]]
    return {
        "snapshot.map": [
            _written(each, _coarse(runs, most), numbers) for (each, _), runs in zip(chosen, told, strict=True)
        ],
        "snapshot.map_holders": [f"{size} {count} {name}" for name, size, count in holders] or None,
        "snapshot.map_left": len(left) or None,
        "snapshot.map_left_bytes": sum(left) or None,
    }


def _looked_at(segments: Segments) -> Iterator[tuple[dict[Any, Any], Segments]]:
    """Each segment with its blocks, until there were too many."""
    budget = BLOCKS
    for segment in segments:
        blocks = [mapping(block) for block in listing(segment.get("blocks"))[:budget]]
        budget -= len(blocks)
        yield segment, blocks


def _size(item: dict[Any, Any], key: str) -> int:
    return max(integer(item.get(key)) or 0, 0)


def _runs(segment: dict[Any, Any], blocks: Segments, place: Callable[[dict[Any, Any]], str]) -> Iterator[Run]:
    """The blocks in order, neighbours that are alike as one; what they leave of the segment is unknown."""
    room = _size(segment, "total_size")
    letters = [_letter(block.get("state")) for block in blocks]
    if not _size(segment, "active_size") and "a" not in letters and "p" not in letters:
        letters = ["f" if letter == "i" else letter for letter in letters]
    alike = [
        (letter, place(block) if letter in "ap" else "", min(_size(block, "size"), room))
        for letter, block in _in_order(list(zip(letters, blocks, strict=True)))
    ]
    for (state, holder), group in groupby(alike, key=itemgetter(0, 1)):
        sizes = [size for _, _, size in group]
        size = min(sum(sizes), room)
        room -= size
        if size:
            yield Run(state, size, size if state in "ap" else 0, len(sizes), holder)
    if room:
        yield Run("u", room, 0, 0, "")


def _in_order(rows: list[tuple[str, dict[Any, Any]]]) -> list[tuple[str, dict[Any, Any]]]:
    """By address when all have one, else as they stand: old releases list them in the order of addresses."""
    known = [at for _, block in rows if (at := integer(block.get("address"))) is not None]
    if len(known) < len(rows) or known == sorted(known):
        return rows
    return [row for _, row in sorted(zip(known, rows, strict=True), key=itemgetter(0))]


def _letter(state: Any) -> str:
    return _STATES.get(state, "u") if isinstance(state, str) else "u"


def _holders(runs: Iterable[Run]) -> list[tuple[str, int, int]]:
    """Place, bytes and blocks of those that hold most."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for run in runs:
        if run.place:
            found[run.place][0] += run.size
            found[run.place][1] += run.blocks
    ranked = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))[:HOLDERS]
    return [(name, size, count) for name, (size, count) in ranked]


def _coarse(runs: list[Run], most: int) -> list[Run]:
    """At most so many: those smaller than a cell are pooled with their neighbours until they fill one.

    A third of the runs can be as large as a cell, a third can be full pools, a third pools that end before a large run.
    """
    if len(runs) <= most:
        return runs
    cell = max(1, -(-3 * sum(run.size for run in runs) // (most - 1)))
    pools: list[list[Run]] = [[]]
    filled = 0
    for run in runs:
        if pools[-1] and (run.size >= cell or filled >= cell):
            pools.append([])
            filled = 0
        pools[-1].append(run)
        filled += run.size
    return [_pooled(pool) for pool in pools]


def _pooled(runs: list[Run]) -> Run:
    states, places = {run.state for run in runs}, {run.place for run in runs}
    return Run(
        states.pop() if len(states) == 1 else "m", sum(run.size for run in runs), sum(run.used for run in runs),
        sum(run.blocks for run in runs), places.pop() if len(places) == 1 else "",
    )  # fmt: skip


def _written(segment: dict[Any, Any], runs: list[Run], numbers: dict[str, int]) -> str:
    address = integer(segment.get("address"))
    told = ",".join(
        f"{run.state}{run.size}"
        + (f"/{run.used}" if run.state == "m" else "")
        + (f"@{numbers[run.place]}" if run.place in numbers else "")
        for run in runs
    )
    return f"{'-' if address is None or address < 0 else f'{address:x}'} {_size(segment, 'total_size')} {told}"
