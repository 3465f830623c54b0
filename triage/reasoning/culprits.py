"""Who is at fault. Only what is at fault is a culprit: a victim never is, and what everyone shows names nobody."""

from __future__ import annotations

from collections.abc import Sequence

from triage.model.base import Scalar
from triage.model.incident import Incident, Placed
from triage.model.report import Culprit
from triage.reasoning.candidates import Candidate, earliest
from triage.reasoning.questions import share_of

_KEYS = ("node", "rank", "gpu", "pci", "uuid", "link", "nic", "port", "mount", "group")
_SHARED = frozenset({"user", "config", "storage", "unknown"})
_ECHOES = ("conn-closed", "recv-reset", "remote", "peer-lost", "broken-pipe", "flush")  # in ids of the fault catalogue
_WAITING = ("collective/", "rendezvous/", "network/")  # causes whose symptoms are told by those who wait
_OF_ONE_PROCESS = frozenset(
    {"gpu-dead-then-cuda", "ecc-to-process", "kernel-fault-to-cuda", "assert-to-cuda", "cuda-sticky", "amd-chain"}
)  # causality rules from a fault to the error that the process on that GPU gets
MOST = 64  # a longer list of culprits names nobody


def name(incident: Incident, candidate: Candidate) -> list[Culprit]:
    """The culprits of a candidate: from its playbook's leaf, else from the entities of its own signals."""
    named = _of_leaf(incident, candidate)
    if named:
        return named
    own = _own(incident, candidate)
    items = _near_first(incident, own)
    entities = [item.signal.entity for item in items]
    if everywhere(incident, [incident.signals[index] for index in own]):
        entities = _shared(incident, candidate.cause.blame, entities)
    elif candidate.cause.blame == "storage":
        several = len({each.get("node") for each in entities}) > 1  # what several nodes miss is not one of them
        entities = [
            {key: each.get(key) for key in (("mount",) if several else ("node", "mount", "rank"))} for each in entities
        ]
    else:
        entities = _owned(incident, own, entities)
    return _distinct(entities, items)


def _owned(incident: Incident, own: Sequence[int], entities: Sequence[dict[str, Scalar]]) -> list[dict[str, Scalar]]:
    """A fault that names no rank is that of the one rank whose process reported it: its error, or its launcher's."""
    known = {tuple(sorted((k, str(e[k])) for k in _KEYS if e.get(k) is not None)) for e in entities}
    ranks = {
        item.signal.entity["rank"]
        for item in incident.signals
        if not set(own).isdisjoint(item.effect_of)
        and isinstance(item.signal.entity.get("rank"), int)
        and _reports(item)
    }
    if len(known) != 1 or len(ranks) != 1 or any(each.get("rank") is not None for each in entities):
        return list(entities)
    owner = complete(incident, {"rank": ranks.pop()})
    if any(
        owner.get(k) is not None and each.get(k, owner[k]) not in (None, owner[k]) for each in entities for k in owner
    ):
        return list(entities)  # that rank sits elsewhere
    return [owner | {key: value for key, value in each.items() if value is not None} for each in entities]


def _reports(item: Placed) -> bool:
    """Is it told by the process that the fault hit, or by its launcher of it?"""
    return item.rule in _OF_ONE_PROCESS or item.signal.signature.id == "torch/elastic-root-cause"


def everywhere(incident: Incident, items: Sequence[Placed]) -> bool:
    """Is it seen on more than half of at least four ranks or nodes?"""
    share = share_of(items, incident)
    return share is not None and share > 0.5


def _own(incident: Incident, candidate: Candidate) -> list[int]:
    """Its root causes; failing these its symptoms, less those of ranks that print echoes: these are victims."""
    roots = [index for index in candidate.indexes if incident.signals[index].signal.signature.role == "root-cause"]
    if roots:
        return [index for index in roots if _concluded(incident.signals[index])] or roots
    if candidate.cause.id.startswith(_WAITING):
        return [index for index in candidate.indexes if _named_from_outside(incident.signals[index])]
    victims = {
        item.signal.entity.get("rank")
        for item in incident.signals
        if item.signal.signature.role == "consequence" and _echoes(item) and item.rule is None
    }
    innocent = [
        index for index in candidate.indexes if incident.signals[index].signal.entity.get("rank") not in victims
    ]
    return innocent or list(candidate.indexes)


def _concluded(item: Placed) -> bool:
    """An analysis of all ranks found this one; the lines of the same cause are printed by every rank alike."""
    conditions = item.signal.signature.facts
    return item.signal.entity.get("rank") is not None and any(each.name.endswith(".culprit") for each in conditions)


def _named_from_outside(item: Placed) -> bool:
    """Whoever prints that it waited is a victim; the rank that the message waits for is not the one that prints it."""
    rank = item.signal.entity.get("rank")
    return rank is not None and rank != item.signal.event.rank


def _echoes(item: Placed) -> bool:
    """A peer's closed connection, told by the rank that still lives."""
    return any(word in fact for fact in item.signal.signature.covers for word in _ECHOES)


def _near_first(incident: Incident, indexes: Sequence[int]) -> list[Placed]:
    """The signals that may be the first: later ones of the same cause are the others' way of failing."""
    first = earliest(incident, indexes)
    items = [incident.signals[index] for index in indexes]
    if first is None or first.at is None:
        return items
    return [
        item for item in items if item.at is None or item.at - first.at <= 2 * max(item.uncertainty, first.uncertainty)
    ]


def _shared(incident: Incident, blame: str, entities: Sequence[dict[str, Scalar]]) -> list[dict[str, Scalar]]:
    """What they share: for a fault of the hardware the one node that all sit on, else nothing."""
    nodes = {entity.get("node") for entity in entities}
    if blame in _SHARED or len(nodes) != 1 or None in nodes:
        return []
    return [{"node": nodes.pop()}]


def _of_leaf(incident: Incident, candidate: Candidate) -> list[Culprit]:
    for walk in candidate.walks:
        for key, source in walk.leaf.culprits.items():
            found = _lookup(incident, key, source)
            if found and len(found) <= MOST:
                return found
    return []


def _lookup(incident: Incident, key: str, source: str) -> list[Culprit]:
    """A leaf's culprits come from a fact (entity or list of ranks) or from a signature's entity."""
    values: list[dict[str, Scalar]] = []
    for fact in incident.facts:
        if fact.name == source:
            values += [{"rank": each} for each in fact.value] if isinstance(fact.value, list) else [fact.entity]
    for item in incident.signals:
        if item.signal.signature.id == source and item.rule is None:
            values.append(item.signal.entity)
    del key
    return _distinct([complete(incident, value) for value in values], [])


def complete(incident: Incident, entity: dict[str, Scalar]) -> dict[str, Scalar]:
    """A rank's entity with its node, GPU and PCI address."""
    number = entity.get("rank")
    rank = incident.ranks.get(number) if isinstance(number, int) else None
    if rank is None:
        return entity
    known: dict[str, Scalar] = {"node": rank.node, "gpu": rank.gpu, "pci": rank.pci, "uuid": rank.uuid}
    return known | {key: value for key, value in entity.items() if value is not None}


def _distinct(entities: Sequence[dict[str, Scalar]], items: Sequence[Placed]) -> list[Culprit]:
    """One entry per thing; an entry whose values another one holds too says nothing more."""
    kept: list[dict[str, Scalar]] = []
    for entity in sorted(
        ({k: e[k] for k in _KEYS if e.get(k) is not None} for e in entities), key=lambda e: (-len(e), str(e))
    ):
        if entity and not any(entity.items() <= other.items() for other in kept):
            kept.append(entity)
    if len(kept) > MOST:
        return []
    why = {id(entity): _why(entity, items) for entity in kept}
    kept.sort(
        key=lambda entity: (
            str(entity.get("node", "")),
            _number(entity.get("rank")),
            _number(entity.get("gpu")),
            str(entity),
        )
    )
    return [_culprit(entity, why[id(entity)]) for entity in kept]


def _number(value: Scalar) -> int:
    return value if isinstance(value, int) else -1


def _culprit(entity: dict[str, Scalar], why: str) -> Culprit:
    values = {key: value if key in {"rank", "gpu"} else str(value) for key, value in entity.items()}
    kind = None if "gpu" not in values else "nvml" if "pci" in values or "uuid" in values else "cuda-ordinal"
    return Culprit(**values, gpu_kind=kind, why=why)  # type: ignore[arg-type]


def _why(entity: dict[str, Scalar], items: Sequence[Placed]) -> str:
    for item in items:
        if entity.items() <= item.signal.entity.items():
            return item.signal.signature.title
    return ""
