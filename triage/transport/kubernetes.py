"""Jobs of Kubernetes through kubectl, with the user's own rights: pods, logs, events, and collectors run inside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from triage.bundle.writing import member
from triage.errors import UsageError
from triage.transport import owners
from triage.transport.fanout import Target, answer_of, tail_of
from triage.transport.jobs import Answered, Job, Said
from triage.transport.owners import Tree, name_of
from triage.transport.packing import boot

ASK = 15.0  # seconds for one question
LOG = 16 << 20  # bytes of one container's log: its end
LINES = 200_000  # of one container's log that are asked for


def resolve(name: str, kubectl: Sequence[str] = ("kubectl",)) -> Job:
    """`NAMESPACE/KIND/NAME`, or `NAMESPACE/selector/LABELS`. Raises UsageError when there is nothing of that name."""
    namespace, _, rest = name.partition("/")
    kind, _, wanted = rest.partition("/")
    if not (namespace and kind and wanted):
        raise UsageError(f"k8s:{name}: say k8s:NAMESPACE/KIND/NAME, or k8s:NAMESPACE/selector/LABEL=VALUE")
    base = [*kubectl, "-n", namespace]
    owner, pods, everybody = _pods(base, kind.lower(), wanted)
    between = owners.above(everybody, partial(_listed_kind, base))
    pods = sorted(owners.below(owner, everybody, between) if owner else pods, key=name_of)
    if not pods:
        raise UsageError(f"{wanted}: no pods; kubectl get pods shows what is there")
    over = [item for item in owners.lineage(pods, between) if item != owner]
    said = [Said(path="pods/pods.json", data=_listed(pods))]
    if owner:
        said.append(Said(path=f"pods/{member(kind.lower())}.json", data=json.dumps(owner, indent=1).encode() + b"\n"))
    if over:
        said.append(Said(path="pods/owners.json", data=_listed(over)))
    said += _events(base, [*kubectl], _Names(wanted, pods, over, [*everybody, *between.values()]))
    said += _described([*kubectl], pods) + _logs(base, pods)
    return _job(f"{namespace}/{kind}/{wanted}", wanted, pods, said)


def _job(number: str, wanted: str, pods: list[Tree], said: list[Said]) -> Job:
    statuses = [pod["status"] for pod in pods if isinstance(pod.get("status"), dict)]
    starts = [when for status in statuses if (when := _time(status.get("startTime")))]
    return Job(
        scheduler="k8s", id=number, name=wanted, nodes=tuple(_running(pods)), said=tuple(said),
        start=min(starts, default=None), running=bool(_running(pods)), state=_phase(pods), machines=tuple(_nodes(pods)),
    )  # fmt: skip


def _json(command: Sequence[str]) -> tuple[Tree, str | None]:
    data, fault = answer_of(command, ASK)
    try:
        found = json.loads(data) if not fault else {}
    except ValueError:
        return {}, "kubectl's answer is no JSON"
    return (found if isinstance(found, dict) else {}), fault


def _items(command: Sequence[str]) -> list[Tree]:
    """Objects of a list. Raises UsageError with what kubectl says."""
    found, fault = _json(command)
    if fault:
        raise UsageError(f"kubectl: {fault}")
    return [item for item in found.get("items") or [] if isinstance(item, dict)]


def _pods(base: list[str], kind: str, wanted: str) -> tuple[Tree | None, list[Tree], list[Tree]]:
    """The object that was named, unless it is a pod; pods that are surely the job's; all that may be."""
    if kind in ("selector", "-l"):
        found = _items([*base, "get", "pods", "-l", wanted, "-o", "json"])
        return None, found, found
    owner, fault = _json([*base, "get", kind, wanted, "-o", "json"])
    if fault:
        raise UsageError(f"kubectl: {fault}")
    if kind in ("pod", "pods", "po"):
        return None, [owner], [owner]
    return owner, [], _items([*base, "get", "pods", "-o", "json"])


def _listed_kind(base: list[str], kind: str) -> list[Tree]:
    found, _ = _json([*base, "get", kind, "-o", "json"])  # what one may not read leaves labels to go by
    return [item for item in found.get("items") or [] if isinstance(item, dict)]


def _listed(items: list[Tree]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1).encode() + b"\n"


class _Names:
    """Whose events are ours: those of the pods, of what owns them, of their nodes, and of pods that are gone."""

    def __init__(self, wanted: str, pods: list[Tree], over: list[Tree], everything: list[Tree]) -> None:
        self.nodes = set(_nodes(pods))
        self._ours = {wanted} | {name_of(item) for item in (*pods, *over)}
        self._others = tuple(f"{name_of(item)}-" for item in everything if name_of(item) not in self._ours)

    def holds(self, subject: str) -> bool:
        """Whether an event about an object of this name is ours. Pods that are gone begin with an owner's name."""
        if subject in self._ours or subject in self.nodes:
            return True
        gone = any(subject.startswith(f"{name}-") for name in self._ours)
        return gone and not f"{subject}-".startswith(self._others)


def _events(base: list[str], kubectl: list[str], names: _Names) -> list[Said]:
    """Events of the job, and of its nodes, which Kubernetes keeps in the namespace `default`."""
    own, fault = answer_of([*base, "get", "events", "-o", "json"], ASK)
    said = [Said(path="events/events.json", data=_listed(_ours(own, names)) if own else b"", fault=fault)]
    if names.nodes:
        about = ["get", "events", "--field-selector", "involvedObject.kind=Node", "-o", "json"]
        nodes, fault = answer_of([*kubectl, "-n", "default", *about], ASK)
        found = _ours(nodes, names)
        said.append(Said(path="events/nodes.json", data=_listed(found) if found else b"", fault=fault))
    return said


def _ours(events: bytes, names: _Names) -> list[Tree]:
    try:
        return [one for one in json.loads(events)["items"] if names.holds(str(one["involvedObject"]["name"]))]
    except (ValueError, KeyError, TypeError):
        return []


def _nodes(pods: list[Tree]) -> list[str]:
    return sorted({str(pod["spec"]["nodeName"]) for pod in pods if (pod.get("spec") or {}).get("nodeName")})


def _described(kubectl: list[str], pods: list[Tree]) -> list[Said]:
    """The nodes of the pods, where one may read them."""
    names = _nodes(pods)
    if not names:
        return []
    data, fault = answer_of([*kubectl, "get", "nodes", *names[:500], "-o", "json"], ASK)
    return [Said(path="pods/nodes.json", data=data, fault=fault)]


def _logs(base: list[str], pods: list[Tree]) -> list[Said]:
    """Logs of every container, and of the one before where it was restarted. They are asked for later."""
    said = []
    for pod in pods:
        for status in _containers(pod):
            for previous in (False, True) if status.get("restartCount") else (False,):
                container, ending = str(status.get("name")), ".previous" if previous else ""
                path = f"stdout/{member(name_of(pod))}/{member(container)}{ending}.log"
                said.append(Said(path=path, ask=partial(_log, base, name_of(pod), container, previous)))
    return said


def _containers(pod: Tree) -> list[Tree]:
    """Containers that have begun at least once."""
    status = pod.get("status") or {}
    found = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return [
        one
        for one in found
        if isinstance(one, dict) and (one.get("restartCount") or not (one.get("state") or {}).get("waiting"))
    ]


def _log(base: list[str], pod: str, container: str, previous: bool, seconds: float) -> Answered:
    # Not --limit-bytes: a kubelet counts them from the first of these lines, and the end is what explains a failure.
    command = [*base, "logs", pod, "-c", container, "--timestamps", f"--tail={LINES}"]
    return tail_of([*command, "--previous"] if previous else command, min(seconds, ASK), LOG)


def _running(pods: list[Tree]) -> list[str]:
    return [name_of(pod) for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]


def _phase(pods: list[Tree]) -> str | None:
    phases = sorted({str(pod.get("status", {}).get("phase")) for pod in pods})
    return ",".join(phases) or None


def _time(stamp: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(stamp).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def target(job: Job, pod: str, kubectl: Sequence[str] = ("kubectl",)) -> Target:
    """A running pod: the collectors run in its first container, as far as that has a shell and Python."""
    namespace = job.id.split("/")[0]
    base = [*kubectl, "-n", namespace, "exec", "-i", pod, "--", "sh", "-c"]
    return Target(node=pod, command=lambda seconds: [*base, boot(pod, seconds)])
