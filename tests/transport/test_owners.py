"""Who owns which pods: any chain of operators, rights that do not reach, references that lead in circles."""

from __future__ import annotations

from typing import Any

from triage.transport import owners


def item(name: str, kind: str, *above: dict[str, Any], **labels: str) -> dict[str, Any]:
    """An object, its identity made of its name."""
    references = [
        {"apiVersion": one["apiVersion"], "kind": one["kind"], "uid": one["metadata"]["uid"]} for one in above
    ]
    version = "v1" if kind == "Pod" else "example.com/v1"
    meta = {"name": name, "uid": f"uid-{kind}-{name}", "ownerReferences": references, "labels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": meta}


SET = item("serve", "LeaderWorkerSet")
LEADERS = item("serve", "StatefulSet", SET)
LEADER = item("serve-0", "Pod", LEADERS)
WORKERS = item("serve-0", "StatefulSet", LEADER)
WORKER = item("serve-0-1", "Pod", WORKERS)
OTHER = item("serve-x", "Pod", item("serve", "Deployment"), app="serve")
PODS = [LEADER, WORKER, OTHER]
SERVER = {
    "LeaderWorkerSet.v1.example.com": [SET, item("another", "LeaderWorkerSet")],
    "StatefulSet.v1.example.com": [LEADERS, WORKERS],
}


def test_a_chain_through_pods() -> None:
    asked: list[str] = []
    between = owners.above(PODS, lambda kind: asked.append(kind) or SERVER.get(kind, []))  # type: ignore[func-returns-value]
    assert sorted(asked) == [
        "Deployment.v1.example.com", "LeaderWorkerSet.v1.example.com", "StatefulSet.v1.example.com",
    ]  # fmt: skip
    assert owners.below(SET, PODS, between) == [LEADER, WORKER]
    assert owners.lineage([LEADER, WORKER], between) == [SET, LEADERS, WORKERS]


def test_labels_where_owners_may_not_be_read() -> None:
    marked = [item(f"serve-0-{number}", "Pod", WORKERS, **{owners.LABELS[4]: "serve"}) for number in (1, 2)]
    between = owners.above([*marked, OTHER], lambda kind: [])
    assert between == {}
    assert owners.below(SET, [*marked, item("b", "Pod")], between) == marked


def test_circles_end() -> None:
    first, second = item("a", "Job"), item("b", "Job")
    first["metadata"]["ownerReferences"] = item("x", "Pod", second)["metadata"]["ownerReferences"]
    second["metadata"]["ownerReferences"] = item("x", "Pod", first)["metadata"]["ownerReferences"]
    pod = item("p", "Pod", first)
    between = owners.above([pod], lambda kind: [first, second])
    assert owners.below(second, [pod], between) == [pod]
    assert owners.lineage([pod], between) == [first, second]


def test_no_more_questions_than_are_bearable() -> None:
    asked: list[str] = []
    pods = [item(f"p{number}", "Pod", item("o", f"Kind{number:02d}")) for number in range(100)]
    owners.above(pods, lambda kind: asked.append(kind) or [])  # type: ignore[func-returns-value]
    assert len(asked) <= owners.KINDS


def test_objects_without_metadata() -> None:
    odd: list[dict[str, Any]] = [{}, {"metadata": None}, {"metadata": {"ownerReferences": ["x", {"kind": "Job"}]}}]
    assert owners.above(odd, lambda kind: odd) == {}
    assert owners.below({}, odd, {}) == []
