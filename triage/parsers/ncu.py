"""Nsight Compute's CSV (`ncu --csv`, `ncu -i report --csv [--page raw]`); the report itself is a gap.

Facts of the kernels profiled, weighted by their time:
ncu.kernels              how many were profiled
ncu.compute, ncu.memory  share of the peak that multiprocessors and memory reached, 0 to 1
ncu.occupancy            resident warps against the most possible, 0 to 1
ncu.top_kernels          `share name: compute %, memory %`, by time, at most TOP
ncu.unreadable           why nothing was read
"""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterator

from triage.model.base import number
from triage.model.bundle import Document
from triage.model.event import Fact
from triage.parsers._documents import Teller, inflated

SOURCE = "ncu"
ROWS = 1_000_000
TOP = 5
_METRICS = {
    "gpu__time_duration.sum": "time", "duration": "time",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute", "compute (sm) throughput": "compute",
    "sm throughput": "compute", "sol sm": "compute", "compute (sm) [%]": "compute", "sm [%]": "compute",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "memory", "memory throughput": "memory",
    "sol dram": "memory", "sol memory": "memory", "memory [%]": "memory",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy", "achieved occupancy": "occupancy",
}  # fmt: skip
_SECONDS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "s": 1.0}  # by the first letter of the unit
_MOST = 1e15  # of a metric in the tool's units; more is a broken number, and products of such are beyond floats
_HEAD = b'"Kernel Name"'
Kernel = dict[str, float]


def recognises(head: bytes, tail: bytes) -> int:
    """2 for its CSV, and for a report that was not exported."""
    if _HEAD in head and b'"ID"' in head and (b'"Metric Name"' in head or b"gpu__time_duration" in head):
        return 2
    return 2 if head.startswith(b"NVR\0") else 0


def facts(document: Document) -> Iterator[Fact]:
    """What the kernels reach. Raises ValueError for a report that was not exported: that is a gap."""
    if document.data.startswith(b"NVR\0"):
        raise ValueError("a report of Nsight Compute: ncu -i FILE --csv makes a file that can be read")
    teller = Teller(document)
    lines = inflated(document.data).decode("utf-8", "replace").splitlines()[:ROWS]
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    names: dict[str, str] = {}
    kernels: dict[str, Kernel] = defaultdict(dict)
    try:
        for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
            _take(row, kernels, names)
    except csv.Error as error:
        yield teller.fact("ncu.unreadable", str(error)[:200])
        return
    timed = {key: kernel for key, kernel in kernels.items() if kernel.get("time", 0) > 0}
    if not timed:
        yield teller.fact("ncu.unreadable", "no kernel with a duration")
        return
    yield from _told(teller, timed, names)


def _take(row: dict[str, str | None], kernels: dict[str, Kernel], names: dict[str, str]) -> None:
    """A row of one metric, or of all metrics of a kernel; the row of units below the header has no ID."""
    key = row.get("ID") or ""
    if not key.isdigit():
        kernels["units"] = {}
        names.update({f"unit of {name}": value or "" for name, value in row.items() if isinstance(name, str)})
        return
    names[key] = (row.get("Kernel Name") or "")[:120]
    if "Metric Name" in row:
        _keep(kernels[key], row["Metric Name"] or "", row.get("Metric Value"), row.get("Metric Unit") or "")
        return
    for name, value in row.items():
        if isinstance(name, str):
            _keep(kernels[key], name, value, names.get(f"unit of {name}", ""))


def _keep(kernel: Kernel, name: str, value: str | None, unit: str) -> None:
    metric, found = _METRICS.get(name.strip().lower()), number((value or "").replace(",", ""))
    if metric is None or found is None or not 0 <= found <= _MOST or (metric == "memory" and "byte" in unit.lower()):
        return
    kernel[metric] = found * _SECONDS.get(unit[:1].lower(), 1e-9) if metric == "time" else found / 100


def _told(teller: Teller, kernels: dict[str, Kernel], names: dict[str, str]) -> Iterator[Fact]:
    yield teller.fact("ncu.kernels", len(kernels))
    for metric in ("compute", "memory", "occupancy"):
        told = [(kernel["time"], kernel[metric]) for kernel in kernels.values() if metric in kernel]
        weight = math.fsum(time for time, _ in told)
        if weight > 0:
            yield teller.fact(f"ncu.{metric}", round(math.fsum(time * share for time, share in told) / weight, 4))
    total = math.fsum(kernel["time"] for kernel in kernels.values())
    longest = sorted(kernels.items(), key=lambda item: (-item[1]["time"], int(item[0])))[:TOP]
    yield teller.fact(
        "ncu.top_kernels",
        [
            f"{kernel['time'] / total:.3f} {names[key]}: compute {_share(kernel, 'compute')}, "
            f"memory {_share(kernel, 'memory')}"
            for key, kernel in longest
        ],
    )


def _share(kernel: Kernel, metric: str) -> str:
    return f"{100 * kernel[metric]:.0f} %" if metric in kernel else "unknown"
