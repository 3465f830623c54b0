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
