"""Jobs of Kubernetes: pods by owner, logs before and after a restart, events of ours alone, collectors inside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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


SLOW = """\
#!/bin/sh
case "$*" in
  *{verb}*) echo $$ > {sign}; exec sleep 61 ;;
esac
exec {kubectl} "$@"
"""


def gone(pid: int) -> bool:
    """Has a process ended, within a little time? One that nobody has waited for yet has."""
    until = time.monotonic() + 3
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(("verb", "kept"), [("logs", True), ("events", False)])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_kubectl_is_slow(tmp_path: Path, verb: str, kept: bool, number: signal.Signals) -> None:
    kubectl, sign = tmp_path / "kubectl", tmp_path / "sign"
    kubectl.write_text(SLOW.format(verb=verb, sign=sign, kubectl=KUBECTL))
    kubectl.chmod(0o755)
    command = [sys.executable, "-m", "triage", "collect", "--job", "k8s:train/job/llama", "--kubectl", str(kubectl)]
    process = subprocess.Popen(
        [*command, "-o", "b.tar.gz"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    waited = time.monotonic() + 20
    while not (sign.exists() and sign.read_text().strip()) and time.monotonic() < waited:
        time.sleep(0.05)
    started = time.monotonic()
    process.send_signal(number)
    out, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert time.monotonic() - started < 30  # not the 61 s that kubectl sleeps
    assert gone(int(sign.read_text()))
    if kept:
        assert Bundle(tmp_path / "b.tar.gz").manifest["complete"] is False
        assert b"interrupted" in out
    else:
        assert errors.strip() == b"triage: interrupted"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["kubectl", "sign"]
