"""Kubernetes objects, descriptions, tables and kubelet lines."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from triage.model.bundle import Document, File, Window
from triage.model.event import Event, Fact, Stamp
from triage.parsers import kubernetes

FIXTURES = Path(__file__).parents[2] / "fixtures" / "parsers" / "kubernetes"


def _refuse(_: bytes) -> Any:
    raise ValueError("no pickles here")


def facts(name: str, data: bytes | None = None) -> list[Fact]:
    content = data if data is not None else (FIXTURES / name).read_bytes()
    document = Document(file=File(path=name, size=len(content)), data=content, unpickle=_refuse)
    return list(kubernetes.facts(document))


def values(found: list[Fact], name: str) -> list[Any]:
    return [fact.value for fact in found if fact.name == name]


def on(found: list[Fact], name: str) -> list[tuple[Any, Any]]:
    return [(fact.entity.get("node"), fact.value) for fact in found if fact.name == name]


def event(line: str) -> Event:
    return kubernetes.parse(Window(file=File(path="kubelet.log", size=1), lines=(line,), numbers=(3,), hit=0))


OWN = [path.name for path in sorted(FIXTURES.iterdir()) if not path.name.startswith("foreign")]


@pytest.mark.parametrize("name", OWN)
def test_recognises_its_own(name: str) -> None:
    assert kubernetes.recognises((FIXTURES / name).read_bytes(), b"") == 2


@pytest.mark.parametrize("name", ["foreign-compose.yaml", "foreign-torch.txt"])
def test_refuses_foreign_text(name: str) -> None:
    assert kubernetes.recognises((FIXTURES / name).read_bytes(), b"") == 0
    assert facts(name) == []


def test_pods_as_json() -> None:
    found = facts("pods.json")
    assert on(found, "k8s.pod.reason") == [("node017", "OOMKilled"), ("node017", "Error"), ("node018", "Evicted")]
    assert on(found, "k8s.pod.exit") == [("node017", "OOMKilled 137"), ("node017", "Error 1")]
    assert on(found, "k8s.pod.disruption") == [("node018", "PreemptionByScheduler")]
    assert values(found, "k8s.pod.restarts") == [2]
    assert values(found, "k8s.pod.message")[0].startswith("The node was low on resource: ephemeral-storage.")


def test_facts_cite_the_line_that_shows_them() -> None:
    found = facts("pods.json")
    oom = next(fact for fact in found if fact.value == "OOMKilled")
    assert oom.text == '"reason": "OOMKilled"'
    assert oom.time == Stamp(seconds=1714730400.0, kind="utc")
    lines = (FIXTURES / "pods.json").read_text().splitlines()
    for fact in found:
        assert fact.where.line is not None and fact.text in lines[fact.where.line - 1]
    evicted = next(fact for fact in found if fact.value == "Evicted")
    assert evicted.text == '"reason": "Evicted"'


def test_objects_as_yaml() -> None:
    found = facts("pod.yaml")
    assert on(found, "k8s.pod.reason") == [("node019", "ImagePullBackOff")]
    assert values(found, "k8s.pod.phase") == ["Pending"]
    node = facts("node.yaml")
    assert on(node, "k8s.node.ready") == [("node020", "Unknown")]
    assert on(node, "k8s.node.pressure") == [("node020", "DiskPressure")]
    assert values(node, "k8s.node.gpus_allocatable") == [7]
    assert values(node, "k8s.node.taints") == [["node.kubernetes.io/unreachable"]]
    assert values(facts("job.yaml"), "k8s.job.reason") == ["BackoffLimitExceeded"]


def test_events_as_json() -> None:
    found = facts("events.json")
    assert on(found, "k8s.event.reason") == [("node021", "NodeNotReady"), ("node022", "FailedMount")]
    mount = [fact for fact in found if fact.entity.get("node") == "node022"][-1]
    assert mount.where.line == 5
    assert mount.time == Stamp(seconds=1714730760.0, kind="utc")


def test_descriptions() -> None:
    found = facts("describe-pod.txt")
    assert on(found, "k8s.pod.reason") == [("node017", "CrashLoopBackOff"), ("node017", "OOMKilled")]
    assert values(found, "k8s.pod.exit") == ["OOMKilled 137"]
    assert values(found, "k8s.pod.restarts") == [3]
    assert values(found, "k8s.pod.phase") == ["Failed"]
    assert values(found, "k8s.event.reason") == ["Scheduled", "BackOff"]
    node = facts("describe-node.txt")
    assert on(node, "k8s.node.ready") == [("node020", "Unknown")]
    assert on(node, "k8s.node.pressure") == [("node020", "DiskPressure")]


def test_tables() -> None:
    events = facts("get-events.txt")
    reasons = [(None, "Scheduled"), (None, "FailedScheduling"), ("node021", "NodeNotReady")]
    assert on(events, "k8s.event.reason") == reasons
    assert values(events, "k8s.event.message")[1] == "0/12 nodes are available: 12 Insufficient nvidia.com/gpu."
    pods = facts("get-pods.txt")
    assert on(pods, "k8s.pod.reason") == [("node017", "OOMKilled")]
    assert values(pods, "k8s.pod.phase") == ["Running", "Pending"]
    assert values(pods, "k8s.pod.restarts") == [0, 3, 0]
    assert on(facts("get-nodes.txt"), "k8s.node.ready") == [("node016", "True"), ("node021", "False")]


def test_kubelet_lines() -> None:
    lines = (FIXTURES / "kubelet.log").read_text().splitlines()
    plain, journal = event(lines[1]), event(lines[2])
    assert plain.text.startswith('"Error syncing pod, skipping" err=')
    assert plain.time is not None and plain.time.kind == "yearless"
    assert journal.text.startswith('"Eviction manager: attempting to reclaim"')
    structured = (FIXTURES / "kubelet.jsonl").read_text().splitlines()[1]
    assert event(structured).node == "node017"
    assert event(structured).text == structured


def test_a_list_may_leave_out_the_kind_of_its_items() -> None:
    item = b'{"metadata": {"name": "a"}, "status": {"phase": "Failed"}}'
    data = b'{"kind": "PodList", "apiVersion": "v1", "items": [' + item + b"]}"
    assert values(facts("x", data), "k8s.pod.phase") == ["Failed"]


def test_aliases_depth_and_size_are_refused() -> None:
    head = b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nstatus:\n  phase: Failed\n"
    assert values(facts("x", head), "k8s.pod.phase") == ["Failed"]
    assert facts("x", head + b"a: &a [x, x]\nb: &b [*a, *a]\n") == []
    assert facts("x", head + b"a: " + b"[" * 900 + b"]" * 900 + b"\n") == []
    assert facts("x", head + b"#" * kubernetes.YAML_LIMIT) == []


@pytest.mark.parametrize(
    "data",
    [
        b'{"apiVersion": "v1", "kind": "Pod", "status": 3}',
        b'{"apiVersion": "v1", "kind": "Pod", "status": {"containerStatuses": [null, {"state": {"terminated": []}}]}}',
        b'{"apiVersion": "v1", "kind": "Pod"',
        b'{"apiVersion": "v1", "kind": "Pod", "a": ' + b"[" * 100_000,
        b"apiVersion: v1\nkind: Pod\nstatus: {\n",
        b"apiVersion: v1\nkind: Pod\n\xff\xfe: 1\n",
        b"NAME   READY   STATUS   RESTARTS\nx\n",
    ],
)
def test_broken_objects_give_nothing_of_note(data: bytes) -> None:
    assert values(facts("x", data), "k8s.pod.exit_code") == []


def test_many_objects_stay_quick() -> None:
    item = b'{"kind":"Pod","metadata":{"name":"p%d"},"status":{"phase":"Failed","reason":"Evicted"}}'
    data = b'{"apiVersion": "v1", "kind": "List", "items": [' + b",\n".join(item % n for n in range(1500)) + b"]}"
    begin = time.monotonic()
    assert len(values(facts("x", data), "k8s.pod.reason")) == 1500
    assert time.monotonic() - begin < 20


def test_pods_that_came_to_their_end_are_well() -> None:
    (kind, pattern), *others = kubernetes.MARKS
    assert kind == "well" and not others
    assert re.search(pattern, "train-worker-0       0/1     Completed   0          3h")
    assert not re.search(pattern, "train-worker-0       1/1     Running   0          3h")
    assert not re.search(pattern, "train-worker-0       0/1     Error       0          3h")
