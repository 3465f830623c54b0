"""Pods, events, jobs and nodes of Kubernetes as facts, from whatever form they were printed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any, NamedTuple

from triage.model.base import Value
from triage.model.event import Fact, Stamp, Where
from triage.parsers._documents import integer, listing, mapping, text

# Where a value stands: the words that are looked for -> place and cited text.
Finder = Callable[..., tuple[Where, str]]
ITEMS = 20_000  # objects read of one file
_JOBS = {
    "Job", "PyTorchJob", "MPIJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "TrainJob", "JobSet", "RayJob",
    "RayCluster",
}  # fmt: skip
_MESSAGE = 2000  # characters kept of a message


class Ended(NamedTuple):
    """How one container of a pod stands or ended; `last` is true for the run before the present one."""

    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    finished: str = ""
    last: bool = False


class Pod(NamedTuple):
    """What is said of a pod."""

    name: str
    node: str | None = None
    phase: str = ""
    reason: str = ""
    message: str = ""
    disruption: str = ""
    restarts: int | None = None
    containers: tuple[Ended, ...] = ()


def rfc3339(value: str) -> Stamp | None:
    """`2024-05-03T10:00:00Z`, with or without fractions -> utc."""
    try:
        when = datetime.strptime(value.strip()[:19], "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return None
    return Stamp(seconds=when.replace(tzinfo=timezone.utc).timestamp(), kind="utc")


def pod(found: Pod, find: Finder) -> Iterator[Fact]:
    """Facts of a pod, on its node when that is known."""

    def make(name: str, value: Value, *words: str, time: Stamp | None = None) -> Fact:
        where, cited = find(found.name, *words)
        entity = {"node": found.node} if found.node else {}
        return Fact(name=name, value=value, where=where, text=cited, time=time, entity=dict(entity))

    for name, value, words in (
        ("name", found.name, found.name), ("node", found.node, f"nodeName: {found.node}"),
        ("phase", found.phase, f"phase: {found.phase}"), ("message", found.message, found.message[:60]),
        ("reason", found.reason, f"reason: {found.reason}"),
        ("disruption", found.disruption, f"reason: {found.disruption}"),
    ):  # fmt: skip
        if value:
            yield make(f"k8s.pod.{name}", value, words)
    if found.restarts is not None:
        yield make("k8s.pod.restarts", found.restarts)
    for ended in found.containers:
        yield from _container(ended, make)


def _container(ended: Ended, make: Callable[..., Fact]) -> Iterator[Fact]:
    time = rfc3339(ended.finished)
    if ended.reason:
        yield make("k8s.pod.reason", ended.reason, f"reason: {ended.reason}", time=time)
    code = f"exitCode: {ended.exit_code}"
    if ended.exit_code is not None:
        yield make("k8s.pod.exit_code", ended.exit_code, code, time=time)
        yield make("k8s.pod.exit", f"{ended.reason or 'unknown'} {ended.exit_code}", code, time=time)
    if ended.signal:
        yield make("k8s.pod.signal", ended.signal, f"signal: {ended.signal}", time=time)


def event(name: str, reason: str, message: str, node: str | None, when: str, find: Finder) -> Iterator[Fact]:
    """Reason and message of an event, on the node that it names; `name` is the event's own."""
    where, cited = find(name, message[:40] or reason)
    entity = {"node": node} if node else {}
    for key, value in (("reason", reason), ("message", message[:_MESSAGE])):
        if value:
            yield Fact(
                name=f"k8s.event.{key}", value=value, where=where, text=cited, time=rfc3339(when), entity=dict(entity)
            )


def node(name: str, facts: dict[str, Value], find: Finder) -> Iterator[Fact]:
    """Facts `k8s.node.*` of a node."""
    for key, value in facts.items():
        where, cited = find(name, *([value] if isinstance(value, str) and value else []))
        yield Fact(name=f"k8s.node.{key}", value=value, where=where, text=cited, entity={"node": name})


def of_object(tree: dict[Any, Any], find: Finder) -> Iterator[Fact]:
    """Facts of one API object; nothing for kinds that say nothing of a failure."""
    kind = text(tree.get("kind"))
    if kind == "Pod":
        yield from pod(_pod(tree), find)
    elif kind == "Event":
        yield from _event(tree, find)
    elif kind == "Node":
        yield from node(text(mapping(tree.get("metadata")).get("name")), _node(tree), find)
    elif kind in _JOBS:
        yield from _job(tree, find)


def _pod(tree: dict[Any, Any]) -> Pod:
    status = mapping(tree.get("status"))
    states = [mapping(item) for key in _STATUSES for item in listing(status.get(key))]
    broken = next((mapping(item) for item in listing(status.get("conditions")) if _hit(item, "DisruptionTarget")), {})
    restarts = [count for item in states if (count := integer(item.get("restartCount"))) is not None]
    return Pod(
        name=text(mapping(tree.get("metadata")).get("name")),
        node=text(mapping(tree.get("spec")).get("nodeName")) or None,
        phase=text(status.get("phase")), reason=text(status.get("reason")),
        message=text(status.get("message"), _MESSAGE), disruption=text(broken.get("reason")),
        restarts=max(restarts) if restarts else None,
        containers=tuple(ended for item in states for ended in _states(item)),
    )  # fmt: skip


_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def _hit(condition: Any, kind: str) -> bool:
    tree = mapping(condition)
    return tree.get("type") == kind and str(tree.get("status")) == "True"


def _states(status: dict[Any, Any]) -> Iterator[Ended]:
    for key in ("state", "lastState"):
        for kind in ("terminated", "waiting"):
            inner = mapping(mapping(status.get(key)).get(kind))
            if inner:
                yield Ended(
                    reason=text(inner.get("reason")), exit_code=integer(inner.get("exitCode")),
                    signal=integer(inner.get("signal")), finished=text(inner.get("finishedAt")),
                    last=key == "lastState",
                )  # fmt: skip


def _event(tree: dict[Any, Any], find: Finder) -> Iterator[Fact]:
    about = mapping(tree.get("involvedObject") or tree.get("regarding"))
    host = text(mapping(tree.get("source") or tree.get("deprecatedSource")).get("host"))
    own = text(mapping(tree.get("metadata")).get("name"))
    name = text(about.get("name")) if about.get("kind") == "Node" else host
    when = text(tree.get("lastTimestamp")) or text(tree.get("eventTime")) or text(tree.get("firstTimestamp"))
    message = text(tree.get("message"), _MESSAGE) or text(tree.get("note"), _MESSAGE)
    yield from event(own, text(tree.get("reason")), message, name or None, when, find)


def _node(tree: dict[Any, Any]) -> dict[str, Value]:
    status, out = mapping(tree.get("status")), dict[str, Value]()
    for item in listing(status.get("conditions")):
        kind, value = text(mapping(item).get("type")), text(str(mapping(item).get("status")))
        if kind == "Ready":
            out["ready"] = value
        elif kind.endswith("Pressure") and value == "True":
            out["pressure"] = kind
    for key in ("capacity", "allocatable"):
        count = integer(mapping(status.get(key)).get("nvidia.com/gpu"))
        if count is not None:
            out[f"gpus_{key}"] = count
    taints = [text(mapping(item).get("key")) for item in listing(mapping(tree.get("spec")).get("taints"))]
    return out | ({"taints": taints} if taints else {})


def _job(tree: dict[Any, Any], find: Finder) -> Iterator[Fact]:
    name = text(mapping(tree.get("metadata")).get("name"))
    for item in listing(mapping(tree.get("status")).get("conditions")):
        for kind in ("Failed", "Suspended", "Restarting", "FailureTarget"):
            reason = text(mapping(item).get("reason"))
            if reason and _hit(item, kind):
                where, cited = find(name, f"reason: {reason}")
                yield Fact(name="k8s.job.reason", value=reason, where=where, text=cited)
