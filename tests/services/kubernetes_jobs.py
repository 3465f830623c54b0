"""Training jobs for the real control plane: a plain Job, and those of three operators whose controllers are played.

Each operator's objects are made as it makes them: who owns whom, under which labels. Jobs and StatefulSets below them
are run by Kubernetes' own controllers.
"""

from __future__ import annotations

import time
from typing import Any

from services.kubernetes import Lab

OPERATORS = (
    ("PyTorchJob", "pytorchjobs", "kubeflow.org", "v1"),
    ("JobSet", "jobsets", "jobset.x-k8s.io", "v1alpha2"),
    ("LeaderWorkerSet", "leaderworkersets", "leaderworkerset.x-k8s.io", "v1"),
)
STEPS = 'for i in 1 2 3; do echo "step $i | loss 2.5 | rank ${RANK:-0}"; done'
WAIT = f"{STEPS}; exec sleep 600"
OUT_OF_MEMORY = r"""
echo 'Traceback (most recent call last):'
echo '  File "/workspace/train.py", line 88, in <module>'
echo '    loss = model(batch)'
echo -n 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of '
echo -n '79.10 GiB of which 3.10 GiB is free. Including non-PyTorch memory, this process has 75.99 GiB memory in use. '
echo -n 'Of the allocated memory 75.20 GiB is allocated by PyTorch, and 210.00 MiB is reserved by PyTorch but '
echo 'unallocated.'
exit 1
"""
AGAIN = f'if [ -e "$MARK" ]; then {WAIT}; fi; touch "$MARK"; sleep 1; {STEPS}; {OUT_OF_MEMORY}'
NO_MODULE = r"""
echo 'Traceback (most recent call last):'
echo '  File "/workspace/train.py", line 3, in <module>'
echo '    import flash_attn'
echo "ModuleNotFoundError: No module named 'flash_attn'"
exit 1
"""


def container(script: str, gpus: int = 1, **variables: str) -> dict[str, Any]:
    """A container that runs a shell script."""
    return {
        "name": "trainer", "image": "registry.example/train:1", "command": ["bash", "-c", script],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
    }  # fmt: skip


def template(labels: dict[str, str], restart: str, *containers: dict[str, Any]) -> dict[str, Any]:
    """A pod template."""
    spec = {"restartPolicy": restart, "terminationGracePeriodSeconds": 1, "containers": list(containers)}
    return {"metadata": {"labels": labels}, "spec": spec}


def pod(name: str, labels: dict[str, str], owner: dict[str, Any] | None, made: dict[str, Any]) -> dict[str, Any]:
    """A pod of its own, below an operator's object."""
    meta = {"name": name, "labels": labels} | ({"ownerReferences": [owner]} if owner else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"]}


def owned(lab: Lab, version: str, kind: str, name: str, resource: str) -> dict[str, Any]:
    """A reference to the owner."""
    uid = lab.uid(resource, name)
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def operators(lab: Lab) -> None:
    """Their kinds: any object is one of them."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    for kind, plural, group, version in OPERATORS:
        names = {"kind": kind, "plural": plural, "singular": kind.lower()}
        versions = [{"name": version, "served": True, "storage": True, "schema": schema}]
        lab.apply({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
        })  # fmt: skip
    for _, plural, group, _ in OPERATORS:
        lab.ask("wait", "--for=condition=Established", f"crd/{plural}.{group}", "--timeout=30s")


def plain(lab: Lab) -> None:
    """`eval`: the first of its two pods to come is killed at its memory limit, the other is well."""
    first = 'until [ -e "$MARK/other" ]; do sleep 0.2; done; sleep 2; kill -9 $$'
    script = f'{STEPS}; mkdir "$MARK" 2>/dev/null || {{ touch "$MARK/other"; exit 0; }}; {first}'
    made = template({"team": "blue"}, "Never", container(script, MARK=str(lab.folder / "killed")))
    spec = {"completions": 2, "parallelism": 2, "backoffLimit": 0, "template": made}
    lab.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "eval"}, "spec": spec})


def pytorchjob(lab: Lab) -> None:
    """`llama`: three pods; one ran out of GPU memory and was begun again."""
    status = {"conditions": [{"type": "Restarting", "status": "True", "reason": "PyTorchJobRestarting"}]}
    lab.apply({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "llama"}, "spec": {},
        "status": status,
    })  # fmt: skip
    owner = owned(lab, "kubeflow.org/v1", "PyTorchJob", "llama", "pytorchjob")
    for rank, (role, index) in enumerate((("master", 0), ("worker", 0), ("worker", 1))):
        labels = {"training.kubeflow.org/job-name": "llama", "training.kubeflow.org/replica-index": str(index)}
        variables = {"RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "llama-master-0"}
        variables["MARK"] = str(lab.folder / "restarted") if rank == 2 else ""
        made = template(labels, "OnFailure", container(AGAIN if rank == 2 else WAIT, **variables))
        lab.apply(pod(f"llama-{role}-{index}", labels, owner, made))


def jobset(lab: Lab) -> None:
    """`sweep`: a JobSet, the Job below it, its pods; a module is not installed."""
    lab.apply({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "sweep"}, "spec": {}})
    labels = {"jobset.sigs.k8s.io/jobset-name": "sweep", "jobset.sigs.k8s.io/job-index": "0"}
    owner = owned(lab, "jobset.x-k8s.io/v1alpha2", "JobSet", "sweep", "jobset")
    meta = {"name": "sweep-workers-0", "labels": labels, "ownerReferences": [owner]}
    made = template(labels, "Never", container(NO_MODULE))
    spec = {"completions": 2, "parallelism": 2, "backoffLimit": 0, "template": made}
    lab.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})


def leaderworkerset(lab: Lab) -> None:
    """`serve`: a StatefulSet of leaders, and below each leader's pod one of its workers."""
    group = "leaderworkerset.x-k8s.io/v1"
    lab.apply({"apiVersion": group, "kind": "LeaderWorkerSet", "metadata": {"name": "serve"}, "spec": {}})
    owner = owned(lab, group, "LeaderWorkerSet", "serve", "leaderworkerset")
    lab.apply(_set("serve", owner, "0", 1, 0))
    _until(lab, "serve-0", "Running")
    lab.apply(_set("serve-0", owned(lab, "v1", "Pod", "serve-0", "pod"), "1", 2, 1))


def _set(name: str, owner: dict[str, Any], role: str, count: int, first: int) -> dict[str, Any]:
    labels = {"leaderworkerset.sigs.k8s.io/name": "serve", "set": name}
    made = template(labels, "Always", container(WAIT, gpus=4, RANK=role))
    spec = {
        "replicas": count, "serviceName": "serve", "selector": {"matchLabels": {"set": name}}, "template": made,
        "podManagementPolicy": "Parallel",
    }  # fmt: skip
    meta = {"name": name, "ownerReferences": [owner], "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}


def waiting(lab: Lab) -> None:
    """`queue`: wants more GPUs than any node has."""
    labels = {"app": "queue"}
    lab.apply(pod("queue-0", labels, None, template(labels, "Never", container(WAIT, gpus=16))))


def submit(lab: Lab) -> None:
    """All of them, and wait until they stand as the tests want them."""
    operators(lab)
    for one in (waiting, plain, pytorchjob, jobset, leaderworkerset):
        one(lab)
    for name in ("llama-master-0", "llama-worker-0", "llama-worker-1", "serve-0", "serve-0-0", "serve-0-1"):
        _until(lab, name, "Running")
    for name in ("eval", "sweep-workers-0"):
        lab.ask("wait", "--for=condition=Failed", f"job/{name}", "--timeout=60s")
    _until(lab, "llama-worker-1", "1", "{.status.containerStatuses[0].restartCount}")


def _until(lab: Lab, name: str, state: str, path: str = "{.status.phase}") -> None:
    for _ in range(150):
        if lab.ask("get", "pod", name, "-o", f"jsonpath={path}", check=False) == state:
            return
        time.sleep(0.2)
    raise RuntimeError(f"pod {name}: not {state}: {lab.ask('describe', 'pod', name, check=False)}")
