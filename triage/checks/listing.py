"""The outcome of a check as a table."""

from __future__ import annotations

from collections.abc import Iterator

from triage.model.check import Figure, Outcome, Stage

HEAD = ("on", "figure", "measured", "should reach", "others", "", "")
MARKS = {"passed": "ok", "failed": "FAILED", "unknown": "?", "told": "", "not run": "not run"}


def table(outcome: Outcome) -> str:
    """Stages with their figures, the verdict last."""
    lines = [f"{outcome.node}: {len(outcome.gpus)} GPU{'s' * (len(outcome.gpus) != 1)}", *outcome.gpus]
    for stage in outcome.stages:
        lines += ["", *_stage(stage)]
    return "\n".join([*lines, "", _verdict(outcome)]) + "\n"


def _stage(stage: Stage) -> Iterator[str]:
    took = "" if stage.seconds is None else f" ({stage.seconds:.0f} s)"
    yield f"{stage.title}: {stage.state}{took}"
    if stage.why:
        yield f"  {stage.why}"
    if stage.figures:
        yield from _columns([HEAD, *(_row(figure) for figure in stage.figures)])


def _row(figure: Figure) -> tuple[str, ...]:
    reach = "" if figure.reach is None else f"{_number(figure.reach)} (at least {_number(figure.floor)})"
    value = f"{_number(figure.value)} {figure.unit}".strip()
    peers = "" if figure.peers is None else _number(figure.peers)
    return figure.on, figure.name, value, reach, peers, MARKS[figure.state], figure.why


def _number(value: float | None) -> str:
    """Three digits that count; whole numbers as they are."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.3g}"


def _columns(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _verdict(outcome: Outcome) -> str:
    failed = [stage for stage in outcome.stages if stage.state == "failed"]
    if not failed:
        ran = [stage.name for stage in outcome.stages if stage.state == "passed"]
        return f"passed: {', '.join(ran)}" if ran else "nothing could be judged"
    bad = [f"{figure.on}: {figure.name}" for figure in failed[0].figures if figure.state == "failed"]
    return f"failed at stage {failed[0].name}: " + ("; ".join(bad[:6]) or failed[0].why)
