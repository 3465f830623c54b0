"""nvidia-smi: `-q` as text and XML, the table, `--query-gpu` CSV, `nvlink`, `topo -m`, `pmon`, `dmon`; its error lines.

Facts, entity {gpu, pci, uuid} as far as printed; None where the tool says N/A, ERR! or [Unknown Error]:
    gpu.index gpu.uuid gpu.pci gpu.name gpu.driver gpu.temperature_c gpu.power_w gpu.power_limit_w gpu.power_default_w
    gpu.utilization (per cent) gpu.memory_total gpu.memory_used (bytes) gpu.pstate gpu.mig gpu.compute_mode
    gpu.persistence
    gpu.ecc.{mode,volatile_correctable,volatile_uncorrectable,aggregate_correctable,aggregate_uncorrectable}
    gpu.ecc.{sram_threshold,unrepairable,repair_pending} (yes|no)
    gpu.remap.{pending,failure} (yes|no) gpu.remap.{uncorrectable,banks_exhausted}
    gpu.retired.pending gpu.retired.double_bit
    gpu.throttle.{hw_slowdown,hw_thermal,hw_power_brake,sw_thermal,sw_power_cap} (active|not active)
    gpu.throttle.unspecified (active: a hardware slowdown for which no reason is named)
    gpu.throttle.{power_percent,thermal_percent} (dmon) gpu.temperature_state (ok|slowdown)
    gpu.clock.sm_mhz gpu.clock.max_sm_mhz gpu.clock.state (normal|low, of busy GPUs only)
    gpu.pcie.{gen_current,gen_max,width_current,width_max,replays}
    gpu.pcie.width_state (full|shared|reduced) gpu.pcie.gen_state (full|idle|reduced: reduced while busy)
    gpu.power_limit_state (default|lowered) gpu.fabric.{state,status,health}
    gpu.recovery_action (none, or what the driver asks for)
    gpu.state (ok|error|lost) gpu.readable (yes|no: error, remap and throttle fields could be read)
    gpu.process.memory (bytes) gpu.process.name (entity has pid) gpu.topology (list of `GPU1=NV18`)
    nvlink.state (active|inactive) nvlink.errors.* (entity has link) nvlink.links nvlink.inactive nvlink.inactive_state
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import structs

from triage.model.bundle import Document, Window
from triage.model.event import Event, Fact, Where
from triage.parsers import _smi_device, _smi_links, _smi_tables, _smi_text, _smi_xml, _stamps

SOURCE = "nvidia_smi"
BEFORE, AFTER = 0, 3
LIMIT = 64 << 20  # bytes read of one file; a machine of 16 GPUs prints 0.3 MB
DEVICES = 20_000  # outputs of one GPU read from one file

_FILE = re.compile(
    rb"=NVSMI LOG=|<nvidia_smi_log>|\| NVIDIA-SMI +\d|NVIDIA-SMI has failed because|^NVIDIA-SMI version +:"
    rb"|^Failed to initialize NVML: |^Unable to determine the device handle for [Gg]pu"
    rb"|^No devices were found[ \t\r]{0,40}$|^# ?gpu +(?:pid|pwr|sm|temp|gtemp|mclk|fb|sbecc|rxpci|pviol)\b"
    rb"|^[ \t\x1b\[0-9m]{0,64}GPU0\s[^\n]{0,600}CPU Affinity"
    rb"|^GPU \d+: [^\n]{3,100} \(UUID: GPU-[0-9a-f-]{1,60}\)[ \t\r]{0,40}\n[ \t]{1,40}Link \d+: ",
    re.MULTILINE,
)
_PIECE = re.compile(
    rb"^ {4}(?:Clocks (?:Throttle|Event) Reasons|Remapped Rows|ECC Errors|Retired Pages)[ \t\r]{0,40}$", re.MULTILINE
)
_XML_END = "</nvidia_smi_log>"
SIGNS = (_FILE, _PIECE, _smi_tables.HEADER)


def recognises(head: bytes, tail: bytes) -> int:
    """2: an output of nvidia-smi stands in the first lines; 1: one stands further down."""
    lines = head[:4096].split(b"\n", 12)
    if _FILE.search(b"\n".join(lines[:12])) or any(_smi_tables.header(_text(line)) for line in lines[:3]):
        return 2
    return 1 if _FILE.search(head) or _FILE.search(tail) or _PIECE.search(head) else 0


def parse(window: Window) -> Event:
    """A line of nvidia-smi or NVML; its blank-led continuation lines joined."""
    line = window.lines[window.hit]
    time, end = _stamps.find(line)
    body = [line[end:].strip()]
    for more in window.lines[window.hit + 1 :]:
        if not more.startswith("Reboot the system") and "Make sure that the latest" not in more:
            break
        body.append(more.strip())
    return Event(
        where=Where(file=window.file.path, line=window.numbers[window.hit]),
        text=body[0][:2000],
        body="\n".join(body),
        source=SOURCE,
        time=time,
        node=window.file.node,
        rank=window.file.rank,
    )


def facts(document: Document) -> Iterator[Fact]:
    """Facts of every output in the file, in order; the node comes from the file's path."""
    lines = _text(document.data[:LIMIT]).splitlines()
    node = document.file.node
    for fact in _all(lines, document.file.path):
        text = lines[min(fact.where.line or 1, len(lines)) - 1].strip()[:500]
        entity = fact.entity if node is None else {"node": node, **fact.entity}
        yield structs.replace(fact, entity=entity, text=text)


def _all(lines: list[str], file: str) -> Iterator[Fact]:
    """Facts in order. Of outputs repeated for a GPU (`-l`) the last is kept, and the first that shows a fault."""
    last: dict[str, list[Fact]] = {}
    told: set[str] = set()
    index = seen = 0
    while index < len(lines) and seen < DEVICES:
        devices, plain, index = _output(lines, index, file)
        seen += len(devices)
        for device in devices:
            found = list(_smi_device.facts(device, file))
            key = f"{found[0].entity if found else ''} {device.complete}"
            if key not in told and (before := last.get(key)) and _smi_device.wrong(before):
                told.add(key)
                yield from before
            last[key] = found
        yield from plain
    for found in last.values():
        yield from found


def _output(lines: list[str], index: int, file: str) -> tuple[list[_smi_device.Device], list[Fact], int]:
    """The output that starts at a line: its GPUs, facts of other kinds, and where to go on."""
    line = lines[index]
    if "NVSMI LOG" in line and _smi_text.START.search(line):
        devices, index = _smi_text.devices(lines, index)
        return devices, [], index
    if "<nvidia_smi_log" in line:
        end = next((at for at in range(index, len(lines)) if _XML_END in lines[at]), len(lines) - 1)
        document = "\n".join(lines[index : end + 1])
        document = document[document.index("<nvidia_smi_log") :]
        return _smi_xml.devices(_entities(lines, index) + document, index + 1), [], end + 1
    if "NVIDIA-SMI" in line and _smi_tables.TABLE.search(line):
        devices, index = _smi_tables.table(lines, index)
        return devices, [], index
    return _others(lines, index, file)


def _entities(lines: list[str], index: int) -> str:
    """A document type that declares entities is kept, so that the reader sees and refuses it; others are left out."""
    before = " ".join(lines[max(index - 50, 0) : index])
    return "<!DOCTYPE x [<!ENTITY x 'x'>]>" if "<!ENTITY" in before else ""


def _others(lines: list[str], index: int, file: str) -> tuple[list[_smi_device.Device], list[Fact], int]:
    line = lines[index]
    if "," in line and (names := _smi_tables.header(line)):
        devices, index = _smi_tables.csv(lines, index, names)
        return devices, [], index
    found: list[Fact] = []
    if "GPU" in line and _smi_links.GPU.match(line.strip()):
        found, index = _smi_links.links(lines, index, file)
        return [], found, index
    if "GPU0" in line and _smi_links.TOPOLOGY.search(_smi_links.ANSI.sub("", line)):
        found, index = _smi_links.topology(lines, index, file)
        return [], found, index
    if line.startswith("#") and _smi_links.COLUMNS.match(line):
        found, index = _smi_links.rows(lines, index, file)
        return [], found, index
    return [], [], index + 1


def _text(data: bytes) -> str:
    """Text whatever its encoding: PowerShell and Windows write UTF-16."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace").removeprefix("\ufeff")
