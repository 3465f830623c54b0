"""The command on files: recordings, logs, bundles, traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.compare.making import noisy, recording
from triage.cli.compare import command
from triage.errors import UsageError


def said(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(command, [str(word) for word in words], standalone_mode=False)
    if result.exception:
        raise result.exception
    return int(result.return_value or 0), result.stdout


def told(*words: object) -> tuple[int, dict[str, Any]]:
    code, text = said(*words, "--format", "json")
    return code, json.loads(text)


def test_recordings_and_exit_codes(tmp_path: Path) -> None:
    before = recording(tmp_path / "before", step_ms=noisy(1, 200), data_ms=noisy(2, 200, 4))
    after = recording(tmp_path / "after", step_ms=noisy(3, 200, 44), data_ms=noisy(4, 200, 8))
    code, answer = told(before, after)
    assert (code, answer["result"], answer["schema"]) == (0, "worse", "triage.compare/1")
    assert {move["name"] for move in answer["moved"]} >= {"step time", "data", "throughput", "memory peak allocated"}
    assert said(before, after, "--fail-over", "5%")[0] == 21
    assert said(before, after, "--fail-over", "25")[0] == 0
    assert said(after, before, "--fail-over", "5%")[0] == 0
    assert said(before, after)[1].startswith("WORSE: step time +")


def test_the_same_evidence_twice_and_in_any_order_gives_the_same_bytes(tmp_path: Path) -> None:
    before = recording(tmp_path / "a" / "run", step_ms=noisy(1, 100))
    after = recording(tmp_path / "b" / "run", step_ms=noisy(3, 100, 42))
    other = recording(tmp_path / "c" / "run", step_ms=noisy(1, 100))
    assert said(before, after, "--format", "json") == said(other, after, "--format", "json")


MEGATRON = "  {name} ................................... {value}\n"
STEP = (
    " iteration {at:8d}/    5000 | elapsed time per iteration (ms): {ms:.1f} | global batch size:   256 |"
    " lm loss: 2.1E+00 |\n"
)


def log(path: Path, seed: int, mean: float, sequence: str = "4096", nccl: str = "2.21.5") -> Path:
    steps = "".join(STEP.format(at=at, ms=ms) for at, ms in enumerate(noisy(seed, 100, mean), start=1))
    named = {"seq_length": sequence, "lr": "0.0003", "save": str(path), "overlap_grad_reduce": "True"}
    arguments = "".join(MEGATRON.format(name=name, value=value) for name, value in named.items())
    path.write_text(f"NCCL version {nccl}+cuda12.4\ntorch version: 2.5.1\n" + arguments + steps)
    return path


def test_logs(tmp_path: Path) -> None:
    before = log(tmp_path / "before.log", 1, 400)
    code, answer = told(before, log(tmp_path / "after.log", 2, 360, nccl="2.27.3"))
    assert (code, answer["result"], answer["one_change"]) == (0, "better", True)
    assert answer["changes"] == [
        {"kind": "version", "name": "NCCL", "before": "2.21.5+cuda12.4", "after": "2.27.3+cuda12.4"}
    ]
    code, answer = told(before, log(tmp_path / "longer.log", 3, 800, sequence="8192"))
    assert (code, answer["why"]) == (22, "the work is another: seq_length")


def test_bundles_hold_versions_and_environment(tmp_path: Path) -> None:
    sides = []
    for name, version, level, mean in (("before", "550.54.15", "INFO", 40.0), ("after", "560.35.03", "WARN", 40.0)):
        folder = tmp_path / name
        node = folder / "nodes/node1"
        recording(node / "recordings", step_ms=noisy(int(level == "INFO"), 100, mean))
        (node / "versions").mkdir()
        (node / "environment").mkdir()
        (node / "versions/nvidia-module.txt").write_text(version + "\n")
        (node / "versions/packages.txt").write_text("/v/site-packages/torch-2.5.1.dist-info\n")
        job = f"SLURM_JOB_ID={name}\nMASTER_PORT=2{mean}\nNCCL_DEBUG={level}\n"
        (node / "environment/rank0.pid7.env.txt").write_text(job + ("NCCL_ALGO=Ring\n" if name == "before" else ""))
        (folder / "manifest.json").write_text('{"schema": "triage.bundle/1"}')
        sides.append(folder)
    _, answer = told(*sides)
    found = {change["name"]: (change["before"], change["after"]) for change in answer["changes"]}
    assert found == {
        "NVIDIA driver": ("550.54.15", "560.35.03"), "NCCL_DEBUG": ("INFO", "WARN"), "NCCL_ALGO": ("Ring", None),
    }  # fmt: skip
    assert answer["one_change"] is False


def test_traces(tmp_path: Path) -> None:
    sides = []
    for name, mean in (("before", 10.0), ("after", 14.0)):
        at, events = 0.0, []
        for step, ms in enumerate(noisy(len(name), 12, mean, 0.01)):
            events.append(
                {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": at, "dur": 1e3 * ms}
            )
            events.append({"ph": "X", "cat": "kernel", "name": "gemm", "ts": at, "dur": 900 * ms})
            at += 1e3 * ms
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
        sides.append(path)
    code, answer = told(*sides)
    assert (code, answer["result"], answer["moved"][0]["steps"]) == (0, "worse", [12, 12])


def test_scaling(tmp_path: Path) -> None:
    runs = []
    for size, extra in ((8, 0), (16, 4), (32, 10)):
        step, talk = noisy(size, 100, 40 + extra, 0.01), noisy(size, 100, 5 + extra, 0.01)
        runs.append(recording(tmp_path / f"run{size}", 2, size, step_ms=step, comm_ms=talk))
    code, text = said("--scaling", *runs)
    assert code == 0
    assert text.startswith("32 ranks run at 80 % of linear; lost: comm 10.0 ms of each step")
    assert [size["ranks"] for size in told("--scaling", *runs)[1]["sizes"]] == [8, 16, 32]


def test_usage(tmp_path: Path) -> None:
    one = recording(tmp_path / "one", step_ms=[40.0] * 30)
    for words, text in (
        ([one], "takes BEFORE and AFTER"),
        ([one, one, "--fail-over", "much"], "a percentage"),
        ([one, "--scaling"], "two runs or more"),
        ([one, one, "--mode", "weak"], "add --scaling"),
    ):
        with pytest.raises(UsageError, match=text):
            said(*words)
    code, _ = said(one, one)
    assert code == 0
