"""`triage signature`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from triage import content
from triage.cli.signature import command
from triage.errors import ContentError, UsageError

XID = "gpu/xid-79-fallen-off-bus"


def run(*arguments: str) -> str:
    """Output of a run that succeeds; triage's own errors are raised."""
    result = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.output


def test_list_by_words() -> None:
    assert XID in run("list", "fell", "bus")
    assert XID in [row["id"] for row in json.loads(run("list", "--format", "json"))]


def test_show() -> None:
    text = run("show", XID)
    assert text.startswith(XID)
    assert all(heading in text for heading in ("What it looks like", "What to do", "Matches", "Does not match"))
    assert json.loads(run("show", XID, "--format", "json"))["id"] == XID


def test_show_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean"):
        run("show", "gpu/xid-79-fallen-of-bus")


@pytest.mark.long
def test_new_writes_what_lint_explains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "signatures" / "gpu" / "fan-stopped.yaml"
    assert str(path) in run("new", "gpu/fan-stopped", "--into", str(tmp_path))
    monkeypatch.setenv("TRIAGE_CONTENT", str(tmp_path))
    with pytest.raises(ContentError) as caught:
        run("lint", str(path))
    assert [fault.rpartition(":")[0].startswith(str(path)) for fault in caught.value.faults] == [True] * 3
    assert caught.value.exit_code == 2
    with pytest.raises(UsageError, match="exists already"):
        run("new", "gpu/fan-stopped", "--into", str(tmp_path))


def test_new_writes_here_and_never_into_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package" / "_content").mkdir(parents=True)
    monkeypatch.setattr(content, "_PACKAGE", tmp_path / "package")
    monkeypatch.delenv("TRIAGE_CONTENT", raising=False)
    monkeypatch.chdir(tmp_path)
    assert f"export TRIAGE_CONTENT={tmp_path}" in run("new", "gpu/fan-stopped")
    assert (tmp_path / "signatures" / "gpu" / "fan-stopped.yaml").exists()
    assert not list((tmp_path / "package").rglob("*.yaml"))


@pytest.mark.parametrize("name", ["gpus/fan", "gpu", "gpu/", "gpu/../x", "gpu/a b"])
def test_new_refuses_odd_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        run("new", name, "--into", str(tmp_path))


def test_test() -> None:
    assert "examples of 1 signatures hold" in run("test", XID)


@pytest.mark.parametrize("arguments", [[], ["list"], ["show"], ["new"], ["lint"], ["test"]])
def test_every_help_has_an_example(arguments: list[str]) -> None:
    assert "Example: triage signature" in " ".join(run(*arguments, "--help").split())
