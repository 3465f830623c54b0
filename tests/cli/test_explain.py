"""`triage explain` as people call it: good input, bad input, outputs, exit codes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from triage import explain
from triage.cli import cli
from triage.errors import BundleError, UsageError
from triage.model.report import Report

INCIDENTS = Path(__file__).parents[2] / "fixtures/incidents"
OOM = str(INCIDENTS / "oom-then-watchdog/evidence")
HEALTHY = str(INCIDENTS / "healthy-job/evidence")


def call(*arguments: str, given: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["explain", *arguments], standalone_mode=False, input=given)


def test_json_on_stdout_is_the_contract() -> None:
    answer = call(OOM, "--format", "json")
    report = msgspec.json.decode(answer.stdout, type=Report)
    assert (report.schema, report.verdict) == ("triage.report/1", "diagnosed")
    assert json.loads(answer.stdout)["hypotheses"][0]["cause"] == "memory/gpu-capacity"


@pytest.mark.parametrize(("evidence", "code"), [(OOM, 10), (HEALTHY, 0)])
def test_exit_codes_are_asked_for(evidence: str, code: int) -> None:
    assert call(evidence, "--exit-code").return_value == code
    assert call(evidence).return_value == 0


def test_standard_input_is_a_file() -> None:
    answer = call("-", "--format", "json", given=b"[rank3]: ValueError: bad batch\nNVRM: Xid (PCI:0000:3b:00): 79, x\n")
    cited = json.loads(answer.stdout)["hypotheses"][0]["evidence"][0]
    assert (cited["file"], cited["line"]) == ("<stdin>", 2)


def test_the_suffix_decides_the_form_and_nothing_is_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "answer.json"
    assert call(OOM, "-o", str(target)).exception is None
    assert json.loads(target.read_text())["verdict"] == "diagnosed"
    refused = call(OOM, "-o", str(target)).exception
    assert isinstance(refused, UsageError)
    assert "--force" in str(refused)
    assert call(OOM, "-o", str(target), "--force").exception is None
    assert [path.name for path in tmp_path.iterdir()] == ["answer.json"]


@pytest.mark.parametrize("name", ["answer.docx", "answer"])
def test_an_unknown_suffix_says_which_forms_there_are(tmp_path: Path, name: str) -> None:
    assert "--format" in str(call(OOM, "-o", str(tmp_path / name)).exception)


def test_nothing_asked_nothing_explained() -> None:
    assert isinstance(call().exception, UsageError)
    assert "did you mean" in str(call("--demo", "oom-on-one-rnk").exception)
    assert call("--demo", "list").output.split()


@pytest.mark.parametrize("piped", [False, True])
def test_standard_input_is_taken_where_something_was_put_there(tmp_path: Path, piped: bool) -> None:
    log = next(path for path in sorted(Path(OOM).rglob("*")) if path.is_file())
    words = [sys.executable, "-m", "triage", "explain", "--no-history", "--format", "json"]
    with log.open("rb") as file:
        given = {"input": log.read_bytes()} if piped else {"stdin": file}
        done = subprocess.run(words, capture_output=True, check=True, **given)  # type: ignore[call-overload]
    assert json.loads(done.stdout)["bundle"]["files"] == 1
    assert done.stderr.decode() == ("triage: reading standard input\n" if piped else "")


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs /dev/fd")
def test_what_a_shell_substitutes_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"[ 8123.4] NVRM: Xid (PCI:0000:3b:00): 79, pid=4021, GPU has fallen off the bus.\n")
    os.close(writing)
    assert "gpu/fallen-off-bus" in call(f"/dev/fd/{reading}").output
    os.close(reading)


def test_who_gets_no_answer_is_told_what_to_give(tmp_path: Path) -> None:
    assert "triage collect --job" in call(str(tmp_path)).output
    assert "triage collect --job" not in call(OOM).output


def test_a_missing_path_is_one_line() -> None:
    missing = call("/no/such/log").exception
    assert isinstance(missing, BundleError)
    assert "/no/such/log" in str(missing)
    assert "\n" not in str(missing)
    assert isinstance(call("").exception, BundleError), "not the working folder"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("photo.jpg", b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(range(256)) * 40),
        ("random.bin", bytes((7 * number * number + 13 * number) % 251 for number in range(60_000))),
        ("empty.log", b""),
        ("prose.txt", b"Call me Ishmael. Some years ago, never mind how long precisely, I went to sea.\n" * 50),
    ],
)
def test_what_is_no_evidence_is_never_a_guess(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    report = explain(tmp_path)
    assert (report.verdict, report.hypotheses) == ("inconclusive", [])
    if name != "prose.txt":
        assert [gap.file for gap in report.gaps] == [name]


def test_an_empty_folder_is_inconclusive(tmp_path: Path) -> None:
    report = explain(tmp_path)
    assert (report.verdict, report.hypotheses, report.bundle.files) == ("inconclusive", [], 0)
    assert [(gap.what, gap.why, gap.file) for gap in report.gaps] == [("a folder without a file", "absent", None)]


def test_no_socket_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    assert call(OOM).exception is None
    assert CliRunner().invoke(cli, ["lookup", "Xid", "79"], standalone_mode=False).exception is None


def test_no_control_character_of_a_log_reaches_the_screen(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[31m‮RuntimeError: CUDA error: device-side assert triggered\x1b[0m \x9b2J"
    (tmp_path / "train.log").write_text(evil + "\n")
    for form in ("text", "md"):
        shown = call(str(tmp_path), "--format", form, "-v").output
        assert "device-side assert" in shown
        assert not [char for char in shown if char != "\n" and (ord(char) < 32 or 127 <= ord(char) < 160 or char == "‮")]


def test_colour_is_never_piped() -> None:
    os.environ.pop("NO_COLOR", None)
    assert "\x1b" not in call(OOM, "-v").output
