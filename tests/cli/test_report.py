"""triage report: forms by suffix, errors in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from triage.cli import cli
from triage.errors import ContentError, UsageError

EVIDENCE = str(Path(__file__).parents[2] / "fixtures/incidents/cgroup-kill/evidence")


def run(*words: str) -> str:
    done = CliRunner().invoke(cli, ["report", EVIDENCE, *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_suffix_decides(tmp_path: Path) -> None:
    page, notes, data = (tmp_path / name for name in ("a.html", "a.md", "a.json"))
    for path in (page, notes, data):
        assert run("-o", str(path)) == ""
    assert page.read_text().lstrip().startswith("<!doctype html>")
    assert notes.read_text().startswith("# Post-mortem: ")
    told = json.loads(data.read_text())
    assert (told["schema"], told["postmortem"]["schema"]) == ("triage.report/1", "triage.postmortem/1")


def test_same_evidence_same_bytes() -> None:
    assert run("--format", "html") == run("--format", "html")


def test_standard_output_is_markdown() -> None:
    assert run() == run("--format", "md")


def test_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_LANG", "zh_CN.UTF-8")
    assert "## 根本原因" in run()
    assert "postmortem" in json.loads(run("--format", "json"))
    assert "Summary" in run("--lang", "en")


def test_a_template(tmp_path: Path) -> None:
    own = tmp_path / "own.html.j2"
    own.write_text("<p>{{ post.title }}</p>{% include 'postmortem.md.j2' ignore missing %}")
    assert run("--format", "html", "--template", str(own)).startswith("<p>")


@pytest.mark.parametrize(
    "words",
    [
        ("-o", "x.docx"), ("--template", "/nowhere.j2"), ("--lang", "xx"),
        ("--format", "json", "--template", __file__),
    ],
)  # fmt: skip
def test_bad_requests(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        run(*words)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("mine")
    with pytest.raises(UsageError, match="--force"):
        run("-o", str(path))
    run("-o", str(path), "--force")
    assert path.read_text() != "mine"


def test_a_template_that_is_wrong_says_where(tmp_path: Path) -> None:
    own = tmp_path / "own.md.j2"
    own.write_text("fine\n{{ post.nothing }}\n")
    with pytest.raises(ContentError, match=r"own\.md\.j2:2: "):
        run("--template", str(own))


@pytest.mark.parametrize("form", ["html", "md", "json"])
def test_nothing_to_report_on_is_said(form: str, tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    done = CliRunner().invoke(cli, ["report", str(tmp_path), "--format", form], catch_exceptions=False)
    assert done.exit_code == 0 and "Inconclusive" in done.stdout
    assert "None found" in done.stdout or form == "json"


def test_a_healthy_job_cost_nothing() -> None:
    healthy = str(Path(EVIDENCE).parents[1] / "healthy-job/evidence")
    done = CliRunner().invoke(cli, ["report", healthy, "--format", "json"], catch_exceptions=False)
    told = json.loads(done.stdout)
    assert (told["verdict"], told["postmortem"]["impact"]["gpu_hours"]) == ("healthy", 0.0)
    assert told["postmortem"]["actions"] == []
    page = CliRunner().invoke(cli, ["report", healthy, "--format", "html"], catch_exceptions=False).stdout
    assert 'class="verdict healthy"' in page and "At fault" not in page


@pytest.mark.long
def test_a_thousand_ranks_are_one_small_page(tmp_path: Path) -> None:
    for rank in range(1024):
        slow = 400.0 if rank == 700 else 100.0
        parts = {"rank": rank, "step_ms": 420.0, "fwd_ms": slow, "bwd_ms": 500.0 - slow, "comm_ms": 10.0}
        rows = [json.dumps({"step": step, "ts": 1.8e9 + step, **parts}) for step in range(24)]
        head = json.dumps({"schema": "triage.steps/1", "host": f"node{rank // 8:03d}", "world_size": 1024})
        (tmp_path / f"steps.rank{rank}.jsonl").write_text("\n".join([head, *rows]) + "\n")
    done = CliRunner().invoke(cli, ["report", str(tmp_path), "--format", "html"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "rank 700" in done.stdout and 'id="heat"' in done.stdout
    assert len(done.stdout.encode()) < 2_000_000
