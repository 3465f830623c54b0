"""The ordinary table of nvidia-smi with its processes, and the CSV of --query-gpu and --query-compute-apps."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.parsers import _smi_values as values
from triage.parsers import _stamps
from triage.parsers._smi_device import Device, Process
from triage.parsers._smi_text import slug

TABLE = re.compile(r"\| NVIDIA-SMI +[\w.]+ .*Driver Version: *(?P<driver>[\w.]+)")
_GPU = re.compile(
    r"\| *(?P<index>\d{1,3}) +(?P<name>\S.*?) +(?P<persistence>On|Off|N/A|ERR!) *\|"
    r" *(?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]) +(?P<display>\S+) *\|"
    r" *(?P<ecc>\S[^|]*?) *\|"
)
_LOAD = re.compile(
    r"\| *(?P<fan>\S+) +(?P<temp>\S+) +(?P<perf>\S+) +(?P<power>\S+) */ *(?P<limit>\S+) *\|(?P<memory>[^|]*)\|"
    r" *(?P<util>\S+) +(?P<mode>\S.*?) *\|"
)
_PROCESS = re.compile(
    r"\| *(?P<gpu>\d{1,3}) +(?:\S+ +\S+ +)??(?P<pid>\d{1,10}) +(?P<type>C\+G|M\+C|[CGM]) +(?P<name>\S.*?)"
    r" +(?P<memory>\S+) *\|"
)
_MODES = {"E. Process": "Exclusive_Process", "E. Thread": "Exclusive_Thread"}
PROCESSES = 1000  # of one table
_KNOWN = {
    "index", "name", "gpu_name", "uuid", "gpu_uuid", "gpu_bus_id", "gpu_serial", "serial", "timestamp",
    "driver_version", "count", "pstate", "compute_mode", "persistence_mode", "pid", "process_name", "used_memory",
    "used_gpu_memory",
    "vbios_version", "gpu_recovery_action",
}  # fmt: skip
_FAMILIES = re.compile(
    r"(?:pci|temperature|utilization|memory|power|clocks|ecc|clocks_(?:throttle|event)_reasons|remapped_rows|retired_pages"
    r"|pcie|fabric|mig|fan)\.[a-z]"
)
_DEEP = re.compile(r"ecc_errors|remapped_rows|clocks_(?:throttle|event)_reasons")
_UNIT = re.compile(r" *\[([^\]]*)\]$")
# One field of a header that another follows: what no header lacks.
HEADER = re.compile(
    (r"(?:^|\xef\xbb\xbf|,)\s*(?:(?:" + "|".join(sorted(_KNOWN)) + r")\s*(?:\[[^\]\n]*\]\s*)?|"
     + _FAMILIES.pattern + r"[^,\n]*),").encode(),
    re.MULTILINE,
)  # fmt: skip


def table(lines: list[str], start: int) -> tuple[list[Device], int]:
    """The GPUs of the table whose head stands at `start`, with their processes, and the first line behind it."""
    driver = TABLE.search(lines[start])
    devices: dict[int, Device] = {}
    time = next((stamp for line in lines[max(start - 2, 0) : start] if (stamp := _stamps.find(line)[0])), None)
    index, last = start + 1, start
    current: Device | None = None
    while index < len(lines) and index - last < 4 and not TABLE.search(lines[index]):
        line = lines[index].strip()
        if line.startswith(("|", "+")):
            last = index
            current = _row(devices, current, line, index + 1)
        index += 1
    for device in devices.values():
        device.time = time
        device.readings["driver_version"] = (driver["driver"] if driver else "", start + 1)
    return list(devices.values()), index


def _row(devices: dict[int, Device], current: Device | None, line: str, number: int) -> Device | None:
    if found := _GPU.match(line):
        device = Device(line=number, index=int(found["index"]))
        device.readings |= {
            "gpu_name": (found["name"], number),
            "gpu_bus_id": (found["pci"], number),
            "persistence_mode": ({"On": "Enabled", "Off": "Disabled"}.get(found["persistence"], "N/A"), number),
            "display": (found["display"], number),
            "ecc_errors_uncorrected_volatile_total": (found["ecc"], number),
        }
        devices[device.index or 0] = device
        return device
    if current is not None and (found := _LOAD.match(line)):
        _load(current, found, number)
        return None
    if (found := _PROCESS.match(line)) and (device_of := devices.get(int(found["gpu"]))):
        if len(device_of.processes) < PROCESSES:
            device_of.processes.append(Process(int(found["pid"]), number, found["name"], found["memory"]))
        return None
    return current


def _load(device: Device, found: re.Match[str], line: int) -> None:
    used, _, total = found["memory"].partition("/")
    cells = {
        "temperature_gpu": found["temp"],
        "pstate": found["perf"],
        "power_draw": found["power"],
        "power_limit": found["limit"],
        "utilization_gpu": found["util"],
        "compute_mode": _MODES.get(found["mode"], found["mode"]),
        "memory_used": used.strip() if total else found["memory"].strip(),
        "memory_total": total.strip() or found["memory"].strip(),
    }
    device.readings |= {name: (text, line) for name, text in cells.items()}


def header(line: str) -> list[str] | None:
    """Field names of a CSV header (`index, name, utilization.gpu [%]`), or None when the line is none."""
    if "," not in line or len(line) > 4000 or "--query" in line:  # the command itself names the same fields
        return None
    cells = [_UNIT.sub("", cell.strip()).strip() for cell in line.split(",")]
    hits = sum(1 for cell in cells if cell in _KNOWN or _FAMILIES.match(cell))
    return [slug(cell) for cell in cells] if hits >= 2 and hits * 3 >= len(cells) * 2 else None


def units(line: str) -> list[str]:
    """Units of the header's fields, for output that names them there only (`nounits`)."""
    return [found[1] if (found := _UNIT.search(cell.strip())) else "" for cell in line.split(",")]


def csv(lines: list[str], start: int, names: list[str]) -> tuple[list[Device], int]:
    """One Device a row below the header at `start`; and the first line that is no row.

    Of repeated outputs (`-l`) the last row of each GPU is kept, and the first row that shows something wrong.
    """
    unit = units(lines[start])
    last: dict[str, Device] = {}
    odd: dict[str, Device] = {}
    index = start + 1
    while index < len(lines):
        cells = [cell.strip() for cell in lines[index].split(",")]
        if len(cells) != len(names):
            if lines[index].strip() and lines[index].strip() != lines[start].strip():
                break
        elif slug(cells[0]) != names[0]:
            device = _csv_row(names, cells, unit, index + 1)
            key = _key(device, index)
            _merge(last, key, device)
            if any(text in ("Active", "Yes") or values.faulty(text) for text in cells):
                odd.setdefault(key, device)
        index += 1
    early = [device for key, device in odd.items() if device is not last[key]]
    return [*early, *last.values()], index


def _merge(last: dict[str, Device], key: str, device: Device) -> None:
    """Rows of processes add up on their GPU; rows of GPUs replace the one before."""
    before = last.get(key)
    if before is not None and device.processes:
        before.processes += device.processes[: PROCESSES - len(before.processes)]
    else:
        last[key] = device


def _csv_row(names: list[str], cells: list[str], unit: list[str], line: int) -> Device:
    device = Device(line=line)
    for name, cell, measure in zip(names, cells, unit, strict=True):
        sized = f"{cell} {measure}" if measure.endswith("iB") and cell.isdigit() else cell
        device.readings["gpu_bus_id" if name in ("pci_bus_id", "gpu_bus_id") else name] = (sized, line)
    number = device.readings.get("index", ("", 0))[0]
    device.index = int(number) if number.isdigit() and len(number) < 5 else None
    device.time = _stamps.find(device.readings.get("timestamp", ("", 0))[0])[0]
    device.complete = any(_DEEP.match(name) for name in names)
    pid = device.readings.pop("pid", ("", 0))[0]
    if pid.isdigit() and len(pid) < 11:
        memory = device.readings.get("used_gpu_memory") or device.readings.get("used_memory")
        process = device.readings.get("process_name")
        device.processes.append(Process(int(pid), line, process[0] if process else None, memory[0] if memory else None))
    return device


def _key(device: Device, index: int) -> str:
    for name in ("gpu_uuid", "uuid", "gpu_bus_id", "index"):
        if name in device.readings:
            return device.readings[name][0]
    return str(index)


def columns(lines: list[str], start: int) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of `# gpu pid type ...` output (pmon, dmon) as name -> cell, with the line number."""
    names = [slug(name) for name in lines[start].lstrip("# ").split()]
    for index in range(start + 1, len(lines)):
        line = lines[index].strip()
        if line.startswith("#") or not line:
            continue
        cells = line.split(None, len(names) - 1)
        if len(cells) != len(names) or not cells[0].isdigit():
            return
        yield index + 1, dict(zip(names, cells, strict=True))
