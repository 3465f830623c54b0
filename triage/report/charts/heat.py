"""Rank x step: how long a part of the step took on each rank, against the median rank at the same step."""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

from triage.model.event import Where
from triage.model.incident import Incident
from triage.model.pictures import Heat

ROWS = 1024  # ranks drawn; culprits are always among them
COLUMNS = 512
MIDDLE, LEVELS_PER_DOUBLING = 8, 4
WAITING = frozenset({"comm_ms", "bwd_ms", "step_ms"})  # parts in which a rank waits for a slower one
# Blue (faster) over grey (as the others) to red (slower); 0 is unknown. Distinguishable without telling red from green.
PALETTE = (
    (160, 160, 160), (33, 84, 158), (52, 106, 178), (80, 130, 196), (115, 157, 211), (151, 182, 222), (186, 205, 230),
    (211, 219, 230), (226, 226, 226), (240, 216, 190), (247, 196, 150), (246, 170, 108), (238, 138, 74),
    (222, 102, 50), (196, 62, 36), (150, 20, 24),
)  # fmt: skip

Table = dict[int, dict[int, float]]  # rank -> step -> ms
Times = dict[str, Table]  # by part of the step


def collect(incident: Incident, times: Times, places: dict[int, Where]) -> Heat | None:
    """The part of the step in which the culprits stand out most; None with fewer than two ranks or steps.

    places: where the times of each rank stand.
    """
    culprits = tuple(
        sorted({int(str(fact.entity["rank"])) for fact in incident.facts if fact.name == "straggler.culprit"})
    )
    phases = [phase for phase in sorted(times) if phase.endswith("_ms")]
    found = [heat for phase in phases if (heat := _of(phase, times[phase], culprits, places))]
    return max(found, key=_telling, default=None)


def _of(phase: str, table: Table, culprits: tuple[int, ...], places: dict[int, Where]) -> Heat | None:
    import numpy

    ranks = _rows(table, culprits)
    steps = sorted({step for rank in ranks for step in table[rank]})[-COLUMNS:]
    if len(ranks) < 2 or len(steps) < 2:
        return None
    values = numpy.array([[table[rank].get(step, math.nan) for step in steps] for rank in ranks])
    values[~numpy.isfinite(values) | (values <= 0)] = math.nan
    medians = _medians(values)
    with numpy.errstate(invalid="ignore", divide="ignore"):
        scaled = MIDDLE + LEVELS_PER_DOUBLING * numpy.log2(values / medians)
    known = numpy.isfinite(scaled)
    levels = numpy.where(known, numpy.clip(numpy.rint(numpy.where(known, scaled, 0)), 1, 15), 0).astype("uint8")
    return Heat(
        phase=phase, ranks=tuple(ranks), steps=tuple(steps), levels=tuple(row.tobytes() for row in levels),
        medians=tuple(round(float(each), 3) for each in medians), places={rank: places[rank] for rank in ranks},
        culprits=tuple(rank for rank in culprits if rank in ranks),
    )  # fmt: skip


def _rows(table: Table, culprits: tuple[int, ...]) -> list[int]:
    first = [rank for rank in culprits if rank in table]
    return sorted([*first, *(rank for rank in sorted(table) if rank not in first)][:ROWS])


def _medians(values: Any) -> Any:
    """The lower median of each column: of two ranks the faster one, so that the slower one shows."""
    import numpy

    ordered = numpy.sort(values, axis=0)  # NaN last
    count = numpy.isfinite(ordered).sum(axis=0)
    return ordered[numpy.maximum(count - 1, 0) // 2, numpy.arange(ordered.shape[1])]


def _telling(heat: Heat) -> tuple[float, bool, str]:
    """How far the culprits' rows are from the middle; without culprits the whole step is shown."""
    rows = [levels for rank, levels in zip(heat.ranks, heat.levels, strict=True) if rank in heat.culprits]
    known = [level for row in rows for level in row if level]
    excess = sum(known) / len(known) - MIDDLE if known and heat.phase not in WAITING else 0.0
    return (round(excess, 6), heat.phase == "step_ms", heat.phase)


def png(heat: Heat, ranks: tuple[int, ...] | None = None) -> bytes:
    """One pixel a cell, 16 colours, of all ranks or of some: 1,024 ranks x 512 steps stay below 300 kB."""
    told = [row for rank, row in zip(heat.ranks, heat.levels, strict=True) if ranks is None or rank in ranks]
    rows = b"".join(b"\0" + _packed(row) for row in told)
    header = struct.pack(">IIBBBBB", len(heat.steps), len(told), 4, 3, 0, 0, 0)
    palette = b"".join(bytes(colour) for colour in PALETTE)
    chunks = (b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _packed(row: bytes) -> bytes:
    """Two pixels a byte."""
    even = row + b"\0" * (len(row) % 2)
    return bytes(even[at] << 4 | even[at + 1] for at in range(0, len(even), 2))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def ratio(level: int) -> float:
    """What a level stands for: times the median rank."""
    return float(2.0 ** ((level - MIDDLE) / LEVELS_PER_DOUBLING))


def strip(heat: Heat) -> list[tuple[int, int]]:
    """Each rank with the middle of its known levels over the last half of the steps; 0 when nothing is known."""
    out = []
    for rank, levels in zip(heat.ranks, heat.levels, strict=True):
        known = sorted(level for level in levels[len(levels) // 2 :] if level)
        out.append((rank, known[len(known) // 2] if known else 0))
    return out
