"""What GPUs and adapters said of themselves, and what of it is not as it was: counters that grew, links that went down.

A device is the same when its UUID is; without one, when it sits in the same slot of the same node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from triage.model.base import Scalar, Value, number
from triage.model.comparison import Device, Move
from triage.model.event import Fact
from triage.model.incident import Incident

DEVICES = 20_000  # of one run
TOLD = 200  # changes told
Readings = dict[str, Value]
Machine = dict[str, tuple[str, str | None, Readings]]  # key -> (name for a person, node, readings)

# Only ever grow between resets. Less after than before is a reset, and says nothing.
_COUNTERS = (
    "gpu.ecc.volatile_correctable", "gpu.ecc.volatile_uncorrectable", "gpu.ecc.aggregate_correctable",
    "gpu.ecc.aggregate_uncorrectable", "gpu.remap.uncorrectable", "gpu.remap.banks_exhausted", "gpu.retired.double_bit",
    "gpu.pcie.replays", "nvlink.errors.",
)  # fmt: skip
# State -> the words that are well; empty where a change is neither better nor worse.
_STATES: dict[str, frozenset[str]] = {
    "gpu.remap.pending": frozenset({"no"}), "gpu.remap.failure": frozenset({"no"}),
    "gpu.retired.pending": frozenset({"no"}), "gpu.ecc.sram_threshold": frozenset({"no"}),
    "nvlink.state": frozenset({"active"}), "gpu.pcie.width_state": frozenset({"full", "shared"}),
    "pcie.width_state": frozenset({"full"}), "gpu.state": frozenset({"ok"}), "gpu.recovery_action": frozenset({"none"}),
    "gpu.throttle.hw_slowdown": frozenset({"not active"}), "gpu.throttle.hw_thermal": frozenset({"not active"}),
    "gpu.throttle.hw_power_brake": frozenset({"not active"}), "gpu.power_limit_state": frozenset({"default"}),
    "gpu.fabric.health": frozenset({"healthy"}), "gpu.ecc.mode": frozenset(), "gpu.memory_total": frozenset(),
    "nvlink.links": frozenset(),
}  # fmt: skip


def state(incident: Incident) -> Machine:
    """All GPUs and their readings; of several readings of one name the last."""
    uuids = _uuids(incident)
    found: Machine = {}
    for fact in incident.facts:
        if not (fact.name.startswith(_COUNTERS) or fact.name in _STATES) or fact.value is None:
            continue
        key, label, node = _identity(fact, uuids)
        if key and (key in found or len(found) < DEVICES):
            link = fact.entity.get("link")
            reading = fact.name if link is None else f"{fact.name} of link {link}"
            known = found.setdefault(key, (label, node, {}))
            known[2][reading] = fact.value
            if known[0].startswith("device") and label.startswith("GPU"):
                found[key] = (label, node, known[2])
    return found


def _uuids(incident: Incident) -> dict[tuple[Scalar, Scalar], str]:
    """UUID by node and slot, and by node and index, from whatever told both; only where it is one."""
    found: dict[tuple[Scalar, Scalar], set[str]] = defaultdict(set)
    for gpu in incident.gpus:
        for value in (gpu.pci, gpu.gpu):
            if gpu.uuid and value is not None:
                found[gpu.node, value].add(gpu.uuid)
    return {key: values.pop() for key, values in found.items() if len(values) == 1}


def _identity(fact: Fact, uuids: dict[tuple[Scalar, Scalar], str]) -> tuple[str, str, str | None]:
    """(key, name for a person, node); an empty key when nothing says which GPU it is."""
    entity = fact.entity
    node, pci, gpu = entity.get("node"), entity.get("pci"), entity.get("gpu")
    uuid = entity.get("uuid") or uuids.get((node, pci)) or uuids.get((node, gpu))
    slot = pci if pci is not None else gpu
    key = str(uuid) if uuid else f"{node}/{slot}" if slot is not None else ""
    name = f"GPU {gpu}" if gpu is not None else f"GPU {uuid}" if uuid else f"device {pci}"
    return key, f"{name} of {node}" if node is not None else name, None if node is None else str(node)


def changed(before: Machine, after: Machine) -> list[Device]:
    """Every reading that both sides have and that differs, the worse ones first; and GPUs that are no longer there."""
    rows = [*_gone(before, after), *_readings(before, after)]
    order: dict[Move, int] = {"worse": 0, "unknown": 1, "no difference": 1, "better": 2}
    return sorted(rows, key=lambda row: (order[row.result], row.device, row.reading))[:TOLD]


def _gone(before: Machine, after: Machine) -> Iterator[Device]:
    """Nodes that still tell of other GPUs; an exchanged card shows as one that went."""
    nodes = {node for _, node, _ in after.values()}
    for key, (label, node, _) in before.items():
        if key not in after and node in nodes:
            yield Device(device=label, reading="listed", before="yes", after="no", result="worse")


def _readings(before: Machine, after: Machine) -> Iterator[Device]:
    for key in before.keys() & after.keys():
        label, _, one = before[key]
        two = after[key][2]
        for name in sorted(one.keys() & two.keys()):
            result = _judged(name, one[name], two[name])
            if result is not None:
                yield Device(
                    device=label, reading=name, before=_shown(one[name]), after=_shown(two[name]), result=result
                )


def _judged(name: str, one: Value, two: Value) -> Move | None:
    """None when nothing changed that says something."""
    if one == two:
        return None
    if name.startswith(_COUNTERS):
        first, second = number(one), number(two)
        return "worse" if first is not None and second is not None and second > first else None
    well = _STATES[name.partition(" of link ")[0]]
    if not well:
        return "unknown"
    good = [str(value).lower() in well for value in (one, two)]
    return None if good[0] == good[1] else "better" if good[1] else "worse"


def _shown(value: Value) -> str:
    found = number(value)
    return str(value) if found is None else f"{found:g}" if found != int(found) else str(int(found))
