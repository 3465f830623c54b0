"""triage history, and what explain keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from triage import explain
from triage.cli import cli
from triage.errors import UsageError

EVIDENCE = str(Path(__file__).parents[2] / "fixtures/incidents/cgroup-kill/evidence")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "history.sqlite"
    monkeypatch.setenv("TRIAGE_HISTORY", str(path))
    return path


def run(*words: str) -> str:
    done = CliRunner().invoke(cli, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_explain_keeps_and_history_tells(place: Path) -> None:
    answer = run("explain", EVIDENCE)
    assert run("explain", EVIDENCE) == answer
    (row,) = json.loads(run("history", "list", "--format", "json"))
    assert (row["times"], row["verdict"] in {"diagnosed", "suspected"}) == (2, True)
    assert run("history", "note", row["id"][:8], "more memory", "--held", "yes") == f"noted for {row['id'][:8]}\n"
    shown = run("history", "show", row["id"][:8])
    assert "more memory (held: yes)" in shown and row["cause"] in shown
    assert row["id"][:8] in run("history", "list")
    assert run("history", "nodes").startswith("node")
    assert run("history", "nodes", "--cause", "power").endswith("\nnone that is kept\n")
    assert "goodput" in run("history", "stats")


def test_not_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("explain", EVIDENCE, "--no-history")
    explain(EVIDENCE)
    run("explain", "--demo")
    monkeypatch.setenv("TRIAGE_HISTORY", "off")
    run("explain", EVIDENCE)
    assert not place.exists()


def test_explain_goes_on_without_a_store(place: Path) -> None:
    place.write_text("this is not a database; it has enough bytes to be looked at" * 50)
    done = CliRunner().invoke(cli, ["explain", EVIDENCE, "-v"], catch_exceptions=False)
    assert done.exit_code == 0 and "not kept in the history" in done.stderr
    assert "not kept" not in CliRunner().invoke(cli, ["explain", EVIDENCE]).stderr


def test_nothing_kept_yet(place: Path) -> None:
    with pytest.raises(UsageError, match="nothing was kept yet"):
        CliRunner().invoke(cli, ["history", "list"], catch_exceptions=False)


def test_export(place: Path, tmp_path: Path) -> None:
    run("explain", EVIDENCE)
    target = tmp_path / "incidents.csv"
    run("history", "export", "-o", str(target))
    assert target.read_text().startswith("id,seen,times,verdict,cause,")
    for bad in ("x.xlsx", str(target)):
        with pytest.raises(UsageError):
            CliRunner().invoke(cli, ["history", "export", "-o", bad], catch_exceptions=False)
