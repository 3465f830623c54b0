"""Rows and records of Slurm as facts, whatever command printed them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from triage.model.base import Value
from triage.model.event import Fact, Stamp, Where
from triage.parsers import _stamps
from triage.parsers._slurm_records import STATES, exit_code, job_state, nodes, seconds

_NOTHING = {"", "none", "(null)", "n/a", "unknown", "none assigned", "null"}
_SIGNED = re.compile(r"\s*\[[^\[\]]*@(?P<time>[^\[\]]+)\]\s*$")


class Place(NamedTuple):
    """Where a record stands, and the text that is cited."""

    where: Where
    text: str


def make(place: Place, name: str, value: Value, node: str | None = None, time: Stamp | None = None) -> Fact:
    """One fact of a record."""
    return Fact(
        name=name, value=value, where=place.where, text=place.text, time=time, entity={"node": node} if node else {}
    )


def row(place: Place, cells: dict[str, str]) -> Iterator[Fact]:
    """A row of sacct, squeue, sinfo or seff, columns by upper-case name."""
    if "JOBID" in cells or "JOBIDRAW" in cells:
        yield from _job_or_step(place, cells)
    elif "NODELIST" in cells and ("STATE" in cells or "REASON" in cells):
        for name in nodes(cells["NODELIST"]):
            yield from node(place, name, cells.get("STATE", ""), cells.get("REASON", ""))


def record(place: Place, pairs: dict[str, str]) -> Iterator[Fact]:
    """A record of `scontrol show job|step|node`."""
    if "JobId" in pairs:
        yield from job(place, {_SACCT.get(key, key.upper()): value for key, value in pairs.items()})
    elif "StepId" in pairs:
        yield from step(place, pairs.get("State", ""), "")
    elif "NodeName" in pairs:
        yield from node(place, pairs["NodeName"], pairs.get("State", ""), pairs.get("Reason", ""))


# scontrol's names where they differ from those of sacct.
_SACCT = {
    "JobState": "STATE", "TimeLimit": "TIMELIMIT", "StartTime": "START", "EndTime": "END", "NumTasks": "NTASKS",
    "BatchHost": "BATCHHOST", "FailedNode": "FAILEDNODE",
}  # fmt: skip


def _job_or_step(place: Place, cells: dict[str, str]) -> Iterator[Fact]:
    identity = cells.get("JOBID") or cells.get("JOBIDRAW") or ""
    state = cells.get("STATE") or cells.get("ST") or cells.get("STATECOMPACT") or ""
    if "." in identity:
        yield from step(place, state, cells.get("EXITCODE", ""))
    else:
        yield from job(place, cells | {"JOBID": identity, "STATE": state})


def step(place: Place, state: str, code: str) -> Iterator[Fact]:
    """State, exit code and signal of a step."""
    if name := job_state(state):
        yield make(place, "slurm.step.state", name)
    if pair := exit_code(code):
        yield make(place, "slurm.step.exit_code", pair[0])
        yield make(place, "slurm.step.signal", pair[1])


def job(place: Place, cells: dict[str, str]) -> Iterator[Fact]:
    """Everything that a row or record says of a job."""
    state = job_state(cells.get("STATE", ""))
    names = _node_names(cells)
    if cells.get("JOBID"):
        yield make(place, "slurm.job.id", cells["JOBID"])
    if state:
        yield make(place, "slurm.job.state", state)
    if found := re.match(r"CANCELLED by (\d+)", cells.get("STATE", "")):
        yield make(place, "slurm.job.cancelled_by", found[1])
    if pair := exit_code(cells.get("EXITCODE", "")):
        yield make(place, "slurm.job.exit_code", pair[0])
        yield make(place, "slurm.job.signal", pair[1])
    if names:
        yield make(place, "slurm.job.nodes", names)
    yield from _lost(place, state, cells, names)
    yield from _settings(place, cells)


def _node_names(cells: dict[str, str]) -> list[str]:
    return nodes(cells.get("NODELIST") or cells.get("NODELIST(REASON)") or "")


def _lost(place: Place, state: str | None, cells: dict[str, str], names: list[str]) -> Iterator[Fact]:
    """The node whose loss ended the job: named by FailedNode, or the only one that it had."""
    failed = nodes(cells.get("FAILEDNODE", ""))
    if state in {"NODE_FAIL", "BOOT_FAIL"} and not failed and len(names) == 1:
        failed = names
    for name in failed:
        yield make(place, "slurm.job.failed_node", name, node=name)


def _settings(place: Place, cells: dict[str, str]) -> Iterator[Fact]:
    for key, name in (("NTASKS", "slurm.job.tasks"), ("RESTARTS", "slurm.job.restarts")):
        if cells.get(key, "").isdecimal() and len(cells[key]) < 10:
            yield make(place, name, int(cells[key]))
    limit = seconds(cells.get("TIMELIMIT") or cells.get("TIME_LIMIT") or cells.get("TIME_LIMI") or "")
    if limit is not None:
        yield make(place, "slurm.job.time_limit", limit)
    if (reason := cells.get("REASON", "")).lower() not in _NOTHING:
        yield make(place, "slurm.job.reason", reason)
    for key, name in (("START", "slurm.job.start"), ("END", "slurm.job.end")):
        stamp = _stamps.find(cells.get(key, ""))[0]
        if stamp is not None:
            yield make(place, name, cells[key], time=stamp)


def node(place: Place, name: str, state: str, reason: str) -> Iterator[Fact]:
    """State and reason of a node; the signature `[root@time]` behind a reason becomes its time."""
    if state.strip() and (state.upper() not in STATES):
        yield make(place, "slurm.node.state", state.strip().upper(), node=name)
    signed = _SIGNED.search(reason)
    text = reason[: signed.start()].strip() if signed else reason.strip()
    if text.lower() not in _NOTHING:
        time = _stamps.find(signed["time"])[0] if signed else None
        yield make(place, "slurm.node.reason", text, node=name, time=time)
