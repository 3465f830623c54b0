"""A device's memory by the state of its blocks, and who holds it."""

from __future__ import annotations

from collections import defaultdict

from triage.model.event import Fact
from triage.model.incident import Incident
from triage.model.pictures import Memory
from triage.report.charts import blocks
from triage.report.charts._svg import picture, rect, text
from triage.report.charts.blocks import gib, holders

DEVICES = 16
MAPS = 4  # a full map takes a quarter of a megabyte


def collect(incident: Incident) -> tuple[Memory, ...]:
    """One for each device of each snapshot."""
    devices: dict[tuple[str, object, object], dict[str, Fact]] = defaultdict(dict)
    for fact in incident.facts:
        if fact.name.startswith("snapshot.") and "gpu" in fact.entity:
            key = (fact.where.file, fact.entity.get("rank"), fact.entity["gpu"])
            devices[key][fact.name.removeprefix("snapshot.")] = fact
    fullest = sorted(devices.items(), key=lambda item: -(_number(item[1].get("reserved")) or 0))[:DEVICES]
    rows = [(key, facts) for key, facts in fullest if _number(facts.get("reserved"))]
    return tuple(_device(key, facts, at < MAPS) for at, (key, facts) in enumerate(rows))


def _device(key: tuple[str, object, object], facts: dict[str, Fact], mapped: bool) -> Memory:
    _, rank, gpu = key
    names = ("reserved", "allocated", "cached_free", "split_waste", "rounding")
    sizes = {name: _number(facts.get(name)) or 0 for name in names}
    return Memory(
        gpu=f"GPU {gpu}" + (f", rank {rank}" if rank is not None else ""), where=facts["reserved"].where,
        largest_free=_number(facts.get("largest_free")), asked=_number(facts.get("oom_requested")),
        holders=holders(facts.get("top_holders")), map=blocks.collect(facts) if mapped else None,
        **sizes,
    )  # fmt: skip


def _number(fact: Fact | None) -> int | None:
    return fact.value if fact is not None and isinstance(fact.value, int) else None


def svg(memory: Memory, names: dict[str, str]) -> str:
    """A bar of the reserved memory by state, and below it bars of the holders on the same scale."""
    width, scale = 760.0, 740.0 / max(memory.reserved, 1)
    states = (("used", memory.allocated), ("cached", memory.cached_free), ("waste", memory.split_waste))
    parts, x = [], 10.0
    for name, size in states:
        parts.append(rect(x, 8, size * scale, 34, f"memory-{name}", f"{names[name]}: {gib(size)}") if size else "")
        x += size * scale
    for at, holder in enumerate(memory.holders):
        y = 64 + 34 * at
        title = f"{gib(holder.bytes)}, {holder.blocks} × {holder.place}"
        parts.append(text(10, y, title, "small", width=110))
        parts.append(rect(10, y + 5, holder.bytes * scale, 10, "memory-holder", title))
    return picture(width, 54 + 34 * len(memory.holders), "".join(parts), f"{memory.gpu}: {gib(memory.reserved)}")
