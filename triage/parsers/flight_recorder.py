"""PyTorch flight recorder dumps: the last collectives of one rank, pickled or JSON, versions 2.2 (bare list) to 2.10.

Facts of the rank: fr.version, fr.entries (how many records), fr.unreadable (why).
Facts of a rank and group (entity rank, group):
fr.group.ranks      members, global ranks; absent when the dump does not say (Gloo)
fr.group.desc       what the group is for, as the framework named it
fr.enqueued, fr.started, fr.completed   sequence numbers; -1 is none yet; started is absent unless timing was on
fr.pending          own operations not completed
fr.p2p              true when the group carried point-to-point operations: its counters then count those too
fr.last_op, .last_seq, .last_state, .last_sizes, .last_dtypes, .last_frame    the first operation not completed;
                    last_frame is the innermost line outside torch; last_op carries the time of its issue
fr.last_order       place of that operation among all that the rank issued
fr.last_peer        the global rank that a pending send or receive waits for
fr.transfers        `peer sends done receives done`, counts of what this rank issued to and from each peer; only when
                    the dump holds all records since the start
fr.recent           `seq op in-sizes out-sizes dtypes` of the operations around it, oldest first, at most RECENT
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import compress
from typing import Any

from msgspec import UNSET

from triage.model.base import Value
from triage.model.bundle import Document
from triage.model.event import Fact, Stamp
from triage.parsers._documents import Teller, integer, listing, mapping, rank_of, text
from triage.parsers._flight_records import Dump, Entry, load

SOURCE = "flight_recorder"
MAGIC = (b"\x80",)  # a pickle of protocol 2 or later
GROUPS = 512  # of one rank; Megatron makes about 20
MEMBERS = 131_072
RECENT = 8
UNSIGNED = 1 << 31  # releases around 2.3 print -1 as a number beyond this
BEFORE_PENDING = 3
_MARKS = (b"pg_config", b"profiling_name", b"time_created_", b"pg_status")
_PEER = re.compile(r"(send|recv)\D{0,3}(\d{1,7})\s*(->|<-)\s*(\d{1,7})")
_LIBRARY = re.compile(
    r"(?:^|/)(?:torch|torchrun|runpy|threading|importlib|lightning/pytorch)(?:/|\.py|$)|^\?\?|^<|\.(?:cpp|h)$"
)


def recognises(head: bytes, tail: bytes) -> int:
    """2 for a pickle or JSON that names a dump's keys."""
    shaped = head[:1] == b"\x80" or head.lstrip()[:1] in (b"{", b"[")
    return 2 if shaped and sum(mark in head or mark in tail for mark in _MARKS) >= 2 else 0


def facts(document: Document) -> Iterator[Fact]:
    """What the dump says, a bounded number of facts for each group."""
    teller = Teller(document, {"rank": rank_of(document.file)})
    try:
        dump = load(document)
    except ValueError as error:
        yield teller.fact("fr.unreadable", str(error)[:200])
        return
    entries = dump.entries or []
    yield teller.fact("fr.version", "2.0" if dump.version is UNSET else text(dump.version) or "2.2")
    yield teller.fact("fr.entries", len(entries))
    whole = _whole(entries)
    for name, group in _groups(dump, entries).items():
        yield from group.facts(teller.about({"group": name}), whole)


def _whole(entries: list[Entry]) -> bool:
    """Were none dropped since the start? Their numbers are then those from 0 on; the last alone tells most often."""
    count = len(entries)
    if not entries or (integer(entries[-1].record_id) or 0) >= count:
        return False
    return {integer(entry.record_id) or 0 for entry in entries} == set(range(count))


class _Group:
    """One process group as one rank sees it."""

    def __init__(self, config: dict[Any, Any]) -> None:
        self.desc = text(config.get("desc"))
        self.ranks = _members(config.get("ranks"))
        self.status: dict[Any, Any] = {}
        self.entries: list[Entry] = []

    def facts(self, teller: Teller, whole: bool) -> Iterator[Fact]:
        """Counters, then the first operation that is not completed. `whole`: no record was dropped."""
        sequences, over = list(map(_sequence, self.entries)), list(map(_done, self.entries))
        pending = [entry for entry, done in zip(self.entries, over, strict=True) if not done]
        point = any(map(_point_to_point, self.entries))
        values: dict[str, Value] = {
            "fr.group.ranks": self.ranks or None,
            "fr.group.desc": self.desc or None,
            "fr.enqueued": self._count("last_enqueued_collective", sequences),
            "fr.started": _nothing_is_none(integer(self.status.get("last_started_collective"))),
            "fr.completed": self._count("last_completed_collective", compress(sequences, over)),
            "fr.pending": len(pending),
            "fr.p2p": point or None,
            "fr.recent": _recent(self.entries, pending) or None,
            "fr.transfers": self._transfers() if whole and point else None,
        }
        yield from teller.some(values)
        if pending:
            yield from self._first(teller, min(pending, key=_order))

    def _first(self, teller: Teller, entry: Entry) -> Iterator[Fact]:
        created = integer(entry.time_created_ns) or (integer(entry.time_created_us) or 0) * 1000
        fact = teller.fact("fr.last_op", _operation(entry))
        yield Fact(
            name=fact.name, value=fact.value, where=fact.where, entity=fact.entity,
            time=Stamp(seconds=created / 1e9, kind="utc") if created > 0 else None,
        )  # fmt: skip
        values: dict[str, Value] = {
            "fr.last_seq": _sequence(entry),
            "fr.last_state": text(entry.state) or None,
            "fr.last_sizes": _sizes(entry, "input_sizes"),
            "fr.last_dtypes": _short(entry.rare("input_dtypes")),
            "fr.last_frame": _frame(entry),
            "fr.last_order": _order(entry),
            "fr.last_peer": self._peer(entry),
        }
        yield from teller.some(values)

    def _count(self, key: str, sequences: Iterable[int | None]) -> int | None:
        """The group's own counter, or a record's higher number: the watchdog updates its counters late."""
        numbers = [found for found in sequences if found is not None]
        told = integer(self.status.get(key))
        if told is not None and told <= UNSIGNED:
            numbers.append(told)
        return max(numbers, default=-1)

    def _transfers(self) -> list[str]:
        counts: dict[int, list[int]] = {}
        for entry in self.entries:
            peer = self._peer(entry)
            if peer is not None:
                told = counts.setdefault(peer, [0, 0, 0, 0])
                at = 0 if "send" in text(entry.profiling_name) else 2
                told[at] += 1
                told[at + 1] += _done(entry)
        return [" ".join(map(str, [peer, *told])) for peer, told in sorted(counts.items())]

    def _peer(self, entry: Entry) -> int | None:
        found = _PEER.search(text(entry.profiling_name))
        if not found:
            return None
        local = int(found.group(4))  # numbers in the name count within the group
        return sorted(self.ranks)[local] if local < len(self.ranks) else (None if self.ranks else local)


def _groups(dump: Dump, entries: list[Entry]) -> dict[str, _Group]:
    """Groups by name. Status is keyed by a number of this process alone: entries tell which group it is."""
    config = mapping(dump.pg_config)
    groups = {str(name)[:200]: _Group(mapping(item)) for name, item in list(config.items())[:GROUPS]}
    names: dict[str, str] = {}
    for entry in entries:
        name = _group_name(entry, groups)
        if name not in groups and len(groups) >= GROUPS:
            continue
        names[str(entry.pg_id)] = name
        if name not in groups:
            groups[name] = _Group({"desc": text([*listing(entry.process_group), "", ""][1])})
        groups[name].entries.append(entry)
    _place_status(mapping(dump.pg_status), names, groups)
    return {name: group for name, group in groups.items() if group.entries or group.status or group.ranks}


def _group_name(entry: Entry, groups: dict[str, _Group]) -> str:
    """The name that all ranks share; releases before 2.4 give the local number only."""
    pair = entry.process_group
    if isinstance(pair, (list, tuple)) and pair and isinstance(pair[0], str):
        return pair[0][:200]
    local = str(entry.pg_id)[:200]
    return local if local in groups or len(groups) != 1 else next(iter(groups))


def _place_status(status: dict[Any, Any], names: dict[str, str], groups: dict[str, _Group]) -> None:
    keys = [str(key) for key in status]
    guessed: dict[str, str] = {}
    if len(keys) == len(groups) and all(item.isdigit() for item in [*keys, *groups]):
        # Both are numbered in the order of creation, so they pair up when none is missing.
        guessed = dict(zip(sorted(keys, key=int), sorted(groups, key=int), strict=True))
    elif len(keys) == 1 == len(groups):
        guessed = {keys[0]: next(iter(groups))}
    for key, counters in status.items():
        name = names.get(str(key)) or guessed.get(str(key))
        if name in groups:
            groups[name].status = mapping(counters)


def _members(value: Any) -> list[int]:
    """`"[0, 1, 2]"` or a list of numbers."""
    return _spelled(value[: 8 * MEMBERS]) if isinstance(value, str) else _ranks(listing(value))


@lru_cache(maxsize=4096)
def _spelled(members: str) -> list[int]:
    """Thousands of dumps spell the same large group: they share one list."""
    return _ranks(members.strip("[] ()").split(","))


def _ranks(items: list[Any]) -> list[int]:
    numbers = [integer(item) for item in items[:MEMBERS]]
    return [item for item in numbers if item is not None and item >= 0]


def _done(entry: Entry) -> bool:
    """Completed; Gloo leaves the state at scheduled and only retires the record."""
    if entry.state == "completed" or entry.retired is True:
        return True
    return bool(integer(entry.time_discovered_completed_ns))


def _point_to_point(entry: Entry) -> bool:
    if entry.is_p2p is True:
        return True
    name = entry.profiling_name
    return isinstance(name, str) and ("->" in name or "<-" in name) and bool(_PEER.search(name[:400]))


def _sequence(entry: Entry) -> int | None:
    if _point_to_point(entry):
        return integer(entry.p2p_seq_id)
    found = integer(entry.collective_seq_id)
    return found if found is not None else integer(entry.seq_id)


def _order(entry: Entry) -> int:
    for value in (entry.record_id, entry.time_created_ns, entry.time_created_us, entry.op_id, entry.seq_id):
        if (found := integer(value)) is not None:
            return found
    return 0


def _operation(entry: Entry) -> str:
    return text(entry.profiling_name, 80) or "unknown"


def _short(value: Any) -> str | None:
    """Dtypes in a line, cut: a coalesced record can list thousands."""
    items = [str(item)[:20] for item in listing(value)[:8]] if not isinstance(value, str) else [value[:80]]
    return ",".join(items) or None


def _sizes(entry: Entry, key: str) -> str | None:
    value = entry.rare(key)
    if not isinstance(value, (list, tuple)):
        return None
    shapes = [listing(shape)[:8] for shape in list(value)[:8]]
    return ";".join("x".join(str(integer(side)) for side in shape) for shape in shapes)


def _recent(entries: list[Entry], pending: list[Entry]) -> list[str]:
    """The collectives around the first one that is not completed: enough to compare ranks at one sequence number."""
    ordered = sorted((entry for entry in entries if not _point_to_point(entry)), key=_order)
    first = min(map(_order, pending), default=None)
    at = len(ordered) if first is None else bisect_left(ordered, first, key=_order)
    if at < len(ordered) and _order(ordered[at]) != first:
        at = len(ordered)
    start = max(min(at - BEFORE_PENDING, len(ordered) - RECENT), 0)
    return [
        " ".join([str(_sequence(e)), _operation(e), _sizes(e, "input_sizes") or "-", _sizes(e, "output_sizes") or "-",
                  _short(e.rare("input_dtypes")) or "-"])
        for e in ordered[start : start + RECENT]
    ]  # fmt: skip


def _frame(entry: Entry) -> str | None:
    """`file:line name` of the innermost frame that is not a library's."""
    for frame in listing(entry.rare("frames"))[:64]:
        item = mapping(frame)
        name = text(item.get("filename"))
        if name and not _LIBRARY.search(name):
            return f"{name}:{integer(item.get('line'))} {text(item.get('name'), 80)}"
    return None


def _nothing_is_none(value: int | None) -> int | None:
    """-1 of `started` means that timing was off."""
    return None if value is None or value < 0 else value
