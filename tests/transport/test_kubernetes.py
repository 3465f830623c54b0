"""Jobs of Kubernetes: pods by owner, logs before and after a restart, events of ours alone, collectors inside."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from transport.collected import QUICK, Bundle, collect

KUBECTL = f"{sys.executable} {Path(__file__).with_name('kubectl.py')}"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("k8s")
    code, out, errors = collect(
        folder, "--job", "k8s:train/job/llama", "--kubectl", KUBECTL, "--only", QUICK, "--timeout", "30"
    )
    assert code == 0, out + errors
    return Bundle(folder / "b.tar.zst")


def test_pods_logs_and_events(bundle: Bundle) -> None:
    assert {path for path in bundle.files if path.startswith("job/")} == {
        "job/events/events.json",
        "job/pods/job.json",
        "job/pods/pods.json",
        "job/stdout/llama-0/trainer.log",
        "job/stdout/llama-0/trainer.previous.log",
        "job/stdout/llama-1/trainer.log",
    }
    assert b"other-0" not in b"".join(bundle.files.values())
    assert b"CUDA out of memory" in bundle.files["job/stdout/llama-0/trainer.previous.log"]
    assert bundle.manifest["scheduler"]["state"] == "Failed,Running"


def test_secrets_of_pods_stay_there(bundle: Bundle) -> None:
    everything = b"".join(bundle.files.values())
    assert b"0123456789abcdef0123456789abcdef01234567" not in everything
    assert b"a1B2a1B2" not in everything
    assert b"HF_TOKEN=huggingface-token-" in everything


def test_collectors_run_in_running_pods(bundle: Bundle) -> None:
    assert {node for node, _ in bundle.rows if node} == {"llama-0"}
    assert "nodes/llama-0/proc_stat/stat.txt" in bundle.files


def test_what_one_may_not_read_is_a_gap(bundle: Bundle) -> None:
    assert "nodes is forbidden" in bundle.row(None, "pods")["denied"][0]
    assert [(gap.what, gap.why) for gap in bundle.gaps] == [("pods", "denied")]


@pytest.mark.parametrize(
    ("job", "message"),
    [("k8s:train/job/nothing", "not found"), ("k8s:train", "NAMESPACE/KIND/NAME"), ("k8s:train/pods,x/y", "not found")],
)
def test_mistakes(tmp_path: Path, job: str, message: str) -> None:
    code, _, errors = collect(tmp_path, "--job", job, "--kubectl", KUBECTL)
    assert (code, message in errors) == (2, True), errors
