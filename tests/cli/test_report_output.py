"""What the terminal gets beside the text, and what is said of earlier incidents."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from triage.cli import _history, _output, cli


def test_links_lead_to_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/rank 0.log").write_text("x")
    (tmp_path / "secret").write_text("x")
    url = _output._links(tmp_path / "logs")
    assert url is not None
    assert url("rank 0.log") == (tmp_path / "logs/rank 0.log").as_uri()
    assert url("absent.log") is None


def test_links_of_a_single_file(tmp_path: Path) -> None:
    path = tmp_path / "slurm.out"
    path.write_text("x")
    url = _output._links(path)
    assert url is not None and url("slurm.out") == path.as_uri()
    assert url("member/of/an/archive") is None
    assert _output._links(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("name", "value", "colour"), [("TERM", "dumb", False), ("NO_COLOR", "1", False), ("X", "", True)]
)
def test_colour(name: str, value: str, colour: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(name, value)
    assert _output.style(["-"]).colour is colour


def test_what_is_said_of_earlier_incidents() -> None:
    row = {"id": "3fa1" * 16, "seen": 1.8e9, "node": "node017", "gpu": None, "cause": "x", "note": None, "held": None}
    assert _history._told([row]).startswith(
        "Seen before: once on node017, last on 2027-01-15 (triage history show 3fa13fa1)"
    )
    noted = row | {"note": "swapped the riser", "held": "no"}
    assert _history._told([row, noted]).endswith("; done then: swapped the riser, which did not hold")


STRAGGLER = Path(__file__).parents[2] / "fixtures/incidents/straggler/evidence"


def on_terminal(*words: str, **environment: str) -> str:
    """What the program writes when its output is a terminal of 100 columns."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    known = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "COLUMNS"}}
    told = known | {"TERM": "xterm-256color", "PYTHONUTF8": "1", **environment}
    with subprocess.Popen(
        [sys.executable, "-m", "triage", *words], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE,
        env=told,
    ) as running:  # fmt: skip
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    assert running.returncode == 0
    return b"".join(parts).decode()


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
def test_a_terminal_gets_colour_links_and_charts() -> None:
    told = on_terminal("explain", "--no-history", str(STRAGGLER))
    assert told.startswith("\x1b[1;31mDiagnosed")
    url = (STRAGGLER / "steps.rank1.jsonl").as_uri()
    assert f"\x1b]8;;{url}\x1b\\steps.rank1.jsonl" in told
    strip = next(line for line in told.splitlines() if "Ranks" in line)
    assert strip.split()[-3].endswith("▂█")  # rank 0 as the others, rank 1 slow
    plain = re.sub(r"\x1b\]8;;[^\x1b]*\x1b\\|\x1b\[[0-9;]*m", "", told)
    assert "\x1b" not in plain
    (command,) = (line for line in plain.splitlines() if line.startswith("Confirm"))
    assert command.split()[1] == "nvidia-smi" and command.endswith("--format=csv -l 5"), "whole, to be copied"
    assert max(len(line) for line in plain.splitlines() if line != command) <= 100


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
def test_no_color_and_a_dumb_terminal() -> None:
    assert "\x1b[" not in on_terminal("explain", "--no-history", str(STRAGGLER), NO_COLOR="1")
    assert "\x1b" not in on_terminal("explain", "--no-history", str(STRAGGLER), TERM="dumb")


@pytest.mark.parametrize(("paths", "told"), [(["a b.log", "c"], "'a b.log' c"), (["-"], "EVIDENCE")])
def test_commands_name_what_was_opened(paths: list[str], told: str) -> None:
    assert _output.style(paths).evidence == told


def test_a_pipe_gets_plain_text() -> None:
    done = CliRunner().invoke(cli, ["explain", "--no-history", str(STRAGGLER), "-v"])
    assert done.exit_code == 0 and "\x1b" not in done.stdout and "Ranks " not in done.stdout
