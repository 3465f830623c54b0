"""DCGM's counters of what GPUs really do: `dcgmi dmon -e 203,1001-1005`, and the exporter's metrics text.

Facts of a GPU (entity gpu, node when the exporter says), means over all samples, per cent:
gpu.sm_active       of the time, multiprocessors with work, averaged over all of them
gpu.sm_occupancy    resident warps against the most possible
gpu.tensor_active   cycles in which the tensor cores worked
gpu.dram_active     cycles in which device memory moved data
gpu.utilization     of the time, some kernel ran: no measure of how much got done
"""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator

from triage.model.base import Scalar
from triage.model.bundle import Document
from triage.model.event import Fact, Where
from triage.parsers._documents import inflated

SOURCE = "dcgm_fields"
LINES = 1_000_000
_COLUMNS = {
    "SMACT": "gpu.sm_active", "SMOCC": "gpu.sm_occupancy", "TENSO": "gpu.tensor_active", "DRAMA": "gpu.dram_active",
    "GPUTL": "gpu.utilization",
}  # fmt: skip
_METRICS = {
    "DCGM_FI_PROF_SM_ACTIVE": "gpu.sm_active", "DCGM_FI_PROF_SM_OCCUPANCY": "gpu.sm_occupancy",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "gpu.tensor_active", "DCGM_FI_PROF_DRAM_ACTIVE": "gpu.dram_active",
    "DCGM_FI_DEV_GPU_UTIL": "gpu.utilization",
}  # fmt: skip
_HEAD = re.compile(r"^#\s?Entity\s+(.*)$")
_ROW = re.compile(r"^\s{0,20}GPU\s+(\d{1,4})\s+(.*)$")
_METRIC = re.compile(
    r"^(DCGM_FI_\w{1,60})\{([^}\n]{0,2000})\}\s+([-+.\deE]{1,30})(?:\s+\d{1,20})?\s*$"
)  # name{labels} value [ms]
_LABEL = re.compile(r'(\w{1,40})="([^"]{0,200})"')
Key = tuple[str | None, int, str]
SIGNS = (re.compile(rb"^#\s?Entity|^DCGM_FI_", re.MULTILINE),)


def recognises(head: bytes, tail: bytes) -> int:
    """2 for a table with DCGM's short names or metrics of its exporter."""
    text = head.decode("latin-1")
    if any(set(found.split()) & _COLUMNS.keys() for found in re.findall(r"(?m)^#\s?Entity\s+(.*)$", text)):
        return 2
    return 2 if any(f"\n{name}{{" in f"\n{text}" for name in _METRICS) else 0


def facts(document: Document) -> Iterator[Fact]:
    """Means of each GPU."""
    told: dict[Key, list[float]] = defaultdict(list)
    first: dict[Key, tuple[int, str]] = {}
    columns: list[str] = []
    for number, line in enumerate(inflated(document.data).decode("utf-8", "replace").splitlines()[:LINES], start=1):
        if head := _HEAD.match(line):
            columns = head.group(1).split()
            continue
        for key, value in _values(line, columns, document.file.node):
            told[key].append(value)
            first.setdefault(key, (number, line))
    for key in sorted(told, key=lambda item: (item[0] or "", item[1], item[2])):
        node, gpu, name = key
        entity: dict[str, Scalar] = {"gpu": gpu} if node is None else {"gpu": gpu, "node": node}
        number, line = first[key]
        value = round(statistics.fmean(told[key]), 2)
        where = Where(file=document.file.path, line=number)
        yield Fact(name=name, value=value, where=where, entity=entity, text=line[:2000], evidence=(where,))


def _values(line: str, columns: list[str], node: str | None) -> Iterator[tuple[Key, float]]:
    """What a row or a metric says, in per cent."""
    if (row := _ROW.match(line)) and columns:
        for column, cell in zip(columns, row.group(2).split(), strict=False):
            name, value = _COLUMNS.get(column), _number(cell)
            if name and value is not None:
                yield (node, int(row.group(1)), name), _per_cent(name, value)
    elif (metric := _METRIC.match(line)) and metric.group(1) in _METRICS:
        labels = dict(_LABEL.findall(metric.group(2)))
        name, value, gpu = _METRICS[metric.group(1)], _number(metric.group(3)), labels.get("gpu", "")
        if value is not None and gpu.isdigit() and len(gpu) < 5:
            yield (labels.get("Hostname") or node, int(gpu), name), _per_cent(name, value)


def _per_cent(name: str, value: float) -> float:
    return value if name == "gpu.utilization" else 100 * value


def _number(cell: str) -> float | None:
    """A finite number; DCGM writes N/A where a card has no such counter."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= 1e4 else None
