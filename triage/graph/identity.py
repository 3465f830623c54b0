"""Who is who: rank, node, local rank, GPU index, PCI address, UUID, process, joined from every source that says so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from triage.model.base import Record, Scalar
from triage.model.bundle import File
from triage.model.event import Fact, Mark, Signal
from triage.model.incident import Gpu, Rank
from triage.model.signature import pci_address


class Identity(Record, frozen=True, kw_only=True):
    """The joined maps. `pids` is keyed by (node or None, pid); `anywhere` has the pids that one rank alone has."""

    ranks: dict[int, Rank]
    gpus: tuple[Gpu, ...]
    nodes: tuple[str, ...]
    world_size: int | None
    pids: dict[tuple[str | None, int], int]
    anywhere: dict[int, int] = {}

    def of(self, entity: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The entity with all that follows: a PCI address names the GPU, the GPU its rank, the rank its node."""
        known = dict(entity)
        rank = self._rank(known)
        if rank is not None:
            known |= {
                key: value for key, value in _of_rank(rank).items() if value is not None and known.get(key) is None
            }
        return known | {key: value for key, value in self._gpu(known).items() if known.get(key) is None}

    def _rank(self, entity: Mapping[str, Scalar]) -> Rank | None:
        if isinstance(entity.get("rank"), int):
            return self.ranks.get(int(entity["rank"] or 0))
        if isinstance(entity.get("pid"), int):
            number = self._process(_text(entity.get("node")), int(entity["pid"] or 0))
            if number is not None:
                return self.ranks.get(number)
        key = next((key for key in ("pci", "gpu", "local_rank") if entity.get(key) is not None), None)
        return self._only(_fitting(self.ranks.values(), entity, key)) if key else None

    def _process(self, node: str | None, pid: int) -> int | None:
        """The rank of a process; a log without a host name may mean any node, so the number must be one rank's only."""
        if (number := self.pids.get((node, pid))) is not None:
            return number
        return self.anywhere.get(pid) if node is None else self.pids.get((None, pid))

    @staticmethod
    def _only(found: list[Rank]) -> Rank | None:
        return found[0] if len(found) == 1 else None

    def _gpu(self, entity: Mapping[str, Scalar]) -> dict[str, Scalar]:
        keys = [key for key in ("pci", "uuid", "gpu") if entity.get(key) is not None]
        if not keys or (keys == ["gpu"] and entity.get("node") is None and len(self.nodes) > 1):
            return {}
        found = [gpu for gpu in self.gpus if _same_gpu(gpu, entity, keys[0])]
        if len(found) != 1:
            return {}
        gpu = found[0]
        return {"node": gpu.node, "gpu": gpu.gpu, "pci": gpu.pci, "uuid": gpu.uuid}


def _text(value: Scalar) -> str | None:
    return None if value is None else str(value)


def _of_rank(rank: Rank) -> dict[str, Scalar]:
    return {
        "rank": rank.rank,
        "node": rank.node,
        "local_rank": rank.local_rank,
        "gpu": rank.gpu,
        "pci": rank.pci,
        "pid": rank.pid,
    }


def _fitting(ranks: Iterable[Rank], entity: Mapping[str, Scalar], key: str) -> list[Rank]:
    """Ranks of a GPU or of a local rank. The node must agree when both know it."""
    value, node = entity[key], entity.get("node")
    found = [rank for rank in ranks if getattr(rank, key) == value]
    return [rank for rank in found if node is None or rank.node is None or rank.node == node]


def _same_gpu(gpu: Gpu, entity: Mapping[str, Scalar], key: str) -> bool:
    own = {"pci": gpu.pci, "uuid": gpu.uuid, "gpu": gpu.gpu}[key]
    node = entity.get("node")
    return own == entity[key] and (node is None or gpu.node is None or gpu.node == node)


def identify(
    files: Sequence[File], signals: Sequence[Signal], marks: Sequence[Mark], facts: Sequence[Fact]
) -> Identity:
    """Join everything that names ranks, nodes and GPUs. What contradicts an earlier, better source is left out."""
    seen = _Sightings()
    for mark in marks:
        _from_mark(seen, mark)
    for file in files:
        seen.add(file.rank, node=file.node, local_rank=file.local_rank, pid=file.pid)
    for signal in signals:
        _from_signal(seen, signal)
    for fact in facts:
        if isinstance(fact.entity.get("rank"), int):
            entity = fact.entity
            seen.add(
                entity["rank"], node=entity.get("node"), local_rank=entity.get("local_rank"), uuid=entity.get("uuid")
            )
    gpus = _gpus(facts)
    ranks = {number: _rank(number, known, gpus) for number, known in sorted(seen.ranks.items())}
    nodes = {file.node for file in files} | {rank.node for rank in ranks.values()} | {gpu.node for gpu in gpus}
    pids = {(rank.node, rank.pid): rank.rank for rank in ranks.values() if rank.pid is not None} | seen.pids
    return Identity(
        ranks=ranks,
        gpus=gpus,
        nodes=tuple(sorted(node for node in nodes if node)),
        world_size=seen.world_size,
        pids=pids,
        anywhere=_unique(pids),
    )


def _unique(pids: Mapping[tuple[str | None, int], int]) -> dict[int, int]:
    """Process numbers that belong to one rank only, whatever its node."""
    found: dict[int, set[int]] = defaultdict(set)
    for (_, pid), rank in pids.items():
        found[pid].add(rank)
    return {pid: next(iter(ranks)) for pid, ranks in found.items() if len(ranks) == 1}


class _Sightings:
    """What has been seen of each rank; the first source to say a thing wins."""

    def __init__(self) -> None:
        self.ranks: dict[int, dict[str, Scalar]] = defaultdict(dict)
        self.pids: dict[tuple[str | None, int], int] = {}
        self.world_size: int | None = None

    def add(self, rank: object, **known: Scalar) -> None:
        if not isinstance(rank, int) or rank < 0:
            return
        for key, value in known.items():
            if value is not None:
                self.ranks[rank].setdefault(key, value)
        if isinstance(known.get("pid"), int):
            self.pids.setdefault((_text(known.get("node")), int(known["pid"] or 0)), rank)
        self.ranks[rank]  # a rank without any detail is still a rank

    def world(self, size: object) -> None:
        if isinstance(size, int) and 0 < size < 10**7:
            self.world_size = max(self.world_size or 0, size)


def _from_mark(seen: _Sightings, mark: Mark) -> None:
    fields, event = mark.fields, mark.event
    seen.world(fields.get("world_size"))
    if mark.kind == "init":
        size = fields.get("nranks")
        if not isinstance(size, int) or size < (seen.world_size or 0):
            return  # a sub-group's rank is not the job's
        seen.world(size)
        bus = fields.get("bus_id")
        seen.add(
            fields.get("rank"),
            node=event.node,
            pid=event.pid,
            gpu=fields.get("nvml_dev", fields.get("cuda_dev")),
            pci=bus_address(str(bus)) if bus is not None else None,
        )
    elif mark.kind in {"step", "start"}:
        rank = event.rank if event.rank is not None else fields.get("rank")
        seen.add(rank, node=event.node, local_rank=event.local_rank or fields.get("local_rank"), pid=event.pid)


def _from_signal(seen: _Sightings, signal: Signal) -> None:
    event = signal.event
    rank = event.rank if event.rank is not None else signal.entity.get("rank")
    same = rank == signal.entity.get("rank", rank)
    local = event.local_rank if event.local_rank is not None else signal.fields.get("local_rank")
    if same:
        node = event.node or _text(signal.entity.get("node"))
        pid = event.pid if event.pid is not None else signal.fields.get("pid")
        seen.add(rank, node=node, local_rank=local, pid=pid)


def bus_address(text: str) -> str:
    """NCCL's busId is hexadecimal: domain, two digits of bus, two of device and function: `9b000` -> `0000:9b:00`."""
    if ":" in text:
        return pci_address(text)
    digits = text.lower().removeprefix("0x").rjust(5, "0")
    device, bus, domain = digits[-3:-1], digits[-5:-3], digits[:-5]
    return f"{(domain or '0').rjust(4, '0')[-4:]}:{bus}:{device}"


def _gpus(facts: Iterable[Fact]) -> tuple[Gpu, ...]:
    """One GPU for each node and PCI address (or index) that nvidia-smi listed."""
    found: dict[tuple[Scalar, Scalar], Gpu] = {}
    for fact in facts:
        entity = fact.entity
        if not fact.name.startswith("gpu.") or entity.get("pci", entity.get("gpu")) is None:
            continue
        key = (entity.get("node"), entity.get("pci") or entity.get("gpu"))
        old = found.get(key, Gpu(node=_text(entity.get("node"))))
        index = entity.get("gpu")
        found[key] = Gpu(
            node=old.node,
            gpu=old.gpu if old.gpu is not None else index if isinstance(index, int) else None,
            pci=old.pci or _text(entity.get("pci")),
            uuid=old.uuid or _text(entity.get("uuid")),
        )
    addressed = {(gpu.node, gpu.gpu) for gpu in found.values() if gpu.pci}  # others name them by index alone
    kept = [gpu for gpu in found.values() if gpu.pci or (gpu.node, gpu.gpu) not in addressed]
    return tuple(sorted(kept, key=lambda gpu: (gpu.node or "", -1 if gpu.gpu is None else gpu.gpu, gpu.pci or "")))


def _rank(number: int, known: Mapping[str, Scalar], gpus: Sequence[Gpu]) -> Rank:
    node, local, gpu, pci = known.get("node"), known.get("local_rank"), known.get("gpu"), known.get("pci")
    index = gpu if gpu is not None else local
    listed = [each for each in gpus if each.node == node and (each.pci == pci if pci else each.gpu == index)]
    match = listed[0] if len(listed) == 1 else None
    return Rank(
        rank=number,
        node=_text(node),
        local_rank=_int(local),
        pid=_int(known.get("pid")),
        gpu=match.gpu if match and match.gpu is not None else _int(gpu),
        pci=_text(pci) or (match.pci if match else None),
        uuid=_text(known.get("uuid")) or (match.uuid if match else None),
    )


def _int(value: Scalar) -> int | None:
    return value if isinstance(value, int) else None
