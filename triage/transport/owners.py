"""Which pods belong to an object of Kubernetes, whatever operator lies between: owners are climbed from the pods.

Nothing is known of operators beforehand: the kinds that pods name as their owners are listed, then the kinds that those
name, and so on. A LeaderWorkerSet, for one, owns a set, that a pod, that another set, and that the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

LEVELS = 6  # between an object and its pods; a training job of an operator of operators has three
KINDS = 20  # listed at most, each with one question
# Labels by which controllers mark the pods of a job; used when owner references may not be read.
LABELS = (
    "job-name", "batch.kubernetes.io/job-name", "training.kubeflow.org/job-name", "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name", "ray.io/cluster", "volcano.sh/job-name", "trainer.kubeflow.org/trainjob-name",
    "app.kubernetes.io/name", "app",
)  # fmt: skip
Tree = dict[str, Any]


def meta(item: Tree) -> Tree:
    """Its metadata, {} when there is none."""
    found = item.get("metadata")
    return found if isinstance(found, dict) else {}


def name_of(item: Tree) -> str:
    """Its name."""
    return str(meta(item).get("name"))


def uid_of(item: Tree) -> str:
    """Its identity, which no later object of the same name shares; "" when there is none."""
    return str(meta(item).get("uid") or "")


def above(pods: list[Tree], listed: Callable[[str], list[Tree]]) -> dict[str, Tree]:
    """Everything that pods and their owners name as owners, by identity.

    listed: from a kind as kubectl takes it (`Job.v1.batch`) to its objects, [] when one may not read them.
    """
    known = {uid_of(pod): pod for pod in pods}
    found = dict(known)
    asked: set[str] = {"Pod", "Node"}
    for _ in range(LEVELS):
        kinds = {kind for item in found.values() for kind, uid in _references(item) if uid not in found} - asked
        for kind in sorted(kinds)[: KINDS - len(asked)]:
            found |= {uid_of(item): item for item in listed(kind)}
        asked |= kinds
        if not kinds:
            break
    return {uid: item for uid, item in found.items() if uid not in known}


def below(owner: Tree, pods: list[Tree], between: dict[str, Tree]) -> list[Tree]:
    """The pods that lie below an object: by owner references, or by label where these lead nowhere."""
    ours = {uid_of(owner)} - {""}
    candidates = [*between.values(), *pods]
    for _ in range(LEVELS):
        ours |= {uid_of(item) for item in candidates if {uid for _, uid in _references(item)} & ours}
    return [pod for pod in pods if uid_of(pod) in ours] or [
        pod for pod in pods if any((meta(pod).get("labels") or {}).get(key) == name_of(owner) for key in LABELS)
    ]


def lineage(items: Iterable[Tree], between: dict[str, Tree]) -> list[Tree]:
    """The objects above these, without them, in an order of their own."""
    found: dict[str, Tree] = {}
    todo = list(items)
    while todo:
        fresh = {uid for item in todo for _, uid in _references(item) if uid in between and uid not in found}
        todo = [between[uid] for uid in sorted(fresh)]
        found |= {uid_of(item): item for item in todo}
    return sorted(found.values(), key=lambda item: (str(item.get("kind")), name_of(item)))


def _references(item: Tree) -> list[tuple[str, str]]:
    """Owners: kind as kubectl takes it, and identity."""
    found = [one for one in meta(item).get("ownerReferences") or [] if isinstance(one, dict)]
    return [(_kind(one), str(one["uid"])) for one in found if one.get("uid")]


def _kind(reference: Tree) -> str:
    group, slash, version = str(reference.get("apiVersion")).rpartition("/")
    return f"{reference.get('kind')}.{version}.{group}" if slash else str(reference.get("kind"))
