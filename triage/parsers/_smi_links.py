"""NVLink states and error counters (`nvidia-smi nvlink -s`, `-e`), the topology matrix, the rows of pmon and dmon."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.model.base import Scalar, Value
from triage.model.event import Fact, Where
from triage.parsers import _smi_values as values
from triage.parsers._smi_tables import columns
from triage.parsers._smi_text import slug

GPU = re.compile(r"GPU (?P<gpu>\d{1,3}): (?P<name>[^(\n]{1,120}?) \(UUID: (?P<uuid>[A-Z]+-[0-9a-f-]{8,60})\)")
_LINK = re.compile(r"\s+Link (?P<link>\d{1,2}): *(?P<rest>\S.*)")
_ERROR = re.compile(r"(?P<name>[A-Z][\w ./-]{2,40}?)(?: Errors?)?: *(?P<count>\d{1,19}|N/A)\s*$")
TOPOLOGY = re.compile(r"^[ \t]*(?:GPU\d+[ \t]+)+(?:CPU Affinity|NIC\d|mlx5_\d|NUMA)|^[ \t]+(?:GPU\d+[ \t]*)+$")
_PATH = re.compile(r"X|NV\d{1,2}|PIX|PXB|PHB|NODE|SYS|SOC|C2C")
COLUMNS = re.compile(r"# ?gpu +(?:pid|pwr|sm|temp|gtemp|mclk|fb|sbecc|rxpci|pviol)\b")
ANSI = re.compile(r"\x1b?\[\d{1,2}m")


def links(lines: list[str], start: int, file: str) -> tuple[list[Fact], int]:
    """Facts of the links of the GPU named at `start`, and the first line that is no link."""
    head = GPU.match(lines[start].strip())
    if head is None:
        return [], start + 1
    entity: dict[str, Scalar] = {"gpu": int(head["gpu"]), "uuid": head["uuid"]}
    found: list[Fact] = []
    states: list[str] = []
    index = start + 1
    while index < len(lines) and ((link := _LINK.match(lines[index].rstrip())) or not lines[index].strip()):
        if link is None:  # newer drivers put an empty line between links
            index += 1
            continue
        where = Where(file=file, line=index + 1)
        own = {**entity, "link": link["link"]}
        if "GB/s" in link["rest"] or "inactive" in link["rest"].lower():
            states.append("inactive" if "inactive" in link["rest"].lower() else "active")
            found.append(Fact(name="nvlink.state", value=states[-1], where=where, entity=own))
        elif error := _ERROR.match(link["rest"]):
            name = f"nvlink.errors.{slug(error['name'])}"
            found.append(Fact(name=name, value=values.number(error["count"]), where=where, entity=own))
        index += 1
    if states:
        where = Where(file=file, line=start + 1)
        found.append(Fact(name="gpu.name", value=head["name"], where=where, entity=entity))
        found.append(Fact(name="nvlink.links", value=len(states), where=where, entity=entity))
        found.append(Fact(name="nvlink.inactive", value=states.count("inactive"), where=where, entity=entity))
        mixed = "some" if 0 < states.count("inactive") < len(states) else "all" if "inactive" in states else "none"
        found.append(Fact(name="nvlink.inactive_state", value=mixed, where=where, entity=entity))
    return found, index


def topology(lines: list[str], start: int, file: str) -> tuple[list[Fact], int]:
    """`gpu.topology`: for each GPU how it reaches the others, as `GPU1=NV18` in the order of the matrix."""
    heads = re.split(r"\t+| {2,}", ANSI.sub("", lines[start]).strip())
    if len(heads) == 1:
        heads = heads[0].split()
    found: list[Fact] = []
    index = start + 1
    while index < len(lines) and re.match(r"[ \t]*(?:GPU|NIC|mlx5_)\d+\b", ANSI.sub("", lines[index])):
        cells = ANSI.sub("", lines[index]).split()
        paths = [cell for cell in cells[1:] if _PATH.fullmatch(cell)]
        if len(paths) > 1 and cells[0].startswith("GPU") and cells[0][3:].isdigit():  # `topo -p2p` has none
            value: Value = [f"{head}={path}" for head, path in zip(heads, paths, strict=False) if path != "X"]
            where = Where(file=file, line=index + 1)
            found.append(Fact(name="gpu.topology", value=value, where=where, entity={"gpu": int(cells[0][3:])}))
        index += 1
    return found, index


_COLUMN_FACTS = {
    "pwr": "gpu.power_w", "gtemp": "gpu.temperature_c", "temp": "gpu.temperature_c", "sm": "gpu.utilization",
    "pclk": "gpu.clock.sm_mhz", "pci": "gpu.pcie.replays",
    "dbecc": "gpu.ecc.volatile_uncorrectable", "sbecc": "gpu.ecc.volatile_correctable",
    "pviol": "gpu.throttle.power_percent", "tviol": "gpu.throttle.thermal_percent",
}  # fmt: skip


def rows(lines: list[str], start: int, file: str) -> tuple[list[Fact], int]:
    """The last row of each GPU (dmon) or of each process (pmon)."""
    last: dict[tuple[str, str], tuple[int, dict[str, str]]] = {}
    end = start + 1
    for line, cells in columns(lines, start):
        last[cells["gpu"], cells.get("pid", "")] = (line, cells)
        end = line
    return [fact for line, cells in last.values() for fact in _row(line, cells, file)], end


def _row(line: int, cells: dict[str, str], file: str) -> Iterator[Fact]:
    where = Where(file=file, line=line)
    entity: dict[str, Scalar] = {"gpu": int(cells["gpu"][:4])}
    if "pid" in cells:
        if cells["pid"].isdigit() and len(cells["pid"]) < 11:
            entity["pid"] = int(cells["pid"])
            memory = values.size(f"{cells['fb']} MiB") if "fb" in cells else None
            yield Fact(name="gpu.process.memory", value=memory, where=where, entity=entity)
            name = cells.get("command", cells.get("name"))
            yield Fact(name="gpu.process.name", value=name, where=where, entity=entity)
        return
    for column, name in _COLUMN_FACTS.items():
        if column in cells:
            yield Fact(name=name, value=values.number(cells[column]), where=where, entity=entity)
