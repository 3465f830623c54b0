"""Whole incidents, end to end: the golden report of each, and that its first hypothesis is the known truth."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
import yaml

from triage import explain
from triage.model.report import Report

INCIDENTS = sorted(Path(__file__).parents[1].joinpath("fixtures/incidents").iterdir())
UPDATE = "the report differs from fixtures/incidents/*/report.json: look, then `make golden` writes it anew"


def told(report: Report) -> bytes:
    """The report without the digest of the content, which changes with every new signature."""
    plain = msgspec.structs.replace(report, tool=msgspec.structs.replace(report.tool, content="", version=""))
    return msgspec.json.format(msgspec.json.encode(plain), indent=1) + b"\n"


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda path: path.name)
def test_golden(incident: Path, request: pytest.FixtureRequest) -> None:
    answer = told(explain(incident / "evidence"))
    golden = incident / "report.json"
    if request.config.getoption("--update-golden"):
        golden.write_bytes(answer)
    assert answer == golden.read_bytes(), UPDATE


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda path: path.name)
def test_truth(incident: Path) -> None:
    truth = yaml.safe_load((incident / "truth.yaml").read_text())
    report = msgspec.json.decode((incident / "report.json").read_bytes(), type=Report)
    if truth["cause"] == "healthy":
        assert (report.verdict, report.hypotheses) == ("healthy", [])
        return
    best = report.hypotheses[0]
    assert best.cause in {truth["cause"], *truth.get("acceptable", [])}
    for kind, wanted in (truth.get("culprit") or {}).items():
        values = wanted if isinstance(wanted, list) else [wanted]
        named = {getattr(culprit, kind) for culprit in best.culprits} - {None}
        assert {str(value) for value in named} == {str(value) for value in values}, kind


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda path: path.name)
def test_every_citation_stands_where_it_says(incident: Path) -> None:
    report = msgspec.json.decode((incident / "report.json").read_bytes(), type=Report)
    for cited in [each for hypothesis in report.hypotheses for each in hypothesis.evidence]:
        path = incident / "evidence" / cited.file
        assert path.is_file()
        if cited.line is None:
            continue
        lines = path.read_bytes().decode("utf-8", "replace").split("\n")
        near = " ".join(" ".join(lines[cited.line - 1 : cited.line + 3]).split())
        assert " ".join(cited.text.split())[:40] in near


def test_folder_order_cores_and_time_zone_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = next(path for path in INCIDENTS if path.name == "skewed-clock") / "evidence"
    first = told(explain(source))
    copy = tmp_path / "elsewhere" / "renamed"
    copy.mkdir(parents=True)
    for path in sorted(source.rglob("*"), reverse=True):  # another order on disk
        if path.is_file():
            target = copy / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    monkeypatch.setenv("TRIAGE_CORES", "1")
    assert told(explain(copy)) == first
