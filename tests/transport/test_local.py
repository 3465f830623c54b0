"""This machine: options, exit codes, interrupts, secrets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bundle.secrets import BLOCKS, made, planted
from transport.collected import HANGING, QUICK, Bundle, collect, explained, fault


def test_nothing_that_was_planted_leaves(tmp_path: Path) -> None:
    secrets = planted()
    (tmp_path / "train.log").write_text("\n".join(line for line, _ in secrets.values()) + "\nstep 12 loss 2.5\n")
    (tmp_path / "pod.yaml").write_text("\n".join(text.format(*PARTS) for text in BLOCKS.values()))
    names = {"WANDB_API_KEY": PARTS[0], "SERVICE_PASSWORD": PARTS[1], "NCCL_DEBUG": "INFO", "RANK": "3"}
    environment = dict(os.environ, MASTER_ADDR="node001", **names)
    rank = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "--token", PARTS[2]], env=environment)
    try:
        code, out, _ = collect(tmp_path, "--only", f"{QUICK},processes,environment", "--include", f"{tmp_path}/*.[ly]*")
    finally:
        rank.kill()
        rank.wait()
    assert code == 0, out
    bundle = Bundle(tmp_path / "b.tar.zst")
    everything = b"\n".join(bundle.files.values()) + json.dumps(bundle.manifest).encode()
    assert not [name for name, (_, secret) in secrets.items() if secret.encode() in everything]
    assert not [part for part in PARTS if part.encode() in everything]
    assert any(b"step 12 loss 2.5" in data for data in bundle.files.values())
    assert any("environment/rank3" in path and b"NCCL_DEBUG=INFO" in data for path, data in bundle.files.items())
    assert b"SERVICE_PASSWORD" not in everything
    assert (tmp_path / "b.tar.zst.key.json").stat().st_mode & 0o777 == 0o600


PARTS = [made("MII", 64), made("b", 64), made("cD3", 20)]


def test_share_hides_this_machine(tmp_path: Path) -> None:
    host = os.uname().nodename.split(".")[0]
    code, _, _ = collect(tmp_path, "--only", QUICK, "--share")
    assert code == 0
    bundle = Bundle(tmp_path / "b.tar.zst")
    assert host not in json.dumps(bundle.manifest["nodes"])
    assert all(path.startswith("nodes/host-") for path in bundle.files)
    assert host in json.loads((tmp_path / "b.tar.zst.key.json").read_text())["names"].values()


def test_the_key_beside_a_bundle_shows_names_on_the_screen(tmp_path: Path) -> None:
    host = os.uname().nodename.split(".")[0]
    (tmp_path / "kern.log").write_text(fault())
    collect(tmp_path, "--only", "job_logs", "--include", str(tmp_path / "kern.log"), "--share")
    command = [sys.executable, "-m", "triage", "explain", "b.tar.zst", "--no-history"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    (tmp_path / "b.tar.zst.key.json").unlink()
    hidden = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert f"Culprit   {host}" in told
    assert "Culprit   host-" in hidden


def test_dry_run_and_mistakes(tmp_path: Path) -> None:
    code, out, _ = collect(tmp_path, "--dry-run", "--include", "/var/log/x-{node}.log")
    assert code == 0
    assert "collectors: cgroup" in out
    assert "file on each node: /var/log/x-{node}.log" in out
    for arguments, message in (
        (("--only", "kernel_lag"), "did you mean kernel_log"),
        (("--timeout", "soon"), "no duration"),
        (("--since", "yesterday"), "no time"),
        (("--job", "k8s:x"), "NAMESPACE/KIND/NAME"),
        (("--nodelist", "a[b-c]"), "ranges of hosts"),
    ):
        code, _, errors = collect(tmp_path, *arguments)
        assert (code, message in errors) == (2, True), errors
    assert collect(tmp_path, output="x.zip")[0] == 2
    (tmp_path / "b.tar.zst").write_text("mine")
    assert collect(tmp_path)[0] == 2


def test_explain_names_what_was_collected(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(fault())
    code, out, _ = collect(tmp_path, "--only", "job_logs", "--include", str(tmp_path / "kern.log"), "--format", "json")
    assert code == 0
    assert json.loads(out)["complete"] is True
    assert explained(tmp_path)["hypotheses"][0]["cause"] == "gpu/fallen-off-bus"


def test_a_missing_file_is_a_gap(tmp_path: Path) -> None:
    collect(tmp_path, "--only", "job_logs", "--include", "/no/such/file")
    assert [(gap.what, gap.why) for gap in Bundle(tmp_path / "b.tar.zst").gaps] == [("job_logs", "absent")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_has_come(tmp_path: Path, number: signal.Signals) -> None:
    own = tmp_path / "content" / "collectors"
    own.mkdir(parents=True)
    host = os.uname().nodename.split(".")[0]
    (own / "site_hangs.py").write_text(HANGING.format(node=host))
    command = [sys.executable, "-m", "triage", "collect", "-o", "b.tar.gz", "--only", "proc_stat,limits,site_hangs"]
    (tmp_path / "tmp").mkdir()
    environment = dict(os.environ, TRIAGE_CONTENT=str(tmp_path / "content"), TMPDIR=str(tmp_path / "tmp"))
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    waited = time.monotonic() + 20
    while not list(tmp_path.glob("b.tar.gz.partial/nodes/*/proc_stat/stat.txt")) and time.monotonic() < waited:
        time.sleep(0.05)
    process.send_signal(number)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, b"")
    assert b"interrupted" in out
    bundle = Bundle(tmp_path / "b.tar.gz")
    assert any(path.endswith("proc_stat/stat.txt") for path in bundle.files)
    assert bundle.manifest["complete"] is False
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("delay", [0.3, 0.8, 1.3, 1.8])
def test_killed_at_any_moment(tmp_path: Path, delay: float) -> None:
    command = [sys.executable, "-m", "triage", "collect", "-o", "b.tar.gz", "--only", QUICK]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True)
    time.sleep(delay)
    process.kill()
    process.wait()
    places = [path for path in (tmp_path / "b.tar.gz", tmp_path / "b.tar.gz.partial") if path.exists()]
    for path in places:
        if path.is_file() or (path / "manifest.json").exists():
            assert Bundle(path).manifest["schema"] == "triage.bundle/1"
