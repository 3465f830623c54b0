"""What NVML said of each GPU, as `triage collect` writes it down in `nvml.json`: values, or why there is none.

Facts are those of nvidia-smi (see there), of the same entity {gpu, pci, uuid}; of links nvlink.state, nvlink.links,
nvlink.inactive, nvlink.inactive_state and nvlink.errors.{replay,recovery,crc}. The counter of CRC errors in data is
left out: healthy H200 links show hundreds there while nvidia-smi counts none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import structs

from triage.model.base import Scalar
from triage.model.bundle import Document
from triage.model.event import Fact, Where
from triage.parsers import _smi_device
from triage.parsers._documents import inflated, json_value
from triage.parsers._smi_device import Device, Process

SOURCE = "nvml"
DEVICES, LINKS, PROCESSES = 64, 36, 256
_SHAPE = re.compile(rb'^\{\s{0,20}"cuda":[^\n]{0,200}\n\s{0,8}"driver":[^\n]{0,200}\n\s{0,8}"gpus": \[')
SIGNS = (_SHAPE,)
_MODES = ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")
_FABRIC = ("N/A", "Not Started", "In Progress", "Completed")
# Our name: path and unit as nvidia-smi prints them; a list is read at its first place.
_PATHS = {
    "name": ("product_name", ""), "uuid": ("uuid", ""),
    "temperature_c": ("temperature/gpu_current_temp", " C"),
    "temperature_slowdown_c": ("temperature/gpu_slowdown_temp", " C"),
    "clock_sm_mhz": ("clocks_sm", " MHz"), "clock_max_sm_mhz": ("clocks_max_sm", " MHz"),
    "ecc_volatile_corrected": ("ecc_errors/volatile/dram_correctable", ""),
    "ecc_volatile_uncorrected": ("ecc_errors/volatile/dram_uncorrectable", ""),
    "ecc_aggregate_corrected": ("ecc_errors/aggregate/dram_correctable", ""),
    "ecc_aggregate_uncorrected": ("ecc_errors/aggregate/dram_uncorrectable", ""),
    "pcie_gen": ("pcie_link_gen_gpucurrent", ""), "pcie_gen_max": ("pcie_link_gen_max", ""),
    "pcie_width": ("pcie_link_width_current", ""), "pcie_width_max": ("pcie_link_width_max", ""),
    "pcie_replays": ("pcie_replay_counter", ""),
}  # fmt: skip
_RECOVERY = ("None", "Reset", "Reboot", "Drain P2P", "Drain and Reset")  # nvmlDeviceGpuRecoveryAction_t
# Error of a link: where it stands, the counters that links of the fifth generation have instead behind it.
_ERRORS = {
    "replay": ("replay_errors", "dl_replay_errors"),
    "recovery": ("recovery_errors", "dl_recovery_errors"),
    "crc": ("crc_flit_errors", "dl_crc_errors"),
}
_REMAPPED = ("correctable", "uncorrectable", "pending", "failure")


def recognises(head: bytes, tail: bytes) -> int:
    """2 for the collector's file."""
    return 2 if _SHAPE.match(head) else 0


def facts(document: Document) -> Iterator[Fact]:
    """Facts of each GPU and each of its links, with the line that shows them; the node comes from the file's path."""
    data = inflated(document.data)
    shown, node = data.splitlines(), document.file.node
    for fact in _all(data, document.file.path):
        line = shown[min(fact.where.line or 1, len(shown)) - 1].decode("utf-8", "replace").strip()[:500]
        entity = fact.entity if node is None else {"node": node, **fact.entity}
        yield structs.replace(fact, entity=entity, text=line)


def _all(data: bytes, path: str) -> Iterator[Fact]:
    found = json_value(data)
    gpus = found.get("gpus") if isinstance(found, dict) else None
    lines = _lines(data)
    for place, gpu in enumerate(gpus[:DEVICES] if isinstance(gpus, list) else []):
        if isinstance(gpu, dict):
            yield from _gpu(gpu, place, lines, str(found.get("driver", "N/A")), path)


def _gpu(gpu: dict[str, Any], place: int, lines: dict[tuple[int, str], int], driver: str, file: str) -> Iterator[Fact]:
    line = lines.get((place, ""), 1)
    index = gpu.get("index")
    device = Device(line=line, index=index if isinstance(index, int) else None, complete=True)
    device.readings["driver_version"] = (driver, 1)
    for path, text, key in _readings(gpu):
        device.readings[path] = (text, lines.get((place, key), line))
    for each in _listed(gpu, "processes", PROCESSES):
        if isinstance(each.get("pid"), int):
            memory = each.get("usedGpuMemory")
            size = f"{memory // 1024} KiB" if isinstance(memory, int) else None
            device.processes.append(Process(each["pid"], lines.get((place, "processes"), line), memory=size))
    told = list(_smi_device.facts(device, file))
    if "error" in gpu:  # NVML gave no handle: nothing of this card can be read
        state = "lost" if "lost" in str(gpu["error"]).lower() else "error"
        told = [fact for fact in told if fact.name not in {"gpu.state", "gpu.readable"}]
        told.append(
            Fact(name="gpu.state", value=state, where=Where(file=file, line=line), entity={"gpu": index or place})
        )
    yield from told
    entity = told[0].entity if told else {}
    yield from _links(_listed(gpu, "links", LINKS), entity, lines.get((place, "links"), line), file)


def _readings(gpu: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(path of nvidia-smi, text, our key)."""
    for key, (path, unit) in _PATHS.items():
        yield path, _text(gpu.get(key), unit), key
    state = gpu.get("pstate")
    yield "pstate", f"P{state}" if isinstance(state, int) else _text(state), "pstate"
    yield "pci/bus_id", _text(_of(gpu, "pci", "busId")), "pci"
    yield "power/draw", _text(_scaled(gpu.get("power_mw")), " W"), "power_mw"
    yield "power/limit", _text(_scaled(gpu.get("power_limit_mw")), " W"), "power_limit_mw"
    yield "utilization/gpu", _text(_of(gpu, "utilization", "gpu"), " %"), "utilization"
    for kind in ("total", "used"):
        amount = _of(gpu, "memory", kind)
        text = f"{amount // 1024} KiB" if isinstance(amount, int) else _text(amount)
        yield f"fb_memory_usage/{kind}", text, "memory"
    yield from _switches(gpu)
    rows = gpu.get("remapped_rows")
    for at, kind in enumerate(_REMAPPED):
        yield (
            f"remapped_rows_{kind}",
            _text(rows[at] if isinstance(rows, list) and at < len(rows) else rows),
            "remapped_rows",
        )
    yield (
        "remapped_rows/bank_remap_availability_histogram/none",
        _text(_of(gpu, "row_remapper", "none")),
        "row_remapper",
    )
    pages = gpu.get("retired_double")
    yield "retired_pages/double_bit_ecc", _text(len(pages) if isinstance(pages, list) else pages), "retired_double"
    yield "retired_pages/pending", _word(gpu.get("retired_pending"), ("No", "Yes")), "retired_pending"
    yield "gpu_recovery_action", _word(gpu.get("recovery_action"), _RECOVERY), "recovery_action"
    bits = gpu.get("throttle_reasons")
    yield "clocks_event_reasons_active", hex(bits) if isinstance(bits, int) else _text(bits), "throttle_reasons"


def _switches(gpu: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    off_on = ("Disabled", "Enabled")
    for key, path in (("persistence", "persistence_mode"), ("ecc_mode", "ecc_mode"), ("mig_mode", "mig_mode")):
        value = gpu.get(key)
        yield path, _word(value[0] if isinstance(value, list) and value else value, off_on), key
    yield "compute_mode", _word(gpu.get("compute_mode"), _MODES), "compute_mode"
    yield "fabric/state", _word(_of(gpu, "fabric", "state"), _FABRIC), "fabric"
    status = _of(gpu, "fabric", "status")
    yield "fabric/status", "Success" if status == 0 else _text(status), "fabric"


def _links(links: list[dict[str, Any]], entity: dict[str, Scalar], line: int, file: str) -> Iterator[Fact]:
    where = Where(file=file, line=line)
    states = []
    for each in links:
        own = {**entity, "link": str(each.get("link", ""))}
        if each.get("state") in (0, 1):
            states.append("active" if each["state"] else "inactive")
            yield Fact(name="nvlink.state", value=states[-1], where=where, entity=own)
        for name, keys in _ERRORS.items():
            count = next((each[key] for key in keys if isinstance(each.get(key), int)), None)
            if count is not None:
                yield Fact(name=f"nvlink.errors.{name}", value=count, where=where, entity=own)
    if states:
        idle = states.count("inactive")
        mixed = "none" if not idle else "all" if idle == len(states) else "some"
        for name, value in (("links", len(states)), ("inactive", idle), ("inactive_state", mixed)):
            yield Fact(name=f"nvlink.{name}", value=value, where=where, entity=entity)


def _listed(gpu: dict[str, Any], key: str, most: int) -> list[dict[str, Any]]:
    value = gpu.get(key)
    return [each for each in value[:most] if isinstance(each, dict)] if isinstance(value, list) else []


def _of(gpu: dict[str, Any], key: str, inner: str) -> Any:
    """A field of a field; the reason why there is none stands in place of the outer one."""
    value = gpu.get(key)
    return value if not isinstance(value, dict) or "unsupported" in value else value.get(inner)


def _scaled(value: Any) -> Any:
    return round(value / 1000, 3) if isinstance(value, int) else value


def _word(value: Any, words: tuple[str, ...]) -> str:
    return words[value] if isinstance(value, int) and 0 <= value < len(words) else _text(value)


def _text(value: Any, unit: str = "") -> str:
    """As nvidia-smi would print it; what NVML refused is the reason, which says whether the card failed."""
    if isinstance(value, dict):
        reason = str(value.get("unsupported", "N/A"))
        return reason if "lost" in reason.lower() or "unknown error" in reason.lower() else "N/A"
    return f"{value}{unit}" if isinstance(value, (int, float, str)) else "N/A"


def _lines(data: bytes) -> dict[tuple[int, str], int]:
    """Line of each key of each GPU by place, and of the GPU itself (key ``), in the collector's own indentation."""
    found: dict[tuple[int, str], int] = {}
    place = -1
    for number, line in enumerate(data.splitlines(), start=1):
        if line == b"  {":
            place += 1
            found[place, ""] = number
        elif key := re.match(rb'   "(\w{1,40})":', line):
            found.setdefault((place, key[1].decode()), number)
    return found
