"""PyTorch CUDA memory snapshots (`torch.cuda.memory._dump_snapshot`, `memory_snapshot()`), 2.0 and later.

Facts of a device (entity gpu, rank when the file's name says), sizes in bytes:
snapshot.reserved, .allocated, .requested    sums over segments; requested counts active blocks only
snapshot.cached_free       total of segments that are wholly free: empty_cache would return them
snapshot.split_waste       free blocks inside segments that are in use: nothing can return them
snapshot.largest_free      the largest free block
snapshot.rounding          size beyond what was asked for, over active blocks
snapshot.peak              highest allocated total within the recorded trace
snapshot.peak_holders      `bytes blocks place` at that peak, of what the trace saw allocated, where the end has less
snapshot.grown             allocated in the trace and never freed in it
snapshot.oom_count, .oom_requested, .oom_device_free   the last `oom` entry of the trace
snapshot.top_holders       `bytes blocks place`, the call sites that hold most, at most TOP
snapshot.map, .map_holders, .map_left, .map_left_bytes   where the blocks lie (see `_memory_map`), of the MAPS devices
                           that reserve most
Facts of the process: snapshot.alloc_conf (PYTORCH_CUDA_ALLOC_CONF), snapshot.expandable (true | false),
snapshot.max_split_size, snapshot.unreadable (why)
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from triage.model.base import Value
from triage.model.bundle import Document
from triage.model.event import Fact
from triage.parsers import _memory_map
from triage.parsers._documents import Teller, integer, json_value, listing, mapping, rank_of, text

SOURCE = "memory_snapshot"
MAGIC = (b"\x80",)
BLOCKS = 2_000_000
ENTRIES = 2_000_000
TOP = 5
DEVICES = 64
MAPS = 4
HIGHER = 1.05  # than at the end: from here on the peak is told apart
_MARKS = (b"segments", b"device_traces", b"segment_type", b"total_size", b"allocated_size", b"active_size")
_LIBRARY = re.compile(
    r"(?:^|/)(?:torch|runpy|threading|importlib|contextlib)(?:/|\.py|$)|^\?\?|^<|^$|\.(?:cpp|h|cu|so)\b"
)
_ACTIVE = ("active_allocated", "active_pending_free", "active_awaiting_free")


def recognises(head: bytes, tail: bytes) -> int:
    """2 for a pickle or JSON with a snapshot's keys."""
    shaped = head[:1] == b"\x80" or head.lstrip()[:1] in (b"{", b"[")
    return 2 if shaped and sum(mark in head or mark in tail for mark in _MARKS) >= 3 else 0


def facts(document: Document) -> Iterator[Fact]:
    """Totals of each device, its last out-of-memory record, and who holds the memory."""
    teller = Teller(document, {"rank": rank_of(document.file)})
    try:
        snapshot = _load(document)
    except ValueError as error:
        yield teller.fact("snapshot.unreadable", str(error)[:200])
        return
    settings = mapping(snapshot.get("allocator_settings"))
    expandable = settings.get("expandable_segments")
    yield from teller.some({
        "snapshot.alloc_conf": text(settings.get("PYTORCH_CUDA_ALLOC_CONF")) or None,
        "snapshot.expandable": expandable if isinstance(expandable, bool) else None,
        "snapshot.max_split_size": integer(settings.get("max_split_size")),
    })  # fmt: skip
    devices = _devices(snapshot)
    traces = listing(snapshot.get("device_traces"))[:DEVICES]
    drawn = sorted(devices, key=lambda gpu: (-sum(_size(each, "total_size") for each in devices[gpu]), gpu))[:MAPS]
    for gpu in sorted(set(devices) | {index for index, trace in enumerate(traces) if listing(trace)})[:DEVICES]:
        trace = listing(traces[gpu]) if 0 <= gpu < len(traces) else []
        about = teller.about({"gpu": gpu}, f"device {gpu}")
        yield from _device(about, devices.get(gpu, []), trace[-ENTRIES:])
        if gpu in drawn:
            yield from about.some(_memory_map.memory_map(devices[gpu], _place))


def _load(document: Document) -> dict[Any, Any]:
    data = document.data
    raw = document.unpickle(data) if data[:1] == b"\x80" else json_value(data)
    if isinstance(raw, (list, tuple)):  # memory_snapshot() gives the segments alone
        raw = {"segments": list(raw)}
    if not isinstance(raw, dict) or not isinstance(raw.get("segments"), (list, tuple)):
        raise ValueError("no memory snapshot")
    return raw


def _devices(snapshot: dict[Any, Any]) -> dict[int, list[dict[Any, Any]]]:
    devices: dict[int, list[dict[Any, Any]]] = defaultdict(list)
    for segment in listing(snapshot.get("segments")):
        item = mapping(segment)
        gpu = integer(item.get("device"))
        if item and (gpu is None or 0 <= gpu < 1024):
            devices[gpu or 0].append(item)
    return devices


def _device(teller: Teller, segments: list[dict[Any, Any]], trace: list[Any]) -> Iterator[Fact]:
    totals: Counter[str] = Counter()
    holders: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    budget = BLOCKS
    for segment in segments:
        blocks = [mapping(block) for block in listing(segment.get("blocks"))[:budget]]
        budget -= len(blocks)
        _add_segment(totals, holders, segment, blocks)
    names = ("reserved", "allocated", "requested", "cached_free", "split_waste", "largest_free", "rounding")
    values: dict[str, Value] = {f"snapshot.{name}": totals[name] for name in names} if segments else {}
    if holders:
        values["snapshot.top_holders"] = _top(holders)
    yield from teller.some(values | _traced(trace, totals["allocated"]))


def _size(block: dict[Any, Any], key: str) -> int:
    return max(integer(block.get(key)) or 0, 0)


def _add_segment(
    totals: Counter[str], holders: dict[str, list[int]], segment: dict[Any, Any], blocks: list[dict[Any, Any]]
) -> None:
    total = _size(segment, "total_size")
    totals["reserved"] += total
    totals["allocated"] += _size(segment, "allocated_size")
    used = [block for block in blocks if block.get("state") in _ACTIVE]
    free = [block for block in blocks if block.get("state") == "inactive"]
    if not used and not _size(segment, "active_size"):
        totals["cached_free"] += total
    else:
        totals["split_waste"] += sum(_size(block, "size") for block in free)
    totals["largest_free"] = max([totals["largest_free"], *(_size(block, "size") for block in free)])
    for block in used:
        size = _size(block, "size")
        asked = _size(block, "requested_size") or size
        totals["requested"] += asked
        totals["rounding"] += max(size - asked, 0)
        held = holders[_place(block)]
        held[0] += size
        held[1] += 1


def _place(block: dict[Any, Any]) -> str:
    """`file:line name` of the innermost frame that is the user's; old releases keep the frames in `history`."""
    frames = listing(block.get("frames")) or [
        frame for past in listing(block.get("history"))[:1] for frame in listing(mapping(past).get("frames"))
    ]
    for frame in frames[:128]:
        item = mapping(frame)
        name = text(item.get("filename"))
        if not _of_library(name):
            return f"{name}:{integer(item.get('line'))} {text(item.get('name'), 80)}"
    return "unknown"


@lru_cache(maxsize=4096)  # a snapshot has a million frames in a hundred files
def _of_library(name: str) -> bool:
    return _LIBRARY.search(name) is not None


def _traced(trace: list[Any], allocated: int) -> dict[str, Value]:
    """Backwards from the state at the end to the peak, and the last time that memory ran out."""
    values: dict[str, Value] = {}
    level = peak = allocated
    at = len(trace)
    live: dict[int, int] = {}
    ooms = 0
    for index in range(len(trace) - 1, -1, -1):
        entry = mapping(trace[index])
        action, size, address = entry.get("action"), _size(entry, "size"), integer(entry.get("addr"))
        if action == "oom":
            ooms += 1
            values.setdefault("snapshot.oom_requested", size)
            values.setdefault("snapshot.oom_device_free", integer(entry.get("device_free")))
        elif action == "free_completed":
            level += size
            live[address or 0] = live.get(address or 0, 0) + 1
        elif action == "alloc":
            level -= size
            freed = live.get(address or 0, 0)
            if freed:
                live[address or 0] = freed - 1
            else:
                values["snapshot.grown"] = int(str(values.get("snapshot.grown", 0))) + size
        if level > peak:
            peak, at = level, index
    if trace:
        values |= {"snapshot.peak": peak, "snapshot.oom_count": ooms}
    if peak > allocated * HIGHER:
        values["snapshot.peak_holders"] = _held(trace[:at]) or None
    return values


def _held(trace: list[Any]) -> list[str]:
    """The call sites that hold most after these entries, of what they allocated."""
    live: dict[int, dict[Any, Any]] = {}
    for raw in trace:
        entry = mapping(raw)
        address = integer(entry.get("addr")) or 0
        if entry.get("action") == "alloc":
            live[address] = entry
        elif entry.get("action") == "free_completed":
            live.pop(address, None)
    holders: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for entry in live.values():
        held = holders[_place(entry)]
        held[0] += _size(entry, "size")
        held[1] += 1
    return _top(holders)


def _top(holders: dict[str, list[int]]) -> list[str]:
    top = sorted(holders.items(), key=lambda item: (-item[1][0], item[0]))[:TOP]
    return [f"{size} {count} {place}" for place, (size, count) in top]
