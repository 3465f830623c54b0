"""`sacct --json`, `squeue --json`, `scontrol show --json`: the shapes of data parsers v0.0.37 and later."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from triage.model.bundle import Document
from triage.model.event import Fact, Stamp, Where
from triage.parsers import _slurm_facts
from triage.parsers._documents import integer, json_value, listing, mapping, text
from triage.parsers._slurm_facts import Place, make
from triage.parsers._slurm_records import ROWS, job_state

_ENDLESS = 1 << 31  # minutes; Slurm writes 2**32 - 1 for no limit in the oldest shapes


def facts(document: Document) -> Iterator[Fact]:
    """Facts of all jobs, steps and nodes in the document; nothing when it is no Slurm JSON or is cut."""
    try:
        tree = mapping(json_value(document.data))
    except ValueError:
        return
    for index, entry in enumerate(listing(tree.get("jobs"))[:ROWS]):
        yield from _job(_place(document, f"jobs[{index}]"), mapping(entry))
    for index, entry in enumerate(listing(tree.get("nodes"))[:ROWS]):
        yield from _node(_place(document, f"nodes[{index}]"), mapping(entry))


def _place(document: Document, at: str) -> Place:
    return Place(Where(file=document.file.path, at=at), "")


def _first(value: Any) -> str:
    """`"FAILED"`, `["FAILED"]` and `{"current": ["FAILED"]}` are one thing."""
    if isinstance(value, dict):
        value = value.get("current")
    return text(value[0] if isinstance(value, list) and value else value)


def _number(value: Any) -> int | None:
    """`5`, `{"set": true, "infinite": false, "number": 5}`; None when unset or without end."""
    if isinstance(value, dict):
        return integer(value.get("number")) if value.get("set", True) and not value.get("infinite") else None
    return integer(value)


def _exit(value: Any) -> tuple[int | None, int | None]:
    """Exit code and signal; older shapes call the signal's number `signal_id`."""
    tree = mapping(value)
    signal = mapping(tree.get("signal"))
    return _number(tree.get("return_code")), _number(signal.get("id", signal.get("signal_id")))


def _job(place: Place, entry: dict[str, Any]) -> Iterator[Fact]:
    state = text(_first(entry.get("job_state", entry.get("state"))))
    cells = {
        "JOBID": str(entry.get("job_id", "")), "STATE": state, "NODELIST": text(entry.get("nodes"), 65_536),
        "REASON": text(entry.get("state_reason")) or text(mapping(entry.get("state")).get("reason")),
        "FAILEDNODE": text(entry.get("failed_node")),
    }  # fmt: skip
    place = place._replace(text=f"job {cells['JOBID']} {state}")
    yield from _slurm_facts.job(place, cells)
    yield from _exits(place, "slurm.job", entry.get("exit_code"))
    yield from _numbers(place, entry)
    for index, part in enumerate(listing(entry.get("steps"))[:ROWS]):
        inner = Where(file=place.where.file, at=f"{place.where.at}.steps[{index}]")
        yield from _step(place._replace(where=inner), mapping(part))


def _exits(place: Place, name: str, value: Any) -> Iterator[Fact]:
    code, signal = _exit(value)
    if code is not None:
        yield make(place, f"{name}.exit_code", code)
    if signal is not None or code is not None:
        yield make(place, f"{name}.signal", signal or 0)


def _numbers(place: Place, entry: dict[str, Any]) -> Iterator[Fact]:
    times = mapping(entry.get("time"))
    limit = _number(entry.get("time_limit", times.get("limit")))
    if limit is not None and 0 < limit < _ENDLESS:
        yield make(place, "slurm.job.time_limit", limit * 60)
    for name, value in (("tasks", entry.get("tasks")), ("restarts", entry.get("restart_cnt", entry.get("restarts")))):
        if (count := _number(value)) is not None:
            yield make(place, f"slurm.job.{name}", count)
    for name in ("start", "end"):
        unix = _number(entry.get(f"{name}_time", times.get(name)))
        if unix is not None and 0 < unix < 1 << 33:
            when = datetime.fromtimestamp(unix, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            yield make(place, f"slurm.job.{name}", when, time=Stamp(seconds=unix, kind="utc"))


def _step(place: Place, entry: dict[str, Any]) -> Iterator[Fact]:
    state = _first(entry.get("state"))
    if name := job_state(state):
        yield make(place, "slurm.step.state", name)
    yield from _exits(place, "slurm.step", entry.get("exit_code"))


def _node(place: Place, entry: dict[str, Any]) -> Iterator[Fact]:
    name = text(entry.get("name")) or text(entry.get("hostname"))
    state = entry.get("state")
    states = "+".join(text(part) for part in state) if isinstance(state, list) else text(state)
    if name:
        place = place._replace(text=f"node {name} {states}")
        yield from _slurm_facts.node(place, name, states, text(entry.get("reason")))
