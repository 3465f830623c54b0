"""Slurm: lines of srun, slurmstepd, slurmd and slurmctld; tables and records of sacct, squeue, sinfo, scontrol, seff.

Facts of a job (no entity: a job is no thing that can be at fault):
    slurm.job.id (str)  slurm.job.state (full name)  slurm.job.cancelled_by (uid)  slurm.job.exit_code  slurm.job.signal
    slurm.job.nodes (list, expanded)  slurm.job.tasks  slurm.job.time_limit (s)  slurm.job.reason  slurm.job.restarts
    slurm.job.start  slurm.job.end (as printed, or RFC 3339 where Slurm gives Unix time)
    slurm.job.failed_node (entity node): the node whose loss ended the job
Facts of steps: slurm.step.state  slurm.step.exit_code  slurm.step.signal
Facts of nodes (entity node): slurm.node.state (as printed, upper case)  slurm.node.reason
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.model.bundle import Document, Window
from triage.model.event import Event, Fact, Where
from triage.parsers import _prefix, _slurm_facts, _slurm_json, _slurm_records, _stamps

SOURCE = "slurm"
BEFORE = AFTER = 0  # every message is one line
LIMIT = 32 << 20  # bytes of text read for tables and records

_DAEMON = re.compile(
    r"(?:^|(?<=[\s\]>:|]))(?P<who>srun|sbatch|salloc|slurmstepd|slurmd|slurmctld|slurmdbd)"
    r"(?:-(?P<host>[A-Za-z0-9][\w.-]{0,80}))?(?:\[(?P<pid>\d{1,9})\])?: "
)
_ABOUT = (
    # Of a node failure it is a survivor that tells.
    re.compile(r"\bON (?P<node>[\w.-]+) (?:CANCELLED AT (?!\S+ DUE TO NODE FAIL)|AT \d|FAILED)"),
    re.compile(r"\berror: (?P<node>[A-Za-z0-9][\w.-]*): tasks? [\d,-]+: "),
    re.compile(r"\bNode failure on (?P<node>[A-Za-z0-9][\w.-]*)\s*$"),
    re.compile(r"\b[Nn]odes? (?P<node>[A-Za-z0-9][\w.-]*) (?:unexpectedly rebooted|not responding|state set to D)"),
    re.compile(r"\b(?:failure of|on) node (?P<node>[A-Za-z0-9][\w.-]*[A-Za-z0-9])\b"),
)
_SYSLOG_HOST = re.compile(r"\s*(?P<node>[A-Za-z0-9][\w.-]{0,80})\s+$")

MARKS = (
    ("end", r"\|COMPLETED\|0:0(?:\||$)"),
    ("end", r"JobState=COMPLETED\b"),
    ("restart", r"SLURM_RESTART_COUNT[=: ]{1,3}(?P<attempt>[1-9]\d{0,5})\b"),
)

_STATE = rb"(?:COMPLETED|FAILED|TIMEOUT|CANCELLED|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|REQUEUED|RUNNING)"
_FILE = re.compile(
    rb"^[ \t]*(?:JobID(?:Raw)?\|[A-Za-z]|\d+(?:\.\w+)?\|[^\n|]*\|(?:[^\n|]*\|)*" + _STATE + rb"[^\n|]*(?:\||$)"
    rb"|JobID(?:Raw)? +[A-Z]\w* +[A-Z]|JobId=\d+ (?:ArrayJobId|JobName|HetJobId)"
    rb"|NodeName=\S+ (?:Arch|CoresPerSocket|CPUAlloc|State)=|StepId=\S+ UserId="
    rb"|JOBID +(?:PARTITION|NAME|USER)|PARTITION +AVAIL +TIMELIMIT|NODELIST +NODES +PARTITION|REASON +USER +TIMESTAMP"
    rb"|Job ID: \d+\s{0,4}\n[ \t]*(?:Array Job ID|Cluster|User/Group)"
    rb"|(?:\[[^\]\n]*\] )?(?:\S+ )?slurm(?:ctld|d) version [\d.]+ started)",
    re.MULTILINE,
)
_JSON = re.compile(
    rb'"[Ss]lurm"\s*:\s*\{|"job_state"\s*:|"slurmdbv?\d|"derived_exit_code"\s*:|"type"\s*:\s*"(?:openapi|data_parser)/'
)
_DAEMON_LOG = re.compile(
    rb"^\[\d{4}-\d\d-\d\dT[\d:.]+\] (?:\[[\d.]+[\w.]*\] )?(?:error: |debug\d?: |sched: |backfill: |launch task "
    rb"|_slurm_rpc|Launching batch|task/|done with job|update_node|requeue job|slurmd |slurmctld |Processing RPC)",
    re.MULTILINE,
)
_LINE = re.compile(
    rb"(?:^|[\s\]:>])(?:srun|sbatch|salloc|slurmstepd(?:-[\w.-]+)?|slurmd|slurmctld): |\*\*\* (?:STEP|JOB) [\d.]+ ON "
)
SIGNS = (_FILE, _JSON, _DAEMON_LOG, _LINE)


def recognises(head: bytes, tail: bytes) -> int:
    """2 for Slurm's own tables, records, JSON and daemon logs; 1 for output that holds lines of srun or slurmstepd."""
    text = head + b"\n" + tail
    if _FILE.search(text) or (head.lstrip()[:1] == b"{" and _JSON.search(head)) or len(_DAEMON_LOG.findall(text)) > 2:
        return 2
    return 1 if _LINE.search(text) else 0


def parse(window: Window) -> Event:
    """The message at the hit; node from its words, its syslog head or its file."""
    line = window.lines[window.hit]
    daemon = _DAEMON.search(line[:400])
    stamp, used = _stamps.find(line)
    head = line[: daemon.start()] if daemon else line
    prefix = _prefix.split(head if daemon else line)
    text = (line[daemon.start() :] if daemon else line[used:] if used else prefix.rest).strip()[:2000]
    pid = daemon["pid"] if daemon else None
    return Event(
        where=Where(file=window.file.path, line=window.numbers[window.hit]),
        text=text, body=text, source=SOURCE, time=stamp,
        node=_node(line, daemon, head[used:]) or prefix.node or window.file.node,
        rank=prefix.rank if prefix.rank is not None else window.file.rank,
        local_rank=prefix.local_rank if prefix.local_rank is not None else window.file.local_rank,
        pid=int(pid) if pid else window.file.pid,
    )  # fmt: skip


def _node(line: str, daemon: re.Match[str] | None, head: str) -> str | None:
    for form in _ABOUT:
        if found := form.search(line, 0, 2000):
            return found["node"]
    if daemon is None or daemon["who"] not in {"slurmstepd", "slurmd"}:
        return None
    host = _SYSLOG_HOST.match(head)
    return daemon["host"] or (host["node"] if host else None)


def facts(document: Document) -> Iterator[Fact]:
    """What the tables, records or JSON say; nothing for a file without any."""
    if document.data.lstrip()[:1] == b"{":
        yield from _slurm_json.facts(document)
    elif _FILE.search(document.data, 0, LIMIT):
        lines = document.data[:LIMIT].decode("utf-8", "replace").splitlines()
        for number, row in _slurm_records.records(lines):
            yield from _slurm_facts.record(_place(document, number, lines), row)
        for number, row in _slurm_records.tables(lines):
            yield from _slurm_facts.row(_place(document, number, lines), row)
        for number, row in _slurm_records.efficiency(lines):
            yield from _slurm_facts.row(_place(document, number, lines), row)


def _place(document: Document, number: int, lines: list[str]) -> _slurm_facts.Place:
    return _slurm_facts.Place(Where(file=document.file.path, line=number), lines[number - 1].strip()[:300])
