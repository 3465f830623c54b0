"""Every fault that a playbook can have is told, at its line, with the nearest name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from making import signature

from triage.model.signature import Signature
from triage.reasoning import lint, lint_names

SIGNATURES = [
    signature("gpu/xid-79"),
    signature("torch/timeout", role="symptom", cause="collective/rank-stalled"),
    signature("memory/oom", cause="memory/gpu-capacity"),
]
CATALOGUE: dict[str, Signature] = {each.id: each for each in SIGNATURES}
Change = Callable[[dict[str, Any]], Any]


def good() -> dict[str, Any]:
    """A small playbook without a fault: a question of every kind, a leaf with a cause, and hand-overs."""
    leaf = {
        "cause": "gpu/fallen-off-bus",
        "support": "strong",
        "culprits": {"from": "gpu/xid-79"},
        "explains": ["torch/timeout"],
        "actions": [{"do": "Drain the node", "risk": "disruptive"}],
        "next_check": {"command": "lspci", "tells": "whether the card is there"},
        "if_not_this": ["pcie/aer-errors"],
    }
    other = {"title": "Something else", "if_not_this": ["gpu/slow", "small"]}
    return {
        "id": "small",
        "title": "A small one",
        "start_when": {"any": ["torch/timeout"]},
        "look_first": "at the kernel log",
        "nodes": {
            "seen": _node({"kind": "signal", "any": ["gpu/xid-79"]}, {"leaf": "lost"}, {"node": "hung"}),
            "hung": _node(
                {"kind": "fact", "name": "hang.verdict", "value": "mismatch"}, {"leaf": "other"}, {"node": "first"}
            ),
            "first": _node(
                {"kind": "order", "first": {"role": "root-cause"}, "before": "hang_start", "within": "300s"},
                {"leaf": "other"},
                {"node": "all"},
            ),
            "all": _node({"kind": "spread", "of": "torch/timeout", "is": "all"}, {"leaf": "other"}, {"node": "asked"}),
            "asked": _node(
                {"kind": "operator", "text": "Is it warm?", "answers": {"warm": "yes", "cold": "no"}},
                {"leaf": "other"},
                {"leaf": "open"},
            ),
        },
        "leaves": {"lost": leaf, "other": other, "open": {"title": "Open", "if_not_this": ["small"]}},
        "examples": [
            {"leaf": "lost", "evidence": ["torch/timeout", "gpu/xid-79"]},
            {"leaf": "other", "evidence": ["torch/timeout", {"hang.verdict": "mismatch"}]},
            {"leaf": "other", "evidence": ["torch/timeout"], "answers": {"first": "yes"}},
            {"leaf": "other", "evidence": ["torch/timeout"], "answers": {"all": "yes"}},
            {"leaf": "open", "evidence": ["torch/timeout"], "answers": {"asked": "no"}},
        ],
    }


def _node(question: dict[str, Any], yes: dict[str, str], no: dict[str, str]) -> dict[str, Any]:
    return {"ask": "Is it so?", "how": "look", "question": question, "if_yes": yes, "if_no": no, "if_unknown": dict(no)}


def faults(tree: dict[str, Any], tmp_path: Path) -> list[str]:
    """What lint says, without the place; JSON is YAML."""
    path = tmp_path / "small.yaml"
    path.write_text(json.dumps(tree, indent=1))
    found = lint.lint(CATALOGUE, [path])
    assert all(fault.startswith(f"{path}:") and fault.split(":")[1].isdigit() for fault in found)
    return [fault.split(": ", 1)[1] for fault in found]


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint_names, "collectors", lambda: ["kernel_log", "job_logs"])
    monkeypatch.setattr(lint_names, "reproductions", lambda: ["dead-rank"])
    monkeypatch.setattr(lint.content, "files", lambda folder: [Path("playbooks/small.yaml")])


def test_the_good_one_has_no_fault(tmp_path: Path) -> None:
    assert faults(good(), tmp_path) == []


def put(*path: str | int, value: Any) -> Change:
    """A change that sets one value."""

    def change(tree: Any) -> None:
        for key in path[:-1]:
            tree = tree[key]
        tree[path[-1]] = value

    return change


def drop(*path: str | int) -> Change:
    """A change that takes one key away."""

    def change(tree: Any) -> None:
        for key in path[:-1]:
            tree = tree[key]
        del tree[path[-1]]

    return change


def drop_way(tree: Any) -> None:
    """Nothing leads to `hung` any more."""
    tree["nodes"]["seen"] |= {"if_no": {"node": "first"}, "if_unknown": {"node": "first"}}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (put("id", value="large"), "must be the file's name"),
        (put("nodes", value={}), "at least one node"),
        (drop("nodes", "seen", "if_unknown"), "missing required field `if_unknown`"),
        (put("nodes", "seen", "if_unknown", value={}), "exactly one node or leaf"),
        (put("nodes", "seen", "if_no", value={"node": "hunk"}), "no node 'hunk' (did you mean hung?)"),
        (put("nodes", "seen", "if_yes", value={"leaf": "last"}), "no leaf 'last' (did you mean lost?)"),
        (drop_way, "nothing leads here"),
        (put("leaves", "extra", value={"title": "x", "if_not_this": ["small"]}), "nothing leads here"),
        (
            put("nodes", "asked", "if_no", value={"node": "hung"}),
            "a loop: seen -> hung -> first -> all -> asked -> hung",
        ),
        (put("start_when", value={}), "needs either any or all"),
        (put("start_when", value={"any": ["torch/timeouts"]}), "did you mean torch/timeout?"),
        (put("start_when", value={"any": [{"name": "hang.verdikt", "value": "x"}]}), "no fact 'hang.verdikt'"),
        (put("nodes", "seen", "question", "any", value=["gpu/xid-80"]), "did you mean gpu/xid-79?"),
        (put("nodes", "seen", "question", "all", value=["gpu/xid-79"]), "needs either any or all"),
        (put("nodes", "seen", "question", "scope", value="same-node"), "nothing answers by scope yet"),
        (put("nodes", "first", "question", "scope", value="same-job"), "nothing answers by scope yet"),
        (put("nodes", "seen", "question", "any", value=["torch/timeout"]), "proves nothing alone"),
        (put("nodes", "hung", "question", "name", value="hang.verdikt"), "no fact 'hang.verdikt'"),
        (put("nodes", "hung", "question", "op", value="gt"), "gt needs a number"),
        (drop("nodes", "hung", "question", "value"), "eq needs a value"),
        (put("nodes", "hung", "question", "op", value="is"), "Invalid enum value 'is'"),
        (put("nodes", "first", "question", "first", value={}), "selects everything"),
        (put("nodes", "first", "question", "first", value={"layer": "gpus"}), "did you mean gpu?"),
        (put("nodes", "first", "question", "first", value={"cause": "gpu/slo"}), "did you mean gpu/slow?"),
        (put("nodes", "first", "question", "before", value="hang-start"), "did you mean hang_start?"),
        (put("nodes", "first", "question", "within", value="soon"), "no duration"),
        (put("nodes", "all", "question", "of", value="torch/time"), "did you mean torch/timeout?"),
        (put("nodes", "all", "question", "is", value="most"), "Invalid enum value 'most'"),
        (put("nodes", "asked", "question", "answers", "tepid", value="perhaps"), "no answer 'perhaps'"),
        (put("nodes", "asked", "question", "answers", value={"warm": "yes"}), "must mean yes and some no"),
        (drop("nodes", "asked", "how"), "needs `how`"),
        (put("nodes", "seen", "ask", value="It is so"), "ends with a question mark"),
        (put("nodes", "seen", "if_unknown", "collect", value=["kernel_log"]), "go together"),
        (
            put("nodes", "seen", "if_unknown", value={"collect": ["kernel-log"], "why": "x", "node": "hung"}),
            "did you mean kernel_log?",
        ),
        (put("leaves", "lost", "cause", value="gpu/fallen-of-bus"), "did you mean gpu/fallen-off-bus?"),
        (put("leaves", "lost", "repro", value="dead-rang"), "did you mean dead-rank?"),
        (put("leaves", "lost", "explains", value=["torch/time-out"]), "did you mean torch/timeout?"),
        (put("leaves", "lost", "explains", value=["memory/oom"]), "root cause of its own (memory/gpu-capacity)"),
        (put("leaves", "lost", "culprits", value={"from": "hang.suspects"}), "neither a fact nor a signature"),
        (put("leaves", "lost", "culprits", value={"rank": "hang.culprit"}), "the keys are `from`"),
        (put("leaves", "lost", "if_not_this", value=["pcie/aer"]), "no cause or playbook 'pcie/aer'"),
        (put("leaves", "lost", "if_not_this", value=["gpu/fallen-off-bus"]), "this leaf's own cause"),
        (put("leaves", "lost", "actions", value=[]), "needs actions, next_check and if_not_this"),
        (put("leaves", "lost", "support", value="certain"), "Invalid enum value 'certain'"),
        (drop("leaves", "open", "title"), "needs a title and if_not_this"),
        (put("leaves", "open", "explains", value=["torch/timeout"]), "a leaf without a cause names no culprits"),
        (put("nodes", "asked", "if_unknown", value={"leaf": "lost"}), "the way of all unknown answers ends here"),
        (put("examples", 0, "leaf", value="other"), "ends at lost (seen: yes), not at other"),
        (put("examples", 0, "leaf", value="losd"), "did you mean lost?"),
        (put("examples", 0, "evidence", value=["gpu/xid-79"]), "does not start the playbook"),
        (put("examples", 0, "evidence", value=["torch/timeout", "gpu/xid-78"]), "did you mean gpu/xid-79?"),
        (put("examples", 1, "evidence", value=["torch/timeout", {"hang.werdict": "x"}]), "no fact 'hang.werdict'"),
        (put("examples", 2, "answers", value={"firsd": "yes"}), "did you mean first?"),
        (put("examples", 0, "answers", value={"asked": "yes"}), "asked is not asked on the way"),
        (put("examples", 2, "answers", value={"first": "maybe"}), "no answer 'maybe'"),
        (drop("examples", 4), "no example reaches it"),
        (put("colour", value="red"), "unknown field `colour`"),
    ],
)
def test_a_fault_is_told(change: Change, told: str, tmp_path: Path) -> None:
    tree = good()
    change(tree)
    found = faults(tree, tmp_path)
    assert any(told in fault for fault in found), found


def test_a_tree_that_is_far_too_large_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint, "PATHS", 3)
    assert any("more than 3 paths" in fault for fault in faults(good(), tmp_path))


def test_all_faults_of_a_file_at_once(tmp_path: Path) -> None:
    tree = good()
    tree["leaves"]["lost"]["cause"] = "gpu/nothing"
    tree["nodes"]["seen"]["question"]["any"] = ["gpu/xid-80"]
    del tree["examples"][4]
    assert len(faults(tree, tmp_path)) >= 3
