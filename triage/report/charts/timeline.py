"""First failure and cascade: one lane a node, a dot a message, a bar for what the clocks leave open."""

from __future__ import annotations

from collections import Counter
from html import escape

from triage.model.report import Report, TimelineEntry
from triage.report.charts._svg import element, picture, text
from triage.report.clean import clean

LANES = 20
LEFT, RIGHT = 170.0, 745.0
_ORDER = {"root-cause": 0, "symptom": 1, "consequence": 2, "context": 3}


def svg(report: Report, label: str, other: str) -> str:
    """Empty when fewer than two entries have a time."""
    rows = [row for row in report.timeline if row.t is not None and row.role != "context"]
    rows = rows if len(rows) > 1 else [row for row in report.timeline if row.t is not None]
    times = [row.t for row in rows if row.t is not None]
    if len(times) < 2 or max(times) - min(times) <= 0:
        return ""
    lanes = _lanes(rows, other)
    first, span = min(times), max(times) - min(times)  # the axis counts from the first of them
    height = 34 + 24 * len(lanes)
    parts = [_lane(name, 30 + 24 * at) for at, name in enumerate(lanes)]
    for row in sorted(rows, key=lambda row: -_ORDER.get(row.role, 3)):  # what matters is drawn last, on top
        lane = row.node if row.node in lanes else other
        parts.append(_dot(row, 30 + 24 * lanes.index(lane or other), first, span))
    return picture(760, height, "".join([*_axis(span, height), *parts]), label)


def _lanes(rows: list[TimelineEntry], other: str) -> list[str]:
    """The node of the first root cause on top, then the nodes with most to say; the rest share a lane."""
    ordered = sorted(rows, key=lambda row: (_ORDER.get(row.role, 3), row.t or 0.0))
    count = Counter(row.node for row in rows if row.node)
    names = list(dict.fromkeys([row.node for row in ordered if row.node and _ORDER.get(row.role, 3) == 0]))
    names += [name for name, _ in count.most_common() if name not in names]
    shown = [name for name in names if name][:LANES]
    return shown if all(row.node in shown for row in rows) else [*shown, other]


def _lane(name: str, y: float) -> str:
    line = element("line", x1=LEFT, y1=y, x2=RIGHT, y2=y, class_="lane")
    return text(LEFT - 10, y + 4, name, "small", "end", 24) + line


def _dot(row: TimelineEntry, y: float, first: float, span: float) -> str:
    scale = (RIGHT - LEFT - 10) / span
    x = LEFT + 5 + ((row.t or 0.0) - first) * scale
    half = min(row.uncertainty_s * scale, 60.0)
    left, right = max(x - half, LEFT), min(x + half, RIGHT)
    title = element("title", escape(clean(f"{row.signature} · {row.file}:{row.line or ''} · {row.text}", 240)))
    bar = element("line", x1=left, y1=y, x2=right, y2=y, class_=f"unsure {row.role}")
    return bar + element("circle", title, cx=x, cy=y, r=6 if row.role == "root-cause" else 4, class_=row.role)


def _axis(span: float, height: float) -> list[str]:
    step, scale = _step(span), (RIGHT - LEFT - 10) / span
    parts = []
    for at in range(int(span // step) + 1):
        x = LEFT + 5 + at * step * scale
        parts.append(element("line", x1=x, y1=16, x2=x, y2=height, class_="tick"))
        label = f"+{at * step:g} s" if step < 120 else f"+{at * step / 60:g} min"
        parts.append(text(x, 12, label, "small", "middle" if at else "start"))
    return parts


def _step(span: float) -> float:
    """Between four and eight ticks."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400, 604800)
    return next((float(each) for each in steps if span / each <= 8), float(steps[-1]) * max(1, span // 4e6))
