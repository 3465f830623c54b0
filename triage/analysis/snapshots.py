"""Device memory over several snapshots, failures that hide a full GPU, and the setting that applies.

memory.growth   (entity rank, gpu) bytes a snapshot by which allocated memory rises over three snapshots or more
oom.verdict     (entity rank) disguised: cuBLAS, cuDNN or NCCL could not allocate, and the GPU is seen to be full
oom.setting     (entity of the verdict) what the allocator offers against it, or that nothing there helps
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator

from triage.model.base import Scalar
from triage.model.event import Event, Fact
from triage.model.incident import Incident

FEWEST = 3  # snapshots
GROWN = 0.1  # in all
LEAST = 64 << 20
FULL = 0.97  # of the GPU
MIB = 1 << 20
_HIDDEN = ("memory/cublas-alloc-failed", "memory/cudnn-alloc-failed", "memory/nccl-device-oom")
_ON = re.compile(r"expandable_segments:\s?[Tt]rue")
_NUMBER = re.compile(r"\d+")


def derive(incident: Incident) -> Iterator[Fact]:
    """Growth over snapshots; disguised shortages."""
    yield from _growths(incident)
    yield from _disguised(incident)


def settings(kind: str, on: bool) -> str:
    """What the allocator's settings can do against a shortage of this kind."""
    if kind == "fragmentation":
        if on:
            return "expandable segments are on already: max_split_size_mb, or requests of equal sizes"
        return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    if kind == "limit":
        return "set_per_process_memory_fraction, or the size of the MIG slice; not the allocator's configuration"
    return "none: no setting of the allocator makes room where all of it is in use"


def expandable(incident: Incident) -> bool:
    """Were expandable segments on, by a snapshot or by a line that shows the variable?"""
    told = [fact.value for fact in incident.facts if fact.name in ("snapshot.expandable", "snapshot.alloc_conf")]
    shown = [mark.event.text for mark in incident.marks if mark.kind == "env"]
    return any(value is True or _ON.search(str(value)) for value in told) or any(map(_ON.search, shown))


def _growths(incident: Incident) -> Iterator[Fact]:
    series: dict[tuple[Scalar, Scalar], list[Fact]] = defaultdict(list)
    holders: dict[str, list[str]] = {}
    for fact in incident.facts:
        if fact.name == "snapshot.allocated" and isinstance(fact.value, int):
            series[fact.entity.get("rank"), fact.entity.get("gpu")].append(fact)
        if fact.name == "snapshot.top_holders" and isinstance(fact.value, list):
            holders[fact.where.file] = [str(item) for item in fact.value]
    for _, facts in sorted(series.items(), key=lambda item: str(item[0])):
        facts.sort(key=lambda fact: _natural(fact.where.file))
        sizes = [fact.value for fact in facts if isinstance(fact.value, int)]
        if len(sizes) < FEWEST or any(after <= before for before, after in itertools.pairwise(sizes)):
            continue
        grown = sizes[-1] - sizes[0]
        if grown >= max(GROWN * sizes[0], LEAST):
            yield _growth(facts, grown, _grower(*(holders.get(facts[at].where.file, []) for at in (0, -1))))


def _growth(facts: list[Fact], grown: int, place: str) -> Fact:
    last = facts[-1]
    text = f"allocated memory rises from snapshot to snapshot, by {grown // MIB} MiB over {len(facts)}"
    text += f"; most of it at {place}" if place else ""
    places = tuple(fact.where for fact in reversed(facts))
    value = round(grown / (len(facts) - 1))
    return Fact(name="memory.growth", value=value, where=last.where, entity=last.entity, text=text, evidence=places)


def _natural(path: str) -> list[tuple[int, str]]:
    """Numbers in names by size: step 9 before step 10."""
    parts = re.split(r"(\d+)", path)
    return [(int(part), "") if _NUMBER.fullmatch(part) and len(part) < 18 else (-1, part) for part in parts]


def _grower(first: list[str], last: list[str]) -> str:
    """The call site whose memory grew most."""
    before = {place: size for size, place in map(_holding, first)}
    grown = {place: size - before.get(place, 0) for size, place in map(_holding, last) if place != "unknown"}
    best = max(grown, key=lambda place: (grown[place], place), default="")
    return best if best and grown[best] > 0 else ""


def _holding(text: str) -> tuple[int, str]:
    size, _, place = text.split(" ", 2)
    return int(size), place


def _disguised(incident: Incident) -> Iterator[Fact]:
    """Only where nothing says so itself: no message of the allocator, but a GPU that is seen to be full."""
    full = next(_full(incident), None)
    events = [item.signal.event for item in incident.signals if item.episode == incident.answered]
    if full is None or any("out of memory" in event.body and "Tried to allocate" in event.body for event in events):
        return
    told: set[int | None] = set()
    for item in incident.signals:
        event = item.signal.event
        if item.signal.signature.id in _HIDDEN and item.episode == incident.answered and event.rank not in told:
            told.add(event.rank)
            yield from _told(event, full)


def _told(event: Event, full: Fact) -> Iterator[Fact]:
    entity: dict[str, Scalar] = {} if event.rank is None else {"rank": event.rank}
    places = (event.where, full.where)
    for name, value in (("oom.verdict", "disguised"), ("oom.setting", settings("disguised", False))):
        yield Fact(name=name, value=value, where=event.where, entity=entity, text=event.text, evidence=places)


def _full(incident: Incident) -> Iterator[Fact]:
    """A GPU of which nearly nothing is free, by nvidia-smi."""
    totals = {
        (fact.where.file, fact.entity.get("gpu")): fact.value
        for fact in incident.facts
        if fact.name == "gpu.memory_total" and isinstance(fact.value, (int, float))
    }
    for fact in incident.facts:
        total = totals.get((fact.where.file, fact.entity.get("gpu")))
        used = fact.value if fact.name == "gpu.memory_used" else None
        if isinstance(used, (int, float)) and total and used >= FULL * total:
            yield fact
