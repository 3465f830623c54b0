"""Nodes and the ranks or GPUs on them: which is at fault, which only waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from triage.model.incident import Gpu, Incident, Rank
from triage.model.pictures import Node, Seat, State
from triage.model.report import Culprit, Report
from triage.report.charts._svg import element, picture, rect, text

NODES = 1024
SEAT, GAP, COLUMN = 22.0, 4.0, 250.0
MANY, FEW = 36, 9  # nodes drawn with their seats; with more than MANY only FEW beside those at fault
LINE, DENSE = 46, 16.0  # squares a line, their distance
NOTED = ("link", "nic", "port", "mount")
_ORDER: dict[State, int] = {"culprit": 0, "fault": 1, "waits": 2, "quiet": 3}


def collect(incident: Incident, report: Report) -> tuple[Node, ...]:
    """All nodes of the answered hypothesis' job, those at fault first."""
    blamed = report.hypotheses[0].culprits if report.hypotheses else []
    marked = _marked(incident)
    seats: dict[str, list[Seat]] = defaultdict(list)
    for rank in incident.ranks.values():
        seats[rank.node or "?"].append(_rank(rank, blamed, marked))
    known = {(rank.node, rank.gpu) for rank in incident.ranks.values()}
    for gpu in incident.gpus:
        if gpu.gpu is not None and (gpu.node, gpu.gpu) not in known:
            seats[gpu.node or "?"].append(_gpu(gpu, blamed))
    for name in {*incident.nodes, *(one.node for one in blamed if one.node)}:
        seats.setdefault(name, [])
    nodes = [_node(name, rows, blamed, marked) for name, rows in seats.items()]
    return tuple(sorted(nodes, key=lambda node: (_ORDER[node.state], node.name))[:NODES])


def _marked(incident: Incident) -> dict[tuple[str, object], State]:
    """What the signals say of a rank or a node: a fault that nothing explains, or waiting."""
    found: dict[tuple[str, object], State] = {}
    for item in incident.signals:
        signature, event = item.signal.signature, item.signal.event
        if item.episode != incident.answered or signature.role == "context" or (item.rule and not item.effect_of):
            continue
        state: State = "fault" if signature.role == "root-cause" and not item.effect_of else "waits"
        rank = item.signal.entity.get("rank", event.rank)
        key = ("rank", rank) if rank is not None else ("node", item.signal.entity.get("node", event.node))
        found[key] = min(found.get(key, "quiet"), state, key=_ORDER.__getitem__)
    return found


def _rank(rank: Rank, blamed: Iterable[Culprit], marked: dict[tuple[str, object], State]) -> Seat:
    at_fault = any(
        one.rank == rank.rank
        or (one.rank is None and one.gpu is not None and (one.node, one.gpu) == (rank.node, rank.gpu))
        for one in blamed
    )
    parts = [f"rank {rank.rank}", rank.node, f"GPU {rank.gpu}" if rank.gpu is not None else None, rank.pci]
    parts.append(f"step {rank.last_step}" if rank.last_step is not None else None)
    state: State = "culprit" if at_fault else marked.get(("rank", rank.rank), "quiet")
    return Seat(label=str(rank.rank), rank=rank.rank, state=state, note=", ".join(part for part in parts if part))


def _gpu(gpu: Gpu, blamed: Iterable[Culprit]) -> Seat:
    at_fault = any(one.node in (gpu.node, None) and one.gpu == gpu.gpu and one.gpu_kind == "nvml" for one in blamed)
    note = ", ".join(part for part in (gpu.node, f"GPU {gpu.gpu}", gpu.pci) if part)
    return Seat(label=f"g{gpu.gpu}", state="culprit" if at_fault else "quiet", note=note)


def _node(name: str, seats: list[Seat], blamed: list[Culprit], marked: dict[tuple[str, object], State]) -> Node:
    own = [one for one in blamed if one.node == name]
    notes = [f"{key} {value}" for one in own for key in NOTED if (value := getattr(one, key)) is not None]
    ordered = tuple(sorted(seats, key=lambda seat: (seat.rank is None, seat.rank or 0, seat.label)))
    states: list[State] = [seat.state for seat in ordered]
    states += ["culprit"] if own else [marked.get(("node", name), "quiet")]
    return Node(name=name, state=min(states, key=_ORDER.__getitem__), seats=ordered, note=", ".join(notes))


def svg(nodes: tuple[Node, ...], label: str) -> str:
    """Three nodes a row, eight seats a line; of many nodes those at fault and a few more, the rest a square each."""
    shown = nodes if len(nodes) <= MANY else nodes[: max(FEW, sum(_ORDER[node.state] < 2 for node in nodes))][:MANY]
    parts: list[str] = []
    y = 0.0
    for start in range(0, len(shown), 3):
        row = shown[start : start + 3]
        lines = max(1, *(-(-len(node.seats) // 8) for node in row))
        parts += [_drawn(node, 10 + COLUMN * at, y) for at, node in enumerate(row)]
        y += 26 + lines * (SEAT + GAP) + 8
    for at, node in enumerate(nodes[len(shown) :]):
        left, top = 10 + (at % LINE) * DENSE, y + (at // LINE) * DENSE
        parts.append(rect(left, top, DENSE - 3, DENSE - 3, f"seat {node.state}", _told(node)))
    y += -(-(len(nodes) - len(shown)) // LINE) * DENSE
    return picture(760, max(y, 40), "".join(parts), label)


def _told(node: Node) -> str:
    seats = ", ".join(seat.label for seat in node.seats)
    return f"{node.name}: {seats}" if seats else node.name


def _drawn(node: Node, x: float, y: float) -> str:
    head = f"{node.name} · {node.note}" if node.note else node.name
    parts = [text(x, y + 16, head, f"node {node.state}", width=32)]
    for at, seat in enumerate(node.seats):
        left, top = x + (at % 8) * (SEAT + GAP), y + 24 + (at // 8) * (SEAT + GAP)
        box = rect(left, top, SEAT, SEAT, f"seat {seat.state}", seat.note)
        parts.append(element("g", box, text(left + SEAT / 2, top + 15, seat.label, "seat-label", "middle", 5)))
    return "".join(parts)
