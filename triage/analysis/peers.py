"""GPUs whose readings are not those of their peers: of the same model, on the same node, else in the same job.

gpu.differs   one a GPU (entity {node, gpu, pci, uuid} as known), list: which readings (`clock`, `temperature`,
              `power-limit`, `pcie-width`, `pcie-generation`, `nvlink`, `memory`, `memory-in-use`, `setting`); its text
              has the figures of each: its own, the median of its peers, and between what these lie

Said with at least PEERS others to compare with. Clocks, temperatures and the PCIe generation follow the load, so that
only GPUs which were busy are compared in them. A difference is a remark: it has no part in a verdict by itself.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from triage.model.base import Record, Scalar, Value, number
from triage.model.event import Fact, Where
from triage.model.incident import Incident

PEERS = 4  # others, at least
BUSY = 50.0  # per cent of utilisation
ROBUST = 3.5  # robust standard deviations (median absolute deviation, 1.4826): the usual bound for an outlier
MOST = 64  # told; more that differ are no exceptions
_SPREAD = 1.4826


class Reading(Record, frozen=True, kw_only=True):
    """How a reading is compared. side: -1 only less counts, 1 only more, 0 both.

    margin: by which it must differ from the median; relative, or absolute in `unit` when `absolute`.
    alike: the peers must all say the same (within `margin`); else they may spread, and ROBUST holds as well.
    """

    name: str
    kind: str
    title: str
    unit: str = ""
    scale: float = 1.0
    side: int = 0
    margin: float = 0.0
    absolute: bool = True
    alike: bool = True
    busy: bool = False


_READINGS = (
    Reading(name="gpu.clock.sm_mhz", kind="clock", title="SM clock", unit=" MHz", side=-1, margin=0.1, absolute=False,
            alike=False, busy=True),
    Reading(name="gpu.temperature_c", kind="temperature", title="temperature", unit=" °C", side=1, margin=15.0,
            alike=False, busy=True),
    Reading(name="gpu.power_limit_w", kind="power-limit", title="power limit", unit=" W", margin=1.0),
    Reading(name="gpu.pcie.width_current", kind="pcie-width", title="PCIe lanes", side=-1),
    Reading(name="gpu.pcie.gen_current", kind="pcie-generation", title="PCIe generation", side=-1, busy=True),
    Reading(name="gpu.pcie.gen_max", kind="pcie-generation", title="highest PCIe generation", side=-1),
    Reading(name="nvlink.links", kind="nvlink", title="NVLinks", side=-1),
    Reading(name="nvlink.inactive", kind="nvlink", title="inactive NVLinks", side=1),
    Reading(name="gpu.memory_total", kind="memory", title="memory", unit=" MiB", scale=1 / 2**20, margin=1.0),
    Reading(name="gpu.memory_used", kind="memory-in-use", title="memory in use", unit=" MiB", scale=1 / 2**20, side=1,
            margin=4096.0, alike=False),
)  # fmt: skip
_WORDS = {
    "gpu.driver": "driver", "gpu.ecc.mode": "ECC mode", "gpu.mig": "MIG mode", "gpu.persistence": "persistence mode",
    "gpu.compute_mode": "compute mode",
}  # fmt: skip
_WANTED = {each.name for each in _READINGS} | _WORDS.keys() | {"gpu.name", "gpu.utilization"}


@dataclass
class Card:
    """A GPU: who it is, and by reading the values and the place of the first."""

    entity: dict[str, Scalar]
    values: dict[str, list[Value]] = field(default_factory=lambda: defaultdict(list))
    places: dict[str, Where] = field(default_factory=dict)

    @property
    def busy(self) -> bool:
        """Half of the time or more, as far as that is told."""
        load = self.middle("gpu.utilization")
        return load is not None and load >= BUSY

    def middle(self, name: str) -> float | None:
        """The median of a reading over its samples."""
        told = [found for value in self.values.get(name, []) if (found := number(value)) is not None]
        return statistics.median(told) if told else None

    def word(self, name: str) -> str | None:
        """The last word of a reading."""
        told = [str(value) for value in self.values.get(name, []) if value is not None]
        return told[-1] if told else None


@dataclass(frozen=True)
class Difference:
    """One reading of a card, and what it is beside that of its peers."""

    card: Card
    name: str
    kind: str
    text: str


def derive(incident: Incident) -> Iterator[Fact]:
    """Every difference, node by node; then those that only the whole job can show."""
    cards = _cards(incident)
    nodes: dict[Scalar, list[Card]] = defaultdict(list)
    for card in cards:
        nodes[card.entity.get("node")].append(card)
    small = [card for group in nodes.values() if len(group) <= PEERS for card in group]
    groups = [group for group in nodes.values() if len(group) > PEERS]
    found = [each for group in [*groups, small] for each in _of_group(group)]
    if len(found) <= MOST:
        yield from _joined(found)


def _joined(found: list[Difference]) -> Iterator[Fact]:
    """All differences of a card in one fact."""
    cards: dict[int, list[Difference]] = defaultdict(list)
    for each in found:
        cards[id(each.card)].append(each)
    for rows in cards.values():
        card, places = rows[0].card, tuple(dict.fromkeys(_place(row) for row in rows))
        text = f"{_name(card)}: {'; '.join(row.text for row in rows)}"
        kinds = list(dict.fromkeys(row.kind for row in rows))
        yield Fact(name="gpu.differs", value=kinds, where=places[0], entity=card.entity, text=text, evidence=places)


def _cards(incident: Incident) -> list[Card]:
    """GPUs by node and slot; link reports know only UUID and index, and are joined by them."""
    slots: dict[tuple[Scalar, Scalar], Scalar] = {}
    for fact in incident.facts:
        entity = fact.entity
        if fact.name in _WANTED and entity.get("pci") is not None:
            for key in ("uuid", "gpu"):
                slots.setdefault((entity.get("node"), entity.get(key)), entity["pci"])
    found: dict[tuple[Scalar, Scalar], Card] = {}
    for fact in incident.facts:
        if fact.name in _WANTED and (slot := _slot(fact.entity, slots)) is not None:
            card = found.setdefault((fact.entity.get("node"), slot), Card(dict(fact.entity)))
            card.entity |= {key: value for key, value in fact.entity.items() if key in ("gpu", "pci", "uuid")}
            card.values[fact.name].append(fact.value)
            card.places.setdefault(fact.name, fact.where)
    return [found[key] for key in sorted(found, key=str)]


def _slot(entity: dict[str, Scalar], slots: dict[tuple[Scalar, Scalar], Scalar]) -> Scalar:
    if entity.get("pci") is not None:
        return entity["pci"]
    node = entity.get("node")
    told = (slots.get((node, entity[key])) for key in ("uuid", "gpu") if entity.get(key) is not None)
    return next((each for each in told if each is not None), entity.get("gpu"))


def _of_group(cards: list[Card]) -> Iterator[Difference]:
    """Cards of one model are peers."""
    models: dict[str | None, list[Card]] = defaultdict(list)
    for card in cards:
        models[card.word("gpu.name")].append(card)
    for _, peers in sorted(models.items(), key=lambda item: str(item[0])):
        for reading in _READINGS:
            yield from _numbers(reading, peers)
        for name, title in _WORDS.items():
            yield from _settings(name, title, peers)


def _numbers(reading: Reading, cards: list[Card]) -> Iterator[Difference]:
    told = [(card, card.middle(reading.name)) for card in cards if card.busy or not reading.busy]
    known = [(card, value * reading.scale) for card, value in told if value is not None]
    if len(known) <= PEERS:
        return
    for card, value in known:
        others = sorted(other for peer, other in known if peer is not card)
        if _stands_out(reading, value, others):
            yield Difference(card, reading.name, reading.kind, _words(reading, value, others))


def _stands_out(reading: Reading, value: float, others: list[float]) -> bool:
    middle = statistics.median(others)
    off = value - middle
    margin = reading.margin if reading.absolute else reading.margin * middle
    if off * reading.side < 0 or abs(off) <= margin:
        return False
    if reading.alike:
        return others[-1] - others[0] <= margin
    spread = _SPREAD * statistics.median(abs(other - middle) for other in others)
    return abs(off) > ROBUST * max(spread, margin / ROBUST) and not others[0] <= value <= others[-1]


def _words(reading: Reading, value: float, others: list[float]) -> str:
    low, high, middle = others[0], others[-1], statistics.median(others)
    between = "" if low == high else f" ({low:.6g} to {high:.6g}{reading.unit})"
    own = f"{reading.title} {value:.6g}{reading.unit}"
    return f"{own}, its {len(others)} peers {middle:.6g}{reading.unit}{between}"


def _settings(name: str, title: str, cards: list[Card]) -> Iterator[Difference]:
    known = [(card, word) for card in cards if (word := card.word(name)) is not None]
    for card, word in known if len(known) > PEERS else ():
        others = {other for peer, other in known if peer is not card}
        if len(others) == 1 and word not in others:
            yield Difference(card, name, "setting", f"{title} {word}, its {len(known) - 1} peers {others.pop()}")


def _place(each: Difference) -> Where:
    place = each.card.places[each.name]
    return Where(file=place.file, at=f"line {place.line}" if place.line else place.at)


def _name(card: Card) -> str:
    gpu, pci, node = (card.entity.get(key) for key in ("gpu", "pci", "node"))
    name = f"GPU {gpu if gpu is not None else pci}"
    return name if node is None else f"{name} of {node}"
