#!/usr/bin/env python3
"""A made-up kubectl: answers the questions that collecting asks from a few objects, and runs `exec` on this machine.

It is no record of a real server; it pins down which commands are asked and what is done with the answers.
"""

import json
import subprocess
import sys


def pod(name, uid, owner, phase="Running", restarts=0, node="node017", env=()):
    """A pod of one container."""
    state = {"running": {}} if phase == "Running" else {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    status = {"name": "trainer", "restartCount": restarts, "state": state}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "train", "uid": uid, "ownerReferences": [{"uid": owner}]},
        "spec": {"nodeName": node, "containers": [{"name": "trainer", "env": list(env)}]},
        "status": {"phase": phase, "startTime": "2026-11-30T15:00:00Z", "containerStatuses": [status]},
    }  # fmt: skip


SECRET = {"name": "WANDB_API_KEY", "value": "0123456789abcdef0123456789abcdef01234567"}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "llama", "uid": "job-1"}, "spec": {}}
PODS = [
    pod("llama-0", "p0", "job-1", restarts=1, env=[SECRET]),
    pod("llama-1", "p1", "job-1", phase="Failed", node="node018"),
    pod("other-0", "p2", "job-2"),
]
EVENTS = [
    {"involvedObject": {"name": "llama-1"}, "reason": "OOMKilling", "message": "Memory cgroup out of memory"},
    {"involvedObject": {"name": "other-0"}, "reason": "Scheduled", "message": "not ours"},
]
LOGS = {
    ("llama-0", False): "2026-11-30T15:01:00Z step 1 loss 2.5\n2026-11-30T15:01:01Z HF_TOKEN="
    + "hf"
    + "_"
    + "a1B2" * 9
    + "\n",
    ("llama-0", True): "2026-11-30T15:00:10Z torch.OutOfMemoryError: CUDA out of memory.\n",
    ("llama-1", False): "2026-11-30T15:01:00Z step 1 loss 2.5\n",
}


def answer(words):
    """Standard output of a question; exits as kubectl does when there is nothing or it is not allowed."""
    verb, rest = words[0], words[1:]
    if verb == "get" and rest[0] == "nodes":
        sys.exit('Error from server (Forbidden): nodes is forbidden: User "alice" cannot list resource "nodes"')
    if verb == "get":
        about_nodes = "involvedObject.kind=Node" in rest
        kinds = {"pods": PODS, "events": [] if about_nodes else EVENTS}
        if rest[0] in kinds:
            return json.dumps({"kind": "List", "items": kinds[rest[0]]})
        if rest[:2] == ["job", "llama"]:
            return json.dumps(JOB)
        sys.exit(f'Error from server (NotFound): {rest[0]} "{rest[1]}" not found')
    if verb == "logs":
        return LOGS[rest[0], "--previous" in rest]
    sys.exit(f"unknown: {words}")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    assert arguments[:1] == ["-n"] or arguments[:2] == ["get", "nodes"], arguments
    arguments = arguments[2:] if arguments[0] == "-n" else arguments
    if arguments[0] == "exec":
        sys.exit(subprocess.run(arguments[arguments.index("--") + 1 :], check=False).returncode)
    sys.stdout.write(answer(arguments))
