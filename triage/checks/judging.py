"""What was measured, beside what it should be and beside its peers."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from msgspec import structs

from triage.checks import expected
from triage.model.check import Figure, Raw, State
from triage.model.tables import GpuModel

ABOUT = frozenset({"device", "compute", "multiprocessors", "torch", "pcie generation", "pcie width", "gpu", "busy"})
TOLD = frozenset({"temperature", "power"})
WANTED = (
    "memory pattern", "matrix product", "product speed", "product speed under load", "same product again",
    "memory bandwidth", "host to gpu", "gpu to host", "host round trip",
)  # fmt: skip
UNREAD = "no figure is known for this model"
Bounds = tuple[float, float]  # reach, floor


def cards(found: Sequence[Sequence[Raw]]) -> list[Figure]:
    """Figures of cards, each beside the same figure of the others. One sequence a card."""
    return beside([figure for raws in found for figure in card(raws)], expected.PEERS)


def card(raws: Sequence[Raw]) -> list[Figure]:
    """Figures of one card, against its model."""
    known = {raw.name: raw for raw in raws}
    figures = [_figure(raw, _bounds(raw, known)) for raw in raws if raw.name not in ABOUT]
    on = raws[0].on if raws else "?"
    missing = [name for name in WANTED if name not in known]
    return figures + [Figure(name=name, on=on, state="unknown", why="not measured") for name in missing]


def between(found: Sequence[Raw], model: GpuModel | None, one_node: bool) -> list[Figure]:
    """Figures of links and groups."""
    link = expected.nvlink(model) if one_node else None
    bounds = {
        name: None if link is None else _part(link, part)
        for name, part in (("copy", "nvlink"), ("all-reduce", "all-reduce"))
    }
    return beside([_figure(raw, bounds.get(raw.name)) for raw in found], expected.PAIRS)


def beside(figures: Sequence[Figure], least: float) -> list[Figure]:
    """With the median of the others; a rate under `least` of it fails. Two alone cannot say which of them is slow."""
    groups: dict[str, list[Figure]] = defaultdict(list)
    for figure in figures:
        if figure.value is not None and (figure.unit.endswith("/s") or figure.unit == "MHz") and figure.on != "all":
            groups[figure.name].append(figure)
    return [_beside(figure, groups[figure.name], least) for figure in figures]


def _beside(figure: Figure, group: list[Figure], least: float) -> Figure:
    others = [other.value for other in group if other.on != figure.on and other.value is not None]
    if figure.value is None or len(others) < 2 or figure not in group:
        return figure
    middle = statistics.median(others)
    if figure.value >= least * middle:
        state: State = "passed" if figure.state == "unknown" else figure.state
        return structs.replace(figure, peers=middle, state=state, why=figure.why.replace(UNREAD, "like its peers"))
    why = f"{100 * (1 - figure.value / middle):.0f} % below the median of the others"
    return structs.replace(figure, peers=middle, state="failed", why="; ".join(filter(None, [why, figure.why])))


def _figure(raw: Raw, bounds: Bounds | None) -> Figure:
    common = {"name": raw.name, "on": raw.on, "value": raw.value, "unit": raw.unit}
    if raw.ok is not None:
        return Figure(**common, state="passed" if raw.ok else "failed", why=raw.text)  # type: ignore[arg-type]
    if raw.name in TOLD:
        return Figure(**common, state="told", why=raw.text)  # type: ignore[arg-type]
    if bounds is None or raw.value is None:
        why = "; ".join(filter(None, [UNREAD, raw.text]))
        return Figure(**common, state="unknown", why=why)  # type: ignore[arg-type]
    state = "passed" if raw.value >= bounds[1] else "failed"
    return Figure(**common, reach=bounds[0], floor=bounds[1], state=state, why=raw.text)  # type: ignore[arg-type]


def _bounds(raw: Raw, known: dict[str, Raw]) -> Bounds | None:
    """From which value on a card's figure is good, and below which it is not."""
    name, of = raw.name, expected.model(known["device"].text) if "device" in known else None
    if name.startswith("product speed"):
        return _part(_product(known, of), "product")
    if name == "memory bandwidth":
        return _part(of.memory_gb_s if of else None, "memory")
    if name == "clock under load" and of is not None and of.sm_mhz is not None:
        return float(of.sm_mhz), expected.FLOOR["clock"] * of.sm_mhz
    if name in {"host to gpu", "gpu to host"}:
        generation = _value(known, "pcie generation") or (of.pcie_generation if of else None)
        width = _value(known, "pcie width") or (of.pcie_width if of else None)
        return _part(expected.pcie(generation, width) if generation and width else None, "pcie")
    return None


def _product(known: dict[str, Raw], of: GpuModel | None) -> float | None:
    """At the clock that the card kept under load: whether that clock is good is a figure of its own."""
    clock = _value(known, "clock under load") or (of.sm_mhz if of else None)
    count = _value(known, "multiprocessors")
    if not clock or not count or "compute" not in known:
        return None
    return expected.product(known["compute"].text, count, clock)


def _part(whole: float | None, kind: str) -> Bounds | None:
    return None if whole is None else (expected.REACH[kind] * whole, expected.FLOOR[kind] * whole)


def _value(known: dict[str, Raw], name: str) -> float | None:
    return known[name].value if name in known else None
