"""From a request to a bundle: resolve the job, ask every node at once, write down what came and what did not."""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from triage.bundle.redaction import Redactor, names_of, rules_file, token
from triage.bundle.writing import DiskFullError, Writer
from triage.errors import BundleError, UsageError
from triage.model.base import Record
from triage.transport import files, kubernetes, local, nodelists, packing, slurm, ssh
from triage.transport.fanout import REFUSED, Fanout, Target, end_questions
from triage.transport.jobs import Answered, Job
from triage.transport.receiving import Answer, Receiver, ledger
from triage.transport.reducing import Reducing

NODE_BYTES = 512 << 20  # that one node may send
LOG_BYTES = 192 << 10  # of one log's lines, when only those that matter are wanted
MANY = 8  # nodes for which it pays to compile the collectors once, here
QUESTIONS = 8  # to a scheduler at once


class Plan(Record, frozen=True, kw_only=True):
    """What is wanted. timeout: seconds for everything. since, until: Unix seconds. hosts: hide machines, too.

    reduce: of logs only the lines that signatures may speak of.
    """

    job: str | None = None
    nodelist: str | None = None
    include: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    timeout: float = 120.0
    hosts: bool = False
    stacks: bool = False
    reduce: bool = False
    ssh: str = "ssh"
    kubectl: str = "kubectl"


class Prepared(Record, frozen=True, kw_only=True):
    """A plan with the job resolved: whom to ask, what to run there, what to read here."""

    plan: Plan
    job: Job
    nodes: tuple[str, ...]
    collectors: tuple[str, ...]
    here: tuple[str, ...]
    there: tuple[str, ...]
    started: float

    def name(self) -> str:
        """Name of the bundle: job and time."""
        stamp = datetime.fromtimestamp(self.started, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        label = {"slurm": f"job{self.job.id}", "k8s": self.job.name or "job"}.get(
            self.job.scheduler, self.job.scheduler
        )
        return f"triage-{re.sub(r'[^A-Za-z0-9_.-]', '-', label)}-{stamp}.tar.zst"


class Outcome(Record, frozen=True, kw_only=True):
    """What became of it. path: the bundle. key: the file beside it that turns tokens of names back."""

    path: Path
    key: Path
    complete: bool
    interrupted: bool
    nodes: int
    answered: int
    bytes: int
    gaps: int


def prepare(plan: Plan) -> Prepared:
    """Resolve the job and choose the nodes. Raises UsageError."""
    started = time.time()
    collectors = packing.chosen(plan.only, plan.skip)
    job = _resolved(plan)
    nodes = nodelists.expand(plan.nodelist) if plan.nodelist else list(job.nodes)
    if not nodes and job.scheduler != "k8s":
        raise UsageError(f"job {job.id} has no nodes (state {job.state}); --nodelist names them")
    here, there = files.split(plan.include, alone=job.scheduler == "local")
    return Prepared(
        plan=plan, job=job, nodes=tuple(nodes), collectors=tuple(collectors), here=tuple(here), there=tuple(there),
        started=started,
    )  # fmt: skip


def _resolved(plan: Plan) -> Job:
    if plan.job is None:
        return (
            Job(scheduler="ssh", id="hosts") if plan.nodelist else Job(scheduler="local", id="local", nodes=(_own(),))
        )
    kind, colon, rest = plan.job.partition(":")
    if kind == "k8s" and colon:
        return kubernetes.resolve(rest, tuple(plan.kubectl.split()))
    number = rest if kind == "slurm" and colon else plan.job
    if not re.fullmatch(r"\d+(?:_\d+|\+\d+)?", number):
        raise UsageError(f"--job {plan.job}: say a Slurm number, slurm:NUMBER, or k8s:NAMESPACE/KIND/NAME")
    return slurm.resolve(number)


def _own() -> str:
    return local.target().node


def targets(prepared: Prepared) -> list[Target]:
    """The way to each node."""
    plan, job = prepared.plan, prepared.job
    if job.scheduler == "local":
        return [local.target()]
    if job.scheduler == "slurm":
        return [slurm.target(job, node, plan.ssh) for node in prepared.nodes]
    if job.scheduler == "k8s":
        return [kubernetes.target(job, pod, tuple(plan.kubectl.split())) for pod in prepared.nodes]
    return [ssh.target(node, plan.ssh) for node in prepared.nodes]


class Collection:
    """One collection under way: `run` does all of it."""

    def __init__(self, prepared: Prepared, output: Path, force: bool, told: Callable[[str], None]) -> None:
        self.prepared, self.output, self._told = prepared, output, told
        self.key, self._lock = secrets.token_bytes(32), threading.Lock()
        self.words = _words(prepared)
        self.redactor = Redactor(self.key, self.words, prepared.plan.hosts)
        self._texts = Redactor(self.key, self.words, prepared.plan.hosts)
        self.writer = Writer(output, self._facts(), force, len(prepared.nodes))
        self.key_path = output.with_name(output.name + ".key.json")
        try:
            keep_key(self.key_path, self.key, self.words)
        except BundleError:
            self.writer.discard()
            raise

    def run(self) -> Outcome:
        """Collect and pack. Raises DiskFullError, the folder then stays; an interrupt keeps what has come."""
        interrupted = False
        receiver = Receiver(writer=self.writer, clean=self._clean, label=self._label)
        try:
            self._job_side()
            self._node_side(receiver)
        except KeyboardInterrupt:
            interrupted = True
        except DiskFullError:
            self._not_asked()
            self.writer.settle()
            raise
        troubles = [row for row in self.writer.rows if _incomplete(row)]
        complete = not interrupted and not troubles
        size = sum(int(one["bytes"]) for one in self.writer.files)
        answered = sum(1 for one in self.writer.nodes if one.get("complete"))
        path = self.writer.finish(complete)
        return Outcome(
            path=path, key=self.key_path, complete=complete, interrupted=interrupted, nodes=len(self.prepared.nodes),
            answered=answered, bytes=size, gaps=len(troubles),
        )  # fmt: skip

    def _not_asked(self) -> None:
        """Rows for nodes that nobody asked any more."""
        told, planned = {row["node"] for row in self.writer.rows}, self.prepared.collectors
        for node in self.prepared.nodes:
            if (label := self._label(node)) not in told:
                self.writer.note(ledger(Answer(node, 0), label, planned, {"failed": ["no space left for its files"]}))

    # ---- names ----

    def _clean(self, text: str) -> str:
        with self._lock:
            lines = text.encode("utf-8", "replace").split(b"\n")
            return b"\n".join(self._texts.line(line) for line in lines).decode("utf-8", "replace")

    def _label(self, node: str) -> str:
        return token(self.key, "host", node.encode()).decode() if self.prepared.plan.hosts else node

    def _facts(self) -> dict[str, Any]:
        plan, job = self.prepared.plan, self.prepared.job
        window = {"since": plan.since or job.start, "until": plan.until or job.end}
        facts = job.facts() | {"nodes": [self._label(node) for node in self.prepared.nodes]}
        known = {key: self._clean(value) if isinstance(value, str) else value for key, value in facts.items()}
        return {
            "collected": datetime.fromtimestamp(self.prepared.started, timezone.utc).isoformat(timespec="seconds"),
            "job": job.id if job.scheduler in ("slurm", "k8s") else None,
            "scheduler": known,
            "window": window if any(window.values()) else None,
            "collectors": list(self.prepared.collectors),
        }

    # ---- what the launcher itself can see ----

    def _job_side(self) -> None:
        rows: dict[str, dict[str, Any]] = defaultdict(lambda: defaultdict(list))
        try:
            self._job_files(rows)
        finally:
            self.writer.note(_row(collector, row) for collector, row in sorted(rows.items()))

    def _job_files(self, rows: dict[str, dict[str, Any]]) -> None:
        for path, answered in self._said():
            collector = path.split("/")[0]
            row = rows[collector]
            if answered.data:
                kept = self.writer.add_bytes(f"job/{self._clean(path)}", answered.data, self.redactor)
                self.writer.describe(kept, collector, truncated=answered.cut)
                row["size"].append(kept.size)
            if answered.cut:
                row["truncated"].append(self._clean(path))
            if answered.fault:
                row[reason(answered.fault)].append(self._clean(f"{path}: {answered.fault}"))
        with self._reducing() as reducing:
            outputs = files.outputs(self.prepared.job.outputs)[0]
            self._copy("stdout", ((path, path.name) for path in outputs), rows, reducing)
            for pattern in self.prepared.here:
                found = list(files.below(pattern))
                self._copy("include", found, rows, reducing)
                if not found:
                    rows["include"]["absent"].append(self._clean(pattern))

    def _reducing(self) -> AbstractContextManager[Reducing | None]:
        """A quarter of the time is for what this machine reads: the nodes are asked afterwards."""
        if not self.prepared.plan.reduce:
            return nullcontext()
        return Reducing(self._request(), self.prepared.plan.timeout / 4)

    def _said(self) -> Iterator[tuple[str, Answered]]:
        """Answers of the scheduler; those that take long a few at a time, and in half of the time that there is."""
        later = []
        for said in self.prepared.job.said:
            if said.ask is None:
                yield said.path, Answered(said.data, said.fault)
            else:
                later.append((said.path, said.ask))
        ends = time.time() + max(self.prepared.started + self.prepared.plan.timeout - time.time(), 2) / 2
        with ThreadPoolExecutor(QUESTIONS) as pool:
            try:
                for at in range(0, len(later), QUESTIONS):
                    some = later[at : at + QUESTIONS]
                    yield from zip((path for path, _ in some), pool.map(partial(_asked, ends), some), strict=True)
            except BaseException:
                end_questions()
                raise

    def _copy(self, collector: str, found: Any, rows: dict[str, dict[str, Any]], reducing: Reducing | None) -> None:
        for path, name in found:
            said = files.add(self.writer, self.redactor, path, self._clean(name), collector, reducing)
            for key, value in said.items():
                rows[collector]["size" if key == "bytes" else key] += [value] if key == "bytes" else value

    # ---- the nodes ----

    def _node_side(self, receiver: Receiver) -> None:
        ends = self.prepared.started + self.prepared.plan.timeout
        fanout = Fanout(receiver, self.prepared.collectors, ends, self._told)
        if not self.prepared.nodes:
            return
        app = packing.pack(self._request(), compiled=len(self.prepared.nodes) >= MANY)
        if self.prepared.job.scheduler == "ssh" and len(self.prepared.nodes) > 1 and ssh.tree_is_there():
            ssh.run_tree(fanout, receiver, self.prepared.nodes, app, ends, self.prepared.plan.ssh)
        else:
            fanout.run(targets(self.prepared), app)

    def _request(self) -> dict[str, Any]:
        prepared, plan = self.prepared, self.prepared.plan
        missing = files.outputs(prepared.job.outputs)[1]
        return {
            "key": self.key.hex(), "words": {kind: sorted(words) for kind, words in self.words.items()},
            "hosts": plan.hosts, "only": list(plan.only), "skip": list(plan.skip), "include": list(prepared.there),
            "job": prepared.job.request() | {"node_outputs": missing}, "asked": ["stacks"] if plan.stacks else [],
            "since": plan.since or (prepared.job.start - 300 if prepared.job.start else None), "until": plan.until,
            "seconds": plan.timeout, "bytes": NODE_BYTES,
            "reduce": LOG_BYTES if plan.reduce else 0,
        }  # fmt: skip


def _asked(ends: float, one: tuple[str, Callable[[float], Answered]]) -> Answered:
    left = ends - time.time()
    return one[1](left) if left > 0.5 else Answered(fault="kubectl did not answer: no time was left to ask it")


def reason(fault: str) -> str:
    """The ledger's key for what a scheduler said when it gave no answer."""
    if "did not answer" in fault:
        return "timed_out"
    return "denied" if any(word in fault.lower() for word in REFUSED) else "failed"


def _row(collector: str, row: dict[str, Any]) -> dict[str, Any]:
    sizes = row.pop("size", [])
    found = {"collector": collector, "node": None, "planned": True, "ran": True, "bytes": sum(sizes)}
    return found | {key: value for key, value in row.items() if value and not (key == "failed" and sizes)}


def _incomplete(row: dict[str, Any]) -> bool:
    """Whether a row means that something is missing which another run could bring."""
    if row.get("collector") == "node":
        return not row.get("ran") or bool(row.get("timed_out") or row.get("failed"))
    return bool(row.get("timed_out"))


def _words(prepared: Prepared) -> dict[str, set[str]]:
    """Names that are known beforehand: the job's user, and with them the nodes."""
    plain = re.compile(f"(?:{rules_file()['not_users']})")
    users = {prepared.job.user, os.environ.get("USER"), os.environ.get("SUDO_USER")}
    hosts = {*prepared.nodes, *prepared.job.nodes, *prepared.job.machines}
    return {
        "user": {user for user in users if user and len(user) > 2 and not plain.fullmatch(user)},
        "host": hosts | {host.split(".")[0] for host in hosts if not host[0].isdigit()},
    }


def keep_key(path: Path, key: bytes, words: dict[str, set[str]]) -> None:
    """Write the key and the map beside the bundle, for its owner alone. Raises BundleError."""
    data = json.dumps({"key": key.hex(), "names": names_of(key, words)}, indent=1, sort_keys=True) + "\n"
    try:
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(data)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise BundleError(f"{path}: {error.strerror or error}") from None


def described(prepared: Prepared) -> Sequence[str]:
    """What a dry run prints: job, nodes, collectors, files, and one command in full."""
    job = prepared.job
    lines = [f"job: {job.scheduler} {job.id}" + (f", {job.state}" if job.state else "")]
    lines.append(f"nodes ({len(prepared.nodes)}): {', '.join(prepared.nodes[:40]) or 'none running'}")
    lines.append(f"collectors: {', '.join(prepared.collectors)}")
    lines += [f"answer of the scheduler: {said.path}" + (f" ({said.fault})" if said.fault else "") for said in job.said]
    found, missing = files.outputs(job.outputs)
    lines += [f"output: {path}" for path in found] + [f"output, looked for on the nodes: {name}" for name in missing]
    lines += [f"file: {name}" for name in prepared.here] + [f"file on each node: {name}" for name in prepared.there]
    chosen = targets(prepared)
    if chosen:
        lines.append(f"way to {chosen[0].node}: {slurm.describe(chosen[0].command(prepared.plan.timeout))}")
    return lines


__all__ = ["Collection", "DiskFullError", "Outcome", "Plan", "Prepared", "described", "prepare", "targets"]
