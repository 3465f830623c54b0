"""Comparisons as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triage.model.comparison import Comparison, Device, Moved, Scaling, Size

CHANGES = 30


def comparison(told: Comparison) -> str:
    """The verdict first, then what changed and what moved."""
    lines = [f"{told.result.upper()}: {told.why}"]
    lines += ["", f"changed ({'exactly one thing' if told.one_change else len(told.changes)}):"] if told.changes else []
    lines += [f"  {c.kind}: {c.name}: {_value(c.before)} -> {_value(c.after)}" for c in told.changes[:CHANGES]]
    if len(told.changes) > CHANGES:
        lines.append(f"  and {len(told.changes) - CHANGES} more (--format json)")
    if told.moved:
        lines += ["", "moved:", *columns([_HEAD, *(_moved(move) for move in told.moved)])]
    if told.errors:
        lines += ["", "errors (lines before -> after):"]
        lines += [f"  {row.signature}: {row.before} -> {row.after}" for row in told.errors]
    if told.hardware:
        lines += ["", "hardware:", *columns([_device(row) for row in told.hardware[:CHANGES]])]
        lines += [f"  and {len(told.hardware) - CHANGES} more (--format json)"] if len(told.hardware) > CHANGES else []
    if told.known_once:
        lines += ["", f"told by one side only: {', '.join(told.known_once[:CHANGES])}"]
    lines += ["", *(f"note: {note}" for note in told.notes)] if told.notes else []
    return _printable("\n".join(lines))


_HEAD = ("", "before", "after", "change", "95 % interval", "", "steps")


def _value(value: str | None) -> str:
    return "not set" if value is None else value


def _device(row: Device) -> tuple[str, ...]:
    result = "changed" if row.result == "unknown" else row.result
    return row.device, row.reading, f"{row.before} -> {row.after}", result


def _moved(move: Moved) -> tuple[str, ...]:
    change = "" if move.ratio is None else f"{100 * (move.ratio - 1):+.1f} %"
    low, high = move.low, move.high
    interval = "" if low is None or high is None else f"{100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} %"
    result = "" if move.unit == "bytes" else move.result
    steps = " / ".join(str(count) for count in move.steps)
    return move.name, _number(move.before, move.unit), _number(move.after, move.unit), change, interval, result, steps


def _number(value: float, unit: str) -> str:
    return f"{value / 2**30:.2f} GiB" if unit == "bytes" else f"{value:.4g} {unit}".strip()


def scaling(told: Scaling) -> str:
    """One row a size, then what each size loses."""
    how = "each rank does the same work at all sizes" if told.mode == "weak" else "all ranks together do the same work"
    assumed = " (assumed: the batch size is not told; --mode says otherwise)" if told.assumed else ""
    lines = [told.why, "", f"{told.mode} scaling: {how}{assumed}"]
    lines += columns([("run", "ranks", "step ms", "speed-up", "linear", "efficiency", "95 % interval"),
                      *(_size(size) for size in told.sizes)])  # fmt: skip
    for size in told.sizes[1:]:
        if size.phases:
            lines += ["", f"{size.name}: ms of each step by phase"]
            rows = [(row.phase, f"{row.ms:.2f}", f"{row.linear_ms:.2f}", f"{row.lost_ms:+.2f}") for row in size.phases]
            lines += columns([("phase", "is", "linear", "lost"), *rows])
    lines += ["", *(f"note: {note}" for note in told.notes)] if told.notes else []
    return _printable("\n".join(lines))


def _size(size: Size) -> tuple[str, ...]:
    interval = "" if size.low is None or size.high is None else f"{100 * size.low:.1f} to {100 * size.high:.1f} %"
    numbers = (str(size.ranks), f"{size.step_ms:.2f}", f"{size.speed_up:.2f}", f"{size.linear:.2f}")
    return size.name, *numbers, f"{100 * size.efficiency:.1f} %", interval


def columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Rows of cells, aligned."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _printable(text: str) -> str:
    """Values come from evidence: no control characters reach a screen."""
    return "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text) + "\n"
