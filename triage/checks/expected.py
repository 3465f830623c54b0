"""What a healthy card of a model should get: parts of what data sheets promise, and below which part it is unsound.

The parts were set from one healthy H200 (fixtures/checks/h200: product 0.89 of what its clock allows, copy 0.86, PCIe
0.88) with room below for other models, on which they were not measured; those for NVLink and all-reduce are estimates.
"""

from __future__ import annotations

from functools import cache

from triage import content
from triage.errors import ContentError
from triage.model.tables import GpuModel

# Dense fp16/bf16 operations of a multiprocessor in one clock, by compute capability: the vendor's architecture papers.
OPERATIONS = {"7.0": 1024, "8.0": 2048, "9.0": 4096, "10.0": 8192}
LINK = {"7.0": 25, "8.0": 25, "9.0": 25, "10.0": 50}  # GB/s of one NVLink in one direction
LANE = {3: 0.985, 4: 1.969, 5: 3.938, 6: 7.877}  # GB/s of one PCIe lane in one direction, after its encoding
REACH = {"product": 0.75, "memory": 0.85, "pcie": 0.8, "nvlink": 0.8, "all-reduce": 0.7}
FLOOR = {"product": 0.6, "memory": 0.75, "pcie": 0.55, "nvlink": 0.6, "all-reduce": 0.45, "clock": 0.5}
PEERS = 0.9  # of the median of the other cards
PAIRS = 0.8  # of the median of the other pairs: paths differ more than cards do


@cache
def models() -> tuple[GpuModel, ...]:
    """The table of models."""
    marked = content.read(content.data("gpu_models.yaml"))
    rows = content.convert(marked, list[GpuModel])
    if rows is None or marked.faults:
        raise ContentError(marked.faults)
    return tuple(rows)


def model(name: str) -> GpuModel | None:
    """The model whose name is the longest part of what the driver calls the card."""
    fits = [(len(known), row) for row in models() for known in row.names if known in name]
    return max(fits, key=lambda fit: fit[0])[1] if fits else None


def product(compute: str, multiprocessors: float, mhz: float) -> float | None:
    """Dense bf16 TFLOP/s that the card could do at this clock; None for a chip without a figure."""
    each = OPERATIONS.get(compute)
    return None if each is None else each * multiprocessors * mhz * 1e-6


def pcie(generation: float, width: float) -> float | None:
    """GB/s of a slot in one direction."""
    lane = LANE.get(int(generation))
    return None if lane is None else lane * width


def nvlink(known: GpuModel | None) -> float | None:
    """GB/s from one card to any other, for models that are sold with NVLink switches; None for others."""
    if known is None or known.nvlinks < 12 or not ("-sxm" in known.id or known.id in {"b200", "gb200"}):
        return None
    each = LINK.get(known.compute)
    return None if each is None else float(each * known.nvlinks)
