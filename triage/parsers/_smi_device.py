"""From the readings of one GPU, keyed by path whatever the output format, to facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from triage.model.base import Scalar, Value
from triage.model.event import Fact, Stamp, Where
from triage.parsers import _smi_values as values

BUSY = 50  # per cent of utilization from which a GPU has no reason to save power on its link
SLOW_CLOCK = 0.6  # of the maximum: no load of healthy data-centre GPUs was seen below without a throttle reason
LOW_LIMIT = 0.75  # of the default power limit

Reading = tuple[str, int]
Convert = Callable[[str | None], Value]


@dataclass
class Process:
    """A process on a GPU; None is not printed or cut off."""

    pid: int
    line: int
    name: str | None = None
    memory: str | None = None


@dataclass
class Device:
    """One GPU of one output. `readings`: path (`pci/link_width/current`) -> text and line number."""

    line: int
    readings: dict[str, Reading] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    index: int | None = None
    time: Stamp | None = None
    complete: bool = False  # the format shows error, remap and throttle fields


# Fact, pattern of its path (text of -q, XML tags, names of --query-gpu fields), conversion.
_NAMES: tuple[tuple[str, str, Convert], ...] = (
    ("gpu.uuid", r"(?:gpu_)?uuid", values.known),
    ("gpu.name", r"product_name|(?:gpu_)?name", values.known),
    ("gpu.driver", r"driver_version", values.known),
    ("gpu.temperature_c", r"temperature[/_]gpu(?:_current)?(?:_temp)?", values.number),
    (
        "gpu.power_w",
        r"(?:gpu_)?power(?:_readings)?[/_](?:(?:average_|instant(?:aneous)?_)?power_draw|draw(?:_average|_instant)?)",
        values.number,
    ),
    ("gpu.power_limit_w", r"(?:gpu_)?power(?:_readings)?[/_](?:(?:current_)?power_limit|limit)", values.number),
    ("gpu.power_default_w", r"(?:gpu_)?power(?:_readings)?[/_]default_(?:power_)?limit", values.number),
    ("gpu.utilization", r"utilization[/_]gpu(?:_util)?", values.number),
    ("gpu.memory_total", r"fb_memory_usage/total|memory_total", values.size),
    ("gpu.memory_used", r"fb_memory_usage/used|memory_used", values.size),
    ("gpu.remap.pending", r"remapped_rows[/_](?:remapped_row_)?pending", values.yes_no),
    ("gpu.remap.failure", r"remapped_rows[/_](?:remapping_failure_occurred|(?:remapped_row_)?failure)", values.yes_no),
    (
        "gpu.remap.uncorrectable",
        r"remapped_rows[/_](?:uncorrectable(?:_error)?|remapped_row_unc(?:orrectable)?)",
        values.number,
    ),
    (
        "gpu.remap.banks_exhausted",
        r"remapped_rows/(?:bank_remap_availability_histogram/none|row_remapper_histogram/row_remapper_histogram_none)",
        values.number,
    ),
    ("gpu.retired.pending", r"retired_pages[/_](?:pending(?:_(?:page_)?blacklist|_retirement)?)", values.word),
    (
        "gpu.retired.double_bit",
        r"retired_pages[/_](?:double_bit_ecc|dbe|double_bit_retirement/retired_count|double_bit_ecc_count)",
        values.number,
    ),
    ("gpu.ecc.mode", r"ecc_mode(?:[/_]current(?:_ecc)?)?", values.word),
    ("gpu.ecc.sram_threshold", r"ecc_errors/aggregate/sram_threshold_exceeded", values.word),
    ("gpu.ecc.unrepairable", r"ecc_errors/unrepairable_memory", values.word),
    ("gpu.ecc.repair_pending", r"ecc_errors/(?:channel|tpc)_repair_pending", values.word),
    ("gpu.clock.sm_mhz", r"clocks(?:_current)?[/_]sm(?:_clock)?", values.number),
    ("gpu.clock.max_sm_mhz", r"(?:max_clocks|clocks_max)[/_]sm(?:_clock)?", values.number),
    (
        "gpu.pcie.gen_current",
        r"pci/(?:pci_)?gpu_link_info/pcie_gen(?:eration)?/current(?:_link_gen)?|pcie_link_gen_(?:gpu)?current",
        values.number,
    ),
    (
        "gpu.pcie.gen_max",
        r"pci/(?:pci_)?gpu_link_info/pcie_gen(?:eration)?/max(?:_link_gen)?|pcie_link_gen_max",
        values.number,
    ),
    (
        "gpu.pcie.width_current",
        r"pci/(?:pci_)?gpu_link_info/link_widths?/current(?:_link_width)?|pcie_link_width_current",
        values.number,
    ),
    (
        "gpu.pcie.width_max",
        r"pci/(?:pci_)?gpu_link_info/link_widths?/max(?:_link_width)?|pcie_link_width_max",
        values.number,
    ),
    ("gpu.pcie.replays", r"pci/(?:replays_since_reset|replay_counter)|pcie_replay_counter", values.number),
    ("gpu.compute_mode", r"compute_mode", values.word),
    ("gpu.persistence", r"persistence_mode", values.word),
    ("gpu.fabric.state", r"(?:gpu_)?fabric[/_]state", values.word),
    ("gpu.fabric.status", r"(?:gpu_)?fabric[/_]status", values.answer),
    ("gpu.fabric.health", r"(?:gpu_)?fabric/health/summary", values.word),
    ("gpu.mig", r"mig_mode(?:[/_]current(?:_mig)?)?|mig_mode_current", values.word),
    ("gpu.pstate", r"performance_state|pstate", values.known),
)  # fmt: skip
_THROTTLE = r"clocks_(?:throttle|event)_reasons(?:_|/(?:hw_slowdown/)?)(?:clocks_(?:throttle|event)_reason_)?"
_REASONS = {
    "hw_slowdown": "hw_slowdown",
    "hw_thermal": "hw_thermal_slowdown",
    "hw_power_brake": "hw_power_brake(?:_slowdown)?",
    "sw_thermal": "sw_thermal_slowdown",
    "sw_power_cap": "sw_power_cap",
}
_BITS = {"sw_power_cap": 0x4, "hw_slowdown": 0x8, "sw_thermal": 0x20, "hw_thermal": 0x40, "hw_power_brake": 0x80}
_COMPILED = tuple(
    (name, re.compile(pattern), convert)
    for name, pattern, convert in (
        *_NAMES,
        *((f"gpu.throttle.{key}", _THROTTLE + pattern, values.word) for key, pattern in _REASONS.items()),
    )
)
_RESETS = (
    ("gpu_reset_status/reset_required", "reset"),
    ("gpu_reset_status/drain_and_reset_recommended", "drain and reset"),
)
_ADDRESS = ("header", "pci/bus_id", "pci/pci_bus_id", "gpu_bus_id", "pci_bus_id")
_MASK = re.compile(r"clocks_(?:throttle|event)_reasons_active")
_ECC = re.compile(
    r"ecc_errors[/_](?:(?P<age>volatile|aggregate)/"
    r"(?:[sd]ram_(?P<kind>(?:un)?correctable)\w*|(?P<bit>single|double)_bit/total)"
    r"|(?P<done>(?:un)?corrected)_(?P<since>volatile|aggregate)_total)"
)


def facts(device: Device, file: str) -> Iterator[Fact]:
    """Facts of one GPU; all carry the same entity."""
    found = _read(device)
    entity = _entity(device, found)
    for key, name in (("pci", "gpu.pci"), ("gpu", "gpu.index")):
        if key in entity:
            found[name] = (entity[key], device.line)
    for name, value, of in list(_derived(device, found)):
        found[name] = (value, found.get(of, (None, device.line))[1])
    for name, (value, line) in sorted(found.items()):
        yield Fact(name=name, value=value, where=Where(file=file, line=line), entity=entity, time=device.time)
    yield from _processes(device, file, entity)


@lru_cache(maxsize=4096)
def _meaning(path: str) -> tuple[str, Convert] | None:
    """Fact and conversion of a path; machines print the same few hundred paths again and again."""
    return next(((name, convert) for name, pattern, convert in _COMPILED if pattern.fullmatch(path)), None)


def _read(device: Device) -> dict[str, tuple[Value, int]]:
    found: dict[str, tuple[Value, int]] = {}
    for path, (text, line) in device.readings.items():
        if meaning := _meaning(path):
            name, convert = meaning
            value = convert(text)
            if name not in found or found[name][0] is None or value == "yes":
                found[name] = (value, line)
        elif path.endswith("reasons_active") and _MASK.fullmatch(path):
            found |= _mask(text, line)
    found |= _ecc(device)
    return found | _recovery(device)


def _mask(text: str, line: int) -> dict[str, tuple[Value, int]]:
    """`0x0000000000000048` -> the reasons by their bits (nvml.h, nvmlClocksEventReason*)."""
    try:
        bits = int(values.known(text) or "", 16)
    except ValueError:
        return {}
    return {f"gpu.throttle.{key}": ("active" if bits & bit else "not active", line) for key, bit in _BITS.items()}


@lru_cache(maxsize=4096)
def _counter(path: str) -> str | None:
    """`ecc_errors/volatile/dram_uncorrectable` -> `gpu.ecc.volatile_uncorrectable`."""
    match = _ECC.fullmatch(path)
    if match is None:
        return None
    kind = match["kind"] or {"single": "correctable", "double": "uncorrectable"}.get(match["bit"] or "")
    kind = kind or ("uncorrectable" if match["done"] == "uncorrected" else "correctable")
    return f"gpu.ecc.{match['age'] or match['since']}_{kind}"


def _ecc(device: Device) -> dict[str, tuple[Value, int]]:
    """Sums over SRAM and DRAM, or the totals of older drivers; None when no counter can be read."""
    found: dict[str, tuple[Value, int]] = {}
    for path, (text, line) in device.readings.items():
        name = _counter(path)
        if name is None:
            continue
        value = values.number(text)
        before = found.get(name, (None, line))
        if value is None or before[0] is None:
            found[name] = (before[0] if value is None else value, before[1] if value is None else line)
        elif isinstance(before[0], (int, float)):
            found[name] = (before[0] + value, line if value and not before[0] else before[1])
    return found


def _recovery(device: Device) -> dict[str, tuple[Value, int]]:
    """What the driver itself asks for: one word, from the field of new drivers or the reset status of older ones."""
    text, line = device.readings.get("gpu_recovery_action", ("", 0))
    if action := _action(text):
        return {"gpu.recovery_action": (action, line)}
    said = False
    for path, action in _RESETS:
        text, line = device.readings.get(path, ("", 0))
        if values.word(text) == "yes":
            return {"gpu.recovery_action": (action, line)}
        said = said or values.known(text) is not None
    return {"gpu.recovery_action": ("none", device.line)} if said else {}


def _action(text: str) -> str | None:
    """`None` is an answer here: nothing needs to be done."""
    return "none" if values.plain(text) == "none" else values.word(text)


def wrong(found: list[Fact]) -> bool:
    """Do the facts of a GPU show anything that a later output must not hide?"""
    return any(
        (
            fact.value in ("lost", "error", "yes", "active", "reduced")
            and fact.name not in ("gpu.readable", "gpu.throttle.sw_power_cap")
        )
        or (fact.name == "gpu.ecc.volatile_uncorrectable" and bool(fact.value))
        for fact in found
    )


def _entity(device: Device, found: dict[str, tuple[Value, int]]) -> dict[str, Scalar]:
    texts = (device.readings.get(path, ("", 0))[0] for path in _ADDRESS)
    pci = next((address for text in texts if (address := values.pci(text))), None)
    uuid = found.get("gpu.uuid", (None, 0))[0]
    entity: dict[str, Scalar] = {"gpu": device.index, "pci": pci, "uuid": uuid if isinstance(uuid, str) else None}
    return {key: value for key, value in entity.items() if value is not None}


def _processes(device: Device, file: str, entity: dict[str, Scalar]) -> Iterator[Fact]:
    for process in device.processes:
        own = {**entity, "pid": process.pid}
        where = Where(file=file, line=process.line)
        memory = values.size(process.memory)
        yield Fact(name="gpu.process.memory", value=memory, where=where, entity=own, time=device.time)
        if process.name is not None:
            yield Fact(name="gpu.process.name", value=process.name, where=where, entity=own, time=device.time)


def _derived(device: Device, found: dict[str, tuple[Value, int]]) -> Iterator[tuple[str, Value, str]]:
    """(name, value, fact whose line proves it): readings compared with each other; conditions know constants only."""

    def number(name: str) -> float | None:
        value = found.get(name, (None, 0))[0]
        return float(value) if isinstance(value, (int, float)) else None

    yield "gpu.state", _state(device), ""
    if device.complete:
        yield "gpu.readable", _readable(device, found), ""
    width, widest = number("gpu.pcie.width_current"), number("gpu.pcie.width_max")
    if width is not None and widest:
        state = _width(width, widest, str(found.get("gpu.name", ("", 0))[0]))
        yield "gpu.pcie.width_state", state, "gpu.pcie.width_current"
    busy = number("gpu.utilization")
    gen, newest = number("gpu.pcie.gen_current"), number("gpu.pcie.gen_max")
    if gen is not None and newest:
        state = "full" if gen >= newest else ("reduced" if (busy or 0) >= BUSY else "idle")
        yield "gpu.pcie.gen_state", state, "gpu.pcie.gen_current"
    limit, default = number("gpu.power_limit_w"), number("gpu.power_default_w")
    if limit is not None and default:
        yield "gpu.power_limit_state", "lowered" if limit < LOW_LIMIT * default else "default", "gpu.power_limit_w"
    if "gpu.throttle.hw_slowdown" in found:
        yield "gpu.throttle.unspecified", _unspecified(found), "gpu.throttle.hw_slowdown"
    if hot := _heat(device):
        yield "gpu.temperature_state", hot, "gpu.temperature_c"
    clock, fastest = number("gpu.clock.sm_mhz"), number("gpu.clock.max_sm_mhz")
    if clock is not None and fastest and busy is not None and busy >= BUSY:
        yield "gpu.clock.state", "low" if clock < SLOW_CLOCK * fastest else "normal", "gpu.clock.sm_mhz"


def _heat(device: Device) -> str | None:
    """slowdown when the reading has reached the board's own slowdown threshold (absolute, or as distance to it)."""

    def reading(*names: str) -> float | None:
        texts = (device.readings.get(f"temperature/{name}") for name in names)
        return values.number(next((text[0] for text in texts if text), None))

    now = reading("gpu_current_temp", "gpu_temp")
    limit = reading("gpu_slowdown_temp", "gpu_temp_slow_threshold")
    if now is not None and limit:
        return "slowdown" if now >= limit else "ok"
    left = reading("gpu_t_limit_temp", "gpu_temp_tlimit")
    least = reading("gpu_slowdown_t_limit_temp", "gpu_temp_slow_tlimit_threshold")
    if left is None or least is None:
        return None
    return "slowdown" if left <= least else "ok"


def _state(device: Device) -> str:
    """lost, error or ok. One unreadable field happens on sound GPUs; three are a GPU that does not answer."""
    bad = [values.plain(text) for text, _ in device.readings.values() if values.faulty(text)]
    if "gpu is lost" in bad:
        return "lost"
    if any(word.startswith("gpu requires") for word in bad):
        return "error"
    return "error" if len(bad) >= 3 else "ok"


def _readable(device: Device, found: dict[str, tuple[Value, int]]) -> str:
    """yes when errors, remaps and throttle reasons could be read; boards without ECC say N/A, which is an answer."""
    bad = any(
        values.faulty(text)
        for path, (text, _) in device.readings.items()
        if path.startswith(("ecc_errors", "remapped_rows", "retired_pages", "clocks_throttle", "clocks_event"))
    )
    throttle = any(found.get(f"gpu.throttle.{key}", (None, 0))[0] is not None for key in _REASONS)
    errors = any(name.startswith("gpu.ecc.volatile") for name in found) or "ecc_errors" in device.readings
    return "yes" if throttle and errors and not bad else "no"


def _width(width: float, widest: float, name: str) -> str:
    """Desktop boards share 16 lanes between two slots on purpose; data-centre boards never do."""
    if width >= widest:
        return "full"
    desktop = re.search(r"GeForce|TITAN|Quadro|RTX \d{4}", name) is not None
    return "shared" if desktop and width * 2 >= widest else "reduced"


def _unspecified(found: dict[str, tuple[Value, int]]) -> Value:
    """Hardware slowdown for which neither heat nor the power brake is named."""
    if found["gpu.throttle.hw_slowdown"][0] != "active":
        return found["gpu.throttle.hw_slowdown"][0]
    named = [found.get(f"gpu.throttle.{key}", (None, 0))[0] for key in ("hw_thermal", "hw_power_brake", "sw_thermal")]
    return "not active" if "active" in named else "active"
