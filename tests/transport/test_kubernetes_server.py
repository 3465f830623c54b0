"""Jobs of a real Kubernetes, collected and explained: as it answered when it was recorded, and live when asked for.

The recording is fixtures/kubernetes/recorded_from_server.json. TRIAGE_TEST_K8S=1 starts the server, which
tests/services/kubernetes.py describes, and runs the same tests on it; TRIAGE_RECORD_K8S=1 makes the recording anew.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from services import kubernetes as service
from services.kubectl_recording import exchanges
from services.kubernetes_jobs import submit
from transport.collected import Bundle

import triage
from triage.cli.collect import command

HERE = Path(__file__).resolve()
RECORDING = HERE.parents[2] / "fixtures" / "kubernetes" / "recorded_from_server.json"
REPLAYED = f"{sys.executable} -S {HERE.with_name('kubectl_recorded.py')} {RECORDING}"


class Expected(NamedTuple):
    """A job, its state, its pods, those that run, its logs, the cause that is found first, and what its files say."""

    job: str
    state: str
    pods: tuple[str, ...]
    running: tuple[str, ...]
    logs: tuple[str, ...]
    cause: str
    says: tuple[tuple[str, bytes], ...] = ()


JOBS = {
    "job": Expected(
        "job/eval", "Failed,Succeeded", ("eval-", "eval-"), (), ("eval-*/trainer.log", "eval-*/trainer.log"),
        "memory/host-limit",
        (("job/pods/pods.json", b'"reason": "OOMKilled"'), ("job/events/events.json", b"BackoffLimitExceeded")),
    ),
    "pytorchjob": Expected(
        "pytorchjob/llama", "Running", ("llama-master-0", "llama-worker-0", "llama-worker-1"),
        ("llama-master-0", "llama-worker-0", "llama-worker-1"),
        ("llama-master-0/trainer.log", "llama-worker-0/trainer.log", "llama-worker-1/trainer.log",
         "llama-worker-1/trainer.previous.log"),
        "memory/gpu-capacity",
        (("job/pods/pytorchjob.json", b"PyTorchJobRestarting"),
         ("job/stdout/llama-worker-1/trainer.previous.log", b"CUDA out of memory")),
    ),
    "jobset": Expected(
        "jobset/sweep", "Failed", ("sweep-workers-0-",), (), ("sweep-workers-0-*/trainer.log",),
        "software/version-mismatch",
        (("job/pods/owners.json", b"BackoffLimitExceeded"), ("job/events/events.json", b"SuccessfulDelete")),
    ),
    "leaderworkerset": Expected(
        "leaderworkerset/serve", "Running",
        ("serve-0", "serve-0-0", "serve-0-1"), ("serve-0", "serve-0-0", "serve-0-1"),
        ("serve-0/trainer.log", "serve-0-0/trainer.log", "serve-0-1/trainer.log"), "",
        (("job/pods/owners.json", b'"kind": "StatefulSet"'),),
    ),
    "selector": Expected(
        "selector/app=queue", "Pending", ("queue-0",), (), (), "scheduler/launch-failure",
        (("job/events/events.json", b"FailedScheduling"),),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[service.Lab]:
    records = tmp_path_factory.mktemp("kubernetes")
    with service.running(records / "lab") as found:
        submit(found)
        yield found
        if os.environ.get("TRIAGE_RECORD_K8S"):
            keep(found, sorted(records.glob("*.record")))


def keep(lab: service.Lab, records: list[Path]) -> None:
    """Write the recording."""
    hidden = {str(lab.folder): "/lab", str(lab.port): "6443", f"default-scheduler-{os.uname().nodename}": "scheduler"}
    versions = json.loads(lab.ask("version", "-o", "json"))
    about = {
        "about": "What kubectl printed when triage collect asked a real server (tests/services/kubernetes.py).",
        "server": versions["serverVersion"]["gitVersion"], "kubectl": versions["clientVersion"]["gitVersion"],
    }  # fmt: skip
    RECORDING.parent.mkdir(exist_ok=True)
    RECORDING.write_text(json.dumps(about | {"exchanges": exchanges(records, hidden)}, indent=1) + "\n")


WAYS = ["recorded"] if service.missing() else ["recorded", "live"]


@pytest.fixture(scope="module", params=[f"{way}-{name}" for way in WAYS for name in JOBS])
def collected(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Expected, Path]:
    """A bundle of a job, in its folder."""
    way, name = request.param.split("-")
    folder, kubectl = tmp_path_factory.mktemp(name), REPLAYED
    if way == "live":
        lab: service.Lab = request.getfixturevalue("lab")
        recording, record = HERE.parents[1] / "services" / "kubectl_recording.py", lab.folder.parent / f"{name}.record"
        kubectl = f"env KUBECONFIG={lab.folder}/kubeconfig {sys.executable} {recording} {record} {lab.kubectl}"
    words = ["--job", f"k8s:train/{JOBS[name].job}", "--kubectl", kubectl, "--only", "proc_stat", "--timeout", "60"]
    before = signal.getsignal(signal.SIGTERM)
    done = CliRunner().invoke(command, [*words, "-o", str(folder / "b.tar.zst")], standalone_mode=False)
    signal.signal(signal.SIGTERM, before)
    assert (done.exception, done.return_value) == (None, 0), done.output
    return JOBS[name], folder / "b.tar.zst"


@pytest.mark.skipif(service.missing() is not None, reason=str(service.missing()))
def test_a_real_server_is_asked_as_well() -> None:
    assert "live" in WAYS


def test_what_the_server_knows(collected: tuple[Expected, Path]) -> None:
    expected, path = collected
    bundle = Bundle(path)
    assert bundle.manifest["scheduler"]["state"] == expected.state
    names = sorted(item["metadata"]["name"] for item in json.loads(bundle.files["job/pods/pods.json"])["items"])
    assert len(names) == len(expected.pods)
    assert all(name.startswith(start) for name, start in zip(names, expected.pods, strict=True))
    logs = [name.removeprefix("job/stdout/") for name in bundle.files if name.startswith("job/stdout/")]
    assert len(logs) == len(expected.logs)
    assert all(any(Path(log).match(pattern) for pattern in expected.logs) for log in logs)
    for name, words in expected.says:
        assert words in bundle.files[name], name
    assert not [row for row in bundle.manifest["ledger"] if row.keys() & {"failed", "denied", "timed_out"}]


def test_others_of_the_namespace_stay_out(collected: tuple[Expected, Path]) -> None:
    expected, path = collected
    events = json.loads(Bundle(path).files["job/events/events.json"])["items"]
    names = {event["involvedObject"]["name"] for event in events}
    name = expected.job.split("/")[1].removeprefix("app=")
    assert names
    assert all(one == name or one.startswith(f"{name}-") for one in names)


def test_collectors_ran_in_the_pods_that_run(collected: tuple[Expected, Path]) -> None:
    expected, path = collected
    bundle = Bundle(path)
    assert {node for node, _ in bundle.rows if node} == set(expected.running)
    for pod in expected.running:
        assert f"nodes/{pod}/proc_stat/stat.txt" in bundle.files


def test_it_is_explained(collected: tuple[Expected, Path]) -> None:
    expected, path = collected
    hypotheses = triage.explain(str(path)).hypotheses
    assert (hypotheses[0].cause if hypotheses else "") == expected.cause


def test_what_the_server_does_not_know() -> None:
    """Through the recording: the words of kubectl reach the user."""
    words = ["--job", "k8s:train/job/other", "--kubectl", REPLAYED, "--dry-run"]
    done = CliRunner().invoke(command, words, standalone_mode=False)
    assert str(done.exception) == "kubectl: error: never asked of the server: -n train get job other -o json"
