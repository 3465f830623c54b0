"""Who waits for whom in a hang: the ranks that hold the others up, and under them the operations that wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from triage.model.event import Fact, Where
from triage.model.incident import Incident
from triage.model.pictures import Blocker, Pictures, Waiting
from triage.report.charts._svg import element, picture, rect, text

ROWS = 24  # waiting operations drawn
WATCHDOG = "torch/watchdog-timeout"
Key = tuple[str, str, str]  # operation, sequence number, group


def collect(incident: Incident) -> tuple[tuple[Waiting, ...], tuple[Blocker, ...]]:
    """Operations that do not end, with their ranks, and the ranks that they wait for."""
    blockers = tuple(
        Blocker(rank=int(str(fact.entity["rank"])), kind=str(fact.value), why=fact.text, where=_place(fact))
        for fact in incident.facts
        if fact.name == "hang.culprit" and "rank" in fact.entity
    )
    found = dict(_of_dumps(incident)) or dict(_of_watchdogs(incident)) or dict(_told(incident))
    missing = {each.rank for each in blockers}
    waiting = [
        Waiting(op=key[0], seq=key[1], group=key[2], ranks=tuple(sorted(ranks - missing)), where=where)
        for key, (ranks, where) in sorted(found.items(), key=lambda item: (-len(item[1][0]), item[0]))
        if ranks - missing or not ranks
    ]
    return tuple(waiting[:ROWS]), blockers


def _place(fact: Fact) -> Where:
    return next(iter(fact.evidence), fact.where)


def _of_dumps(incident: Incident) -> Iterator[tuple[Key, tuple[set[int], Where]]]:
    """The first operation of each rank and group that flight recorder dumps show as not completed."""
    said: dict[tuple[str, object, object], dict[str, Fact]] = defaultdict(dict)
    for fact in incident.facts:
        if fact.name in {"fr.last_op", "fr.last_seq", "fr.group.desc"}:
            said[fact.where.file, fact.entity.get("rank"), fact.entity.get("group")][fact.name] = fact
    found: dict[Key, tuple[set[int], Where]] = {}
    for (_, rank, group), facts in said.items():
        if "fr.last_op" not in facts or not isinstance(rank, int):
            continue
        seq = facts["fr.last_seq"].value if "fr.last_seq" in facts else "?"
        name = facts["fr.group.desc"].value if "fr.group.desc" in facts else None
        key = (str(facts["fr.last_op"].value), str(seq), f"{name} ({group})" if name else str(group))
        found.setdefault(key, (set(), facts["fr.last_op"].where))[0].add(rank)
    yield from found.items()


def _of_watchdogs(incident: Incident) -> Iterator[tuple[Key, tuple[set[int], Where]]]:
    found: dict[Key, tuple[set[int], Where]] = {}
    for item in incident.signals:
        fields, where = item.signal.fields, item.signal.event.where
        rank = item.signal.entity.get("rank", fields.get("rank"))
        if item.signal.signature.id == WATCHDOG and isinstance(rank, int):
            op, seq, group = (str(fields.get(name, "?")) for name in ("op", "seq", "group"))
            found.setdefault((op, seq, group), (set(), where))[0].add(rank)
    yield from _joined(found).items()


def _joined(found: dict[Key, tuple[set[int], Where]]) -> dict[Key, tuple[set[int], Where]]:
    """Lines that do not name the group belong to the only group that waits in the same operation."""
    for key in [key for key in found if key[2] == "?"]:
        named = [other for other in found if other[:2] == key[:2] and other[2] != "?"]
        if len(named) == 1:
            found[named[0]][0].update(found.pop(key)[0])
    return found


def _told(incident: Incident) -> Iterator[tuple[Key, tuple[set[int], Where]]]:
    """Only what the analysis concluded: the operation, not who waits in it."""
    said = {fact.name: fact for fact in incident.facts if fact.name.startswith("hang.")}
    if "hang.collective" in said:
        parts = [said.get(name) for name in ("hang.collective", "hang.sequence", "hang.group")]
        op, seq, group = (str(part.value) if part else "?" for part in parts)
        yield (op, seq, group), (set(), _place(said["hang.collective"]))


def svg(pictures: Pictures, kinds: dict[str, str], waits: str, label: str) -> str:
    """Blockers on the left, waiting operations on the right, a line from each operation to what it waits for."""
    if not pictures.waiting:
        return ""
    left, right = pictures.blockers[:ROWS], pictures.waiting
    height = 20 + 52 * max(len(left), len(right), 1)
    boxes = [
        _box(10, 10 + 52 * at, f"rank {one.rank}", kinds[one.kind], "culprit", one.why) for at, one in enumerate(left)
    ]
    for at, one in enumerate(right):
        title = f"{waits}: {runs(one.ranks)}" if one.ranks else waits
        boxes.append(_box(440, 10 + 52 * at, f"{one.op} #{one.seq}", title, "waits", f"{title} · {one.group}"))
        for other in range(len(left)):
            boxes.append(element("path", d=_curve(440, 31 + 52 * at, 310, 31 + 52 * other), class_="edge"))
    return picture(760, height, "".join(boxes), label)


def _box(x: float, y: float, head: str, below: str, state: str, title: str) -> str:
    return (
        rect(x, y, 300, 42, f"box {state}", title)
        + text(x + 10, y + 18, head, "strong", width=40)
        + text(x + 10, y + 34, below, "small", width=48)
    )


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    middle = (x1 + x2) / 2
    return f"M{x1:.0f} {y1:.0f}C{middle:.0f} {y1:.0f} {middle:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"


def runs(numbers: tuple[int, ...]) -> str:
    """`0-6, 8, 12-15`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
