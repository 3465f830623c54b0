"""Why device memory ran out: arithmetic on the allocator's message, the memory snapshot, and memory over the steps.

oom.verdict   one an out-of-memory error (entity rank, gpu as printed):
              capacity | fragmentation | shared | leak | spike | limit | shape
oom.setting   what the allocator's settings can do against it
oom.tried, oom.total, oom.free, oom.allocated, oom.unallocated, oom.in_use, oom.foreign   its inputs, bytes
oom.fragmentation   unallocated / (allocated + unallocated), 0 to 1
oom.foreign_pid     the other process that holds most, when the message names it
memory.growth       (entity rank) bytes a step by which allocated memory rises steadily

The advice that ends the message ("if reserved memory is large ...") is printed always and proves nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from msgspec import structs

from triage.analysis._messages import Shortage, shortage
from triage.analysis._series import Series, series
from triage.analysis.snapshots import expandable, settings
from triage.model.base import Scalar, Value
from triage.model.event import Event, Fact
from triage.model.incident import Incident

FRAGMENTED = 0.10  # of what the allocator holds
FOREIGN = 0.05  # of the GPU
MIB = 1 << 20
GROWTH_STEPS = 16
LEVEL = 0.02  # by which memory at the end of steps differs at most while it is level
SPIKE = 0.1  # of the GPU, asked for at once


def derive(incident: Incident) -> Iterator[Fact]:
    """A verdict for each error, and for a snapshot's when no message says; steady growth of ranks."""
    growth = {fact.entity.get("rank"): fact for fact in _growths(incident)}
    yield from growth.values()
    ranks = series(incident)
    levels = {one.rank: _level(one) for one in ranks}
    sole = ranks[0].rank if len(ranks) == 1 else None  # messages of a job with one process name no rank
    snapshots = _snapshots(incident)
    told: set[tuple[Scalar, Scalar]] = set()
    for event, found in _shortages(incident):
        entity: dict[str, Scalar] = {"rank": event.rank, "gpu": found.gpu}
        entity = {key: value for key, value in entity.items() if value is not None}
        key = (event.rank, found.gpu)
        if key in told:
            continue
        told.add(key)
        rank = event.rank if event.rank is not None else sole
        steady = levels.get(rank) if rank is not None else None
        judged = _judged(event, entity, found, growth.get(rank), snapshots.get(found.gpu or 0, {}), steady,
                           _neighbour(incident, event, found))  # fmt: skip
        for fact in judged:
            yield fact
            if fact.name == "oom.verdict":
                yield structs.replace(fact, name="oom.setting", value=settings(str(fact.value), expandable(incident)))
    if not told:
        for gpu, facts in sorted(snapshots.items()):
            yield from _from_snapshot(gpu, facts)


def _shortages(incident: Incident) -> Iterator[tuple[Event, Shortage]]:
    """Messages of the answered episode; the joined text of an error can stand under several signatures."""
    seen: set[tuple[str, int | None]] = set()
    for placed in incident.signals:
        event = placed.signal.event
        if "out of memory" not in event.body and "Tried to allocate" not in event.body:
            continue
        found = shortage(event.body) or shortage(event.text)
        place = (event.where.file, event.where.line)
        if found and place not in seen and placed.episode == incident.answered:
            seen.add(place)
            yield event, found


def _judged(
    event: Event,
    entity: dict[str, Scalar],
    found: Shortage,
    growth: Fact | None,
    snapshot: dict[str, Fact],
    steady: int | None,
    neighbour: Fact | None = None,
) -> Iterator[Fact]:
    where = event.where
    values: dict[str, Value] = {
        "oom.tried": found.tried, "oom.total": found.total, "oom.free": found.free, "oom.allocated": found.allocated,
        "oom.unallocated": found.unallocated, "oom.in_use": found.in_use, "oom.foreign": found.foreign,
        "oom.fragmentation": found.fragmentation,
        "oom.foreign_pid": max(found.others, key=lambda one: one[1])[0] if found.others else None,
    }  # fmt: skip
    for name, value in values.items():
        if value is not None:
            yield Fact(name=name, value=value, where=where, entity=entity, text=event.text, evidence=(where,))
    kind, why = _verdict(found, growth, snapshot, steady)
    if kind == "capacity" and found.total and found.foreign is None and (other := neighbour):
        kind, why = "shared", f"process {other.entity.get('pid')} holds {int(str(other.value)) // MIB} MiB of this GPU"
    if kind:
        text = event.text if where.line is not None else why  # what is cited must stand there
        places = [where, *(fact.where for fact in list(snapshot.values())[:1]), *([growth.where] if growth else [])]
        yield Fact(name="oom.verdict", value=kind, where=where, entity=entity, text=text, evidence=tuple(places))


def _verdict(
    found: Shortage, growth: Fact | None, snapshot: dict[str, Fact], steady: int | None
) -> tuple[str | None, str]:
    tried = found.tried
    if found.impossible or (tried is not None and found.total is not None and tried > found.total):
        return "shape", "the request alone is larger than the GPU"
    if tried is None or found.total is None or found.allocated is None:
        return _waste(snapshot, tried)
    if found.allowed is not None and found.free is not None and found.free >= tried:
        return "limit", "free memory would do; the process may not take it"
    if (foreign := found.foreign) and foreign >= FOREIGN * found.total and _fits_without(found, foreign):
        return "shared", f"{foreign // MIB} MiB of the GPU belong to other processes"
    if _fragmented(found):
        return "fragmentation", f"{tried // MIB} MiB asked, {(found.unallocated or 0) // MIB} MiB reserved and unused"
    if growth is not None:
        return "leak", growth.text
    if steady is not None and tried >= SPIKE * found.total:
        return "spike", f"{tried // MIB} MiB asked at once after steps that ended with {steady // MIB} MiB each"
    return "capacity", f"{tried // MIB} MiB asked with {found.allocated // MIB} of {found.total // MIB} MiB allocated"


def _neighbour(incident: Incident, event: Event, found: Shortage) -> Fact | None:
    """The largest other process on the GPU that nvidia-smi shows this one on, when it holds a good part of it."""
    held = [fact for fact in incident.facts if fact.name == "gpu.process.memory" and isinstance(fact.value, int)]
    own = {(fact.where.file, fact.entity.get("gpu")) for fact in held if fact.entity.get("pid") == event.pid}
    if event.pid is None or len(own) != 1 or found.total is None:
        return None
    others = [
        fact
        for fact in held
        if (fact.where.file, fact.entity.get("gpu")) in own and fact.entity.get("pid") != event.pid
    ]
    large = [fact for fact in others if isinstance(fact.value, int) and fact.value >= FOREIGN * (found.total or 0)]
    return max(large, key=lambda fact: int(str(fact.value)), default=None)


def _fits_without(found: Shortage, foreign: int) -> bool:
    return (found.tried or 0) <= (found.free or 0) + foreign


def _fragmented(found: Shortage) -> bool:
    """The request fits into what is reserved and unused, and that is a good part of all."""
    unused = found.unallocated or 0
    return (found.tried or 0) <= unused and (found.fragmentation or 0.0) >= FRAGMENTED


def _snapshots(incident: Incident) -> dict[int, dict[str, Fact]]:
    found: dict[int, dict[str, Fact]] = {}
    for fact in incident.facts:
        gpu = fact.entity.get("gpu")
        if fact.name.startswith("snapshot.") and isinstance(gpu, int):
            found.setdefault(gpu, {})[fact.name.removeprefix("snapshot.")] = fact
    return found


def _waste(snapshot: dict[str, Fact], tried: int | None) -> tuple[str | None, str]:
    """Fragmentation by the snapshot alone: unused pieces of segments in use hold more than was asked for."""
    wanted = _size(snapshot, "oom_requested") or tried
    waste, reserved = _size(snapshot, "split_waste"), _size(snapshot, "reserved")
    if wanted is None or waste is None or reserved is None or not reserved:
        return None, ""
    if waste >= max(wanted, FRAGMENTED * reserved):
        return "fragmentation", f"{wanted // MIB} MiB asked, {waste // MIB} MiB lie unused between blocks in use"
    return None, ""


def _size(snapshot: dict[str, Fact], name: str) -> int | None:
    value = snapshot[name].value if name in snapshot else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _from_snapshot(gpu: int, snapshot: dict[str, Fact]) -> Iterator[Fact]:
    if not _size(snapshot, "oom_count"):
        return
    kind, why = _waste(snapshot, None)
    origin = snapshot["oom_count"]
    if kind is None:
        kind, why = "capacity", "the snapshot shows no unused memory that would have done"
    yield Fact(
        name="oom.verdict", value=kind, where=origin.where, entity=origin.entity | {"gpu": gpu}, text=why,
        evidence=(origin.where,),
    )  # fmt: skip


def _growths(incident: Incident) -> Iterator[Fact]:
    for one in series(incident):
        slope = _slope(one)
        if slope is not None:
            text = f"rank {one.rank}: allocated memory rises by {slope / MIB:.2f} MiB a step"
            yield Fact(
                name="memory.growth", value=round(slope), where=one.where, entity={"rank": one.rank}, text=text,
                evidence=(one.where,),
            )  # fmt: skip


def _level(one: Series) -> int | None:
    """Allocated bytes at the end of steps, when they were the same for GROWTH_STEPS or more: the usual steps fit."""
    told = list(one.settled("alloc").values())
    return int(max(told)) if len(told) >= GROWTH_STEPS and max(told) - min(told) <= LEVEL * max(told) else None


def _slope(one: Series) -> float | None:
    """Bytes a step when memory rises in nearly every tenth of the run and by a tenth in all; else None."""
    told = sorted(one.settled("alloc").items())
    if len(told) < GROWTH_STEPS:
        return None
    width = max(len(told) // 10, 1)
    levels = [min(value for _, value in told[at : at + width]) for at in range(0, len(told) - width + 1, width)]
    rises = sum(after > before for before, after in itertools.pairwise(levels))
    grown = levels[-1] - levels[0]
    if rises < 0.8 * (len(levels) - 1) or grown < max(0.1 * levels[0], 64 * MIB):
        return None
    steps = told[(len(levels) - 1) * width][0] - told[0][0]
    return grown / steps if steps > 0 else None
