"""Reports made by hand for tests of what is made from them."""

from __future__ import annotations

import random

from triage.model.event import Where
from triage.model.pictures import Heat, Node, Pictures, Point, Seat, Span
from triage.model.report import (
    BundleSummary,
    Cited,
    Culprit,
    Entities,
    Hypothesis,
    RankEntry,
    Report,
    TimelineEntry,
    Tool,
)
from triage.model.signature import Action, Check


def row(at: float, text: str = "boom", role: str = "root-cause", line: int = 1, **changes: object) -> TimelineEntry:
    """A row of the timeline."""
    values: dict[str, object] = {
        "time": None, "t": at, "uncertainty_s": 2.0, "node": "node01", "rank": 3, "signature": "gpu/xid-79",
        "role": role, "text": text, "file": "a.log", "line": line,
    }  # fmt: skip
    return TimelineEntry(**values | changes)  # type: ignore[arg-type]


def report(text: str = "boom", ranks: int = 8, **changes: object) -> Report:
    """A diagnosed report whose evidence says `text`."""
    best = Hypothesis(
        cause="gpu/fallen-off-bus", title="GPU fell off the PCIe bus", means="The card is gone.", confidence=0.9,
        culprits=[Culprit(node="node01", rank=3, gpu=3, gpu_kind="nvml", pci="0000:3b:00", why="Xid 79")],
        evidence=[Cited(file="a.log", line=1, text=text, signature="gpu/xid-79")],
        next_check=Check(command="lspci", tells="gone or not"), actions=[Action(do="Drain it", risk="disruptive")],
        why=["support: strong", "first: True"],
    )  # fmt: skip
    values: dict[str, object] = {
        "schema": "triage.report/1", "tool": Tool(version="0", content="0" * 64), "verdict": "diagnosed",
        "hypotheses": [best], "episodes": [], "gaps": [], "timeline": [row(0.0, text), row(5.0, text, "symptom", 2)],
        "entities": Entities(nodes=["node01"], ranks=[RankEntry(rank=each, node="node01") for each in range(ranks)]),
        "bundle": BundleSummary(job="77", files=1, bytes=10),
    }  # fmt: skip
    return Report(**values | changes)  # type: ignore[arg-type]


def span(lost: float = 3600.0, ranks: int = 8) -> Span:
    """A job that ran for an hour and then stood for `lost` seconds."""
    points = [
        Point(at=at, label=f"at {at:g}", where=Where(file="a.log", line=1)) for at in (0.0, 3600.0, 3600.0 + lost)
    ]
    return Span(ranks=ranks, start=points[0], last_progress=points[1], last_step=401, end=points[2])


def heat(ranks: int = 8, steps: int = 16, culprit: int = 3) -> Heat:
    """Random levels, and one row that is slow from the middle on."""
    dice = random.Random(1)
    rows = [bytes(dice.randint(6, 10) for _ in range(steps)) for _ in range(ranks)]
    rows[culprit] = rows[culprit][: steps // 2] + bytes([15]) * (steps - steps // 2)
    return Heat(
        phase="fwd_ms", ranks=tuple(range(ranks)), steps=tuple(range(steps)), levels=tuple(rows),
        medians=tuple([100.0] * steps), culprits=(culprit,),
    )  # fmt: skip


def pictures(ranks: int = 8, steps: int = 16) -> Pictures:
    """Everything that a large job gives."""
    nodes = [
        Node(
            name=f"node{at:03d}", state="culprit" if at == 0 else "waits",
            seats=tuple(Seat(label=str(8 * at + seat), rank=8 * at + seat, state="waits") for seat in range(8)),
        )
        for at in range(ranks // 8)
    ]  # fmt: skip
    slow = 3 if ranks < 300 else 700
    return Pictures(
        span=span(), heat=heat(ranks, steps, slow), nodes=tuple(nodes), titles={"gpu/xid-79": "GPU fell off"},
        contexts={("a.log", 1): ((1, "boom"), (2, "after"))},
    )  # fmt: skip
