"""Jobs of Kubernetes through kubectl, with the user's own rights: pods, logs, events, and collectors run inside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from triage.bundle.writing import member
from triage.errors import UsageError
from triage.transport.fanout import Target, answer_of
from triage.transport.jobs import Job, Said
from triage.transport.packing import boot

ASK = 15.0  # seconds for one question
LOG = 32 << 20  # bytes of one container's log
CALLS = 8  # questions to the API server at once
# Labels by which controllers mark the pods of a job; used when owner references do not lead there.
LABELS = (
    "job-name", "batch.kubernetes.io/job-name", "training.kubeflow.org/job-name", "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name", "ray.io/cluster", "volcano.sh/job-name",
    "app.kubernetes.io/name", "app",
)  # fmt: skip


def resolve(name: str, kubectl: Sequence[str] = ("kubectl",)) -> Job:
    """`NAMESPACE/KIND/NAME`, or `NAMESPACE/selector/LABELS`. Raises UsageError when there is nothing of that name."""
    namespace, _, rest = name.partition("/")
    kind, _, wanted = rest.partition("/")
    if not (namespace and kind and wanted):
        raise UsageError(f"k8s:{name}: say k8s:NAMESPACE/KIND/NAME, or k8s:NAMESPACE/selector/LABEL=VALUE")
    base = [*kubectl, "-n", namespace]
    owner, pods = _pods(base, kind.lower(), wanted)
    said = [Said(path="pods/pods.json", data=_listed(pods))]
    if owner:
        said.append(Said(path=f"pods/{member(kind.lower())}.json", data=json.dumps(owner, indent=1).encode() + b"\n"))
    events, fault = answer_of([*base, "get", "events", "-o", "json"], ASK)
    said.append(Said(path="events/events.json", data=_of_pods(events, pods, wanted), fault=fault))
    said += _described([*kubectl], pods) + _logs(base, pods)
    starts = [_time(pod["status"].get("startTime")) for pod in pods if isinstance(pod.get("status"), dict)]
    return Job(
        scheduler="k8s", id=f"{namespace}/{kind}/{wanted}", name=wanted, nodes=tuple(_running(pods)), said=tuple(said),
        start=min((one for one in starts if one), default=None), running=True, state=_phase(pods),
        machines=tuple(sorted({str(pod["spec"]["nodeName"]) for pod in pods if pod.get("spec", {}).get("nodeName")})),
    )  # fmt: skip


def _json(command: Sequence[str]) -> tuple[dict[str, Any], str | None]:
    data, fault = answer_of(command, ASK)
    try:
        found = json.loads(data) if not fault else {}
    except ValueError:
        return {}, "kubectl's answer is no JSON"
    return (found if isinstance(found, dict) else {}), fault


def _pods(base: list[str], kind: str, wanted: str) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    if kind in ("selector", "-l"):
        found, fault = _json([*base, "get", "pods", "-l", wanted, "-o", "json"])
        owner = None
    else:
        owner, fault = _json([*base, "get", kind, wanted, "-o", "json"])
        if fault:
            raise UsageError(f"kubectl: {fault}")
        if kind in ("pod", "pods", "po"):
            return None, [owner]
        found, fault = _json([*base, "get", "pods", "-o", "json"])
    if fault:
        raise UsageError(f"kubectl: {fault}")
    items = [pod for pod in found.get("items", []) if isinstance(pod, dict)]
    pods = items if owner is None else _owned(base, owner, wanted, items)
    if not pods:
        raise UsageError(f"{wanted}: no pods; kubectl get pods shows what is there")
    return owner, sorted(pods, key=_name)


def _owned(base: list[str], owner: dict[str, Any], wanted: str, pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pods below an object: by owner references over at most one level between, else by label."""
    uids = {_meta(owner).get("uid")}
    between, _ = _json([*base, "get", "jobs,statefulsets,replicasets", "-o", "json"])
    uids |= {_meta(one).get("uid") for one in between.get("items", []) if _owners(one) & uids}
    owned = [pod for pod in pods if _owners(pod) & uids]
    return owned or [pod for pod in pods if any(_meta(pod).get("labels", {}).get(key) == wanted for key in LABELS)]


def _meta(item: dict[str, Any]) -> dict[str, Any]:
    found = item.get("metadata")
    return found if isinstance(found, dict) else {}


def _name(item: dict[str, Any]) -> str:
    return str(_meta(item).get("name"))


def _owners(item: dict[str, Any]) -> set[Any]:
    return {one.get("uid") for one in _meta(item).get("ownerReferences", []) if isinstance(one, dict)}


def _listed(items: list[dict[str, Any]]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1).encode() + b"\n"


def _of_pods(events: bytes, pods: list[dict[str, Any]], wanted: str) -> bytes:
    """Events of these pods, their owners and their nodes; other people's are left out."""
    try:
        items = json.loads(events)["items"]
    except (ValueError, KeyError, TypeError):
        return b""
    names = {_name(pod) for pod in pods} | {str(pod.get("spec", {}).get("nodeName")) for pod in pods}
    mine = [
        one for one in items
        if (subject := str(one.get("involvedObject", {}).get("name"))) in names or subject.startswith(wanted)
    ]  # fmt: skip
    return _listed(mine)


def _described(kubectl: list[str], pods: list[dict[str, Any]]) -> list[Said]:
    """The nodes of the pods, where one may read them."""
    names = sorted({str(pod["spec"]["nodeName"]) for pod in pods if pod.get("spec", {}).get("nodeName")})
    if not names:
        return []
    data, fault = answer_of([*kubectl, "get", "nodes", *names[:500], "-o", "json"], ASK)
    return [Said(path="pods/nodes.json", data=data, fault=fault)]


def _logs(base: list[str], pods: list[dict[str, Any]]) -> list[Said]:
    """Logs of every container, and of the one before where it was restarted."""
    wanted = []
    for pod in pods:
        for status in _containers(pod):
            wanted.append((_name(pod), str(status.get("name")), False))
            if status.get("restartCount"):
                wanted.append((_name(pod), str(status.get("name")), True))
    with ThreadPoolExecutor(CALLS) as pool:
        return list(pool.map(lambda one: _log(base, *one), wanted))


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    status = pod.get("status", {})
    found = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return [
        one
        for one in found
        if isinstance(one, dict) and (one.get("restartCount") or not one.get("state", {}).get("waiting"))
    ]


def _log(base: list[str], pod: str, container: str, previous: bool) -> Said:
    command = [*base, "logs", pod, "-c", container, "--timestamps", f"--limit-bytes={LOG}", "--tail=200000"]
    data, fault = answer_of([*command, "--previous"] if previous else command, ASK, LOG)
    ending = ".previous" if previous else ""
    return Said(path=f"stdout/{member(pod)}/{member(container)}{ending}.log", data=data, fault=fault)


def _running(pods: list[dict[str, Any]]) -> list[str]:
    return [_name(pod) for pod in pods if pod.get("status", {}).get("phase") == "Running"]


def _phase(pods: list[dict[str, Any]]) -> str | None:
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
