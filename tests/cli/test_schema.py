"""What each command writes fits the schema that `triage schema` prints, and what is broken does not."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from tests.checks.test_stages import runner
from tests.compare.making import noisy, recording
from tests.transport.collected import Bundle, collect
from triage.checks import stages
from triage.cli import cli
from triage.cli._schemas import KINDS
from triage.recorder import StepRecorder

ROOT = Path(__file__).resolve().parents[2]


def said(*words: object) -> str:
    result = CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.stdout


@cache
def validator(name: str) -> Draft202012Validator:
    schema = json.loads(said("schema", name))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def faults(name: str, value: Any) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in validator(name).iter_errors(value)]


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    told: dict[str, Any] = json.loads(said("explain", "--demo", "--format", "json"))
    return told


def test_explain(report: dict[str, Any]) -> None:
    assert faults("report", report) == []
    for broken in (
        {**report, "verdict": "perhaps"},
        {**report, "schema": "triage.compare/1"},
        {**report, "more": 1},
        {key: value for key, value in report.items() if key != "gaps"},
    ):
        assert faults("report", broken)


def test_every_golden_report() -> None:
    known = validator("report")
    paths = sorted(ROOT.glob("fixtures/incidents/*/report.json"))
    found = {path.parent.name: next(known.iter_errors(json.loads(path.read_text())), None) for path in paths}
    assert len(found) > 15
    assert {name: error.message for name, error in found.items() if error} == {}


def test_post_mortem() -> None:
    told = json.loads(said("report", ROOT / "triage/data/demo/oom-on-one-rank", "--format", "json", "-q"))
    assert told["postmortem"]["schema"] == "triage.postmortem/1"
    assert faults("report", told) == []


def test_compare_and_scaling(tmp_path: Path) -> None:
    runs = [
        recording(tmp_path / str(size), ranks=size, step_ms=noisy(size, 60, 40 + size), data_ms=noisy(9, 60, 4))
        for size in (1, 2)
    ]
    told = json.loads(said("compare", *runs, "--format", "json"))
    assert faults("compare", told) == []
    assert faults("compare", {**told, "result": "as good"})
    scaled = json.loads(said("compare", "--scaling", *runs, "--format", "json"))
    assert faults("scaling", scaled) == []
    assert faults("scaling", told)


def test_check(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = stages.check(stages.Plan(last="gpu"), runner())
    monkeypatch.setattr(stages, "check", lambda plan, note: outcome)
    told = json.loads(said("check", "--up-to", "gpu", "--format", "json"))
    assert told["stages"][0]["figures"]
    assert faults("check", told) == []
    assert faults("check", {**told, "state": "fine"})


@pytest.mark.parametrize(
    "words", ["79", "exit 137", "NCCL_IB_GID_INDEX=0", "storage/stall", "gpu-lost", "row remapping"]
)
def test_lookup(words: str) -> None:
    assert faults("lookup", json.loads(said("lookup", words, "--format", "json"))) == []


def test_bundle(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("step 1 loss 2\n" * 9)
    assert collect(tmp_path, "--only", "proc_stat,job_logs", "--include", f"{tmp_path}/*.log")[0] == 0
    manifest = Bundle(tmp_path / "b.tar.zst").manifest
    assert manifest["ledger"]
    assert manifest["files"]
    assert faults("bundle", manifest) == []
    said("redact", tmp_path / "b.tar.zst", "-o", tmp_path / "c.tar.zst")
    assert faults("bundle", Bundle(tmp_path / "c.tar.zst").manifest) == []
    assert faults("bundle", {**manifest, "ledger": [{"collector": "dmesg"}]})


def test_recording(tmp_path: Path) -> None:
    recorder = StepRecorder(directory=str(tmp_path), rank=0)
    for _ in range(3):
        with recorder.phase("fwd"):
            pass
        recorder.step()
    recorder.close()
    lines = [json.loads(line) for line in (tmp_path / "steps.rank0.jsonl").read_text().splitlines()]
    recorded = sorted(ROOT.glob("fixtures/closed_loop/*/evidence/steps.rank0.jsonl"))
    lines += [json.loads(line) for path in recorded for line in path.read_text().splitlines()]
    known = validator("steps")
    assert len(lines) > 100
    assert [line for line in lines if not known.is_valid(line)] == []
    assert not known.is_valid({"rank": 3})
    names = {name for line in lines for name in line}
    told = json.loads(said("schema", "steps"))["$defs"]
    assert names <= set(told["StepsHead"]["properties"]) | set(told["StepRow"]["properties"])


@pytest.mark.parametrize(("kind", "count"), [("signature", 800), ("playbook", 20)])
def test_content_as_an_editor_reads_it(kind: str, count: int) -> None:
    known, paths = validator(kind), sorted((ROOT / f"{kind}s").rglob("*.yaml"))
    assert len(paths) > count
    for path in paths:
        tree = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        assert [(path.name, error.message) for error in known.iter_errors(tree)] == []
    for change in ({"titel": "x"}, {"id": None}, {"examples": "none"}):
        assert not known.is_valid({**tree, **change})


def test_closed_lists_reach_the_editor() -> None:
    fields = json.loads(said("schema", "signature"))["$defs"]["Signature"]["properties"]
    assert "kernel_log" in fields["sources"]["items"]["enum"]
    assert "gpu/fallen-off-bus" in fields["cause"]["anyOf"][0]["enum"]
    assert "enum" in fields["role"]


def test_every_kind_has_a_schema() -> None:
    for name in KINDS:
        assert validator(name).schema["title"].startswith(f"triage {name}: ")
    assert msgspec.json.decode(said("schema", "report"))["$defs"]["Report"]["properties"]["schema"] == {
        "const": "triage.report/1"
    }
