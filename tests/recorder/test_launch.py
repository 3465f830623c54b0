"""Starting a job: its environment, its output, its exit code."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from triage.cli.record import command
from triage.errors import UsageError
from triage.recorder import launch


def test_what_the_user_set_stays(tmp_path: Path) -> None:
    given = {"NCCL_DEBUG": "WARN", "TORCH_NCCL_TRACE_BUFFER_SIZE": "50", "PYTHONPATH": "/own"}
    added = launch.additions(tmp_path, given)
    assert not {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "TORCH_FR_BUFFER_SIZE"} & added.keys()
    assert added["TORCH_FR_DUMP_TEMP_FILE"] == f"{tmp_path}/fr.rank"
    assert added["PYTHONPATH"].split(":") == [str(launch.SITE), "/own"]


def test_ranks_find_the_recorder_once() -> None:
    again = launch.additions(Path("/rec"), {"PYTHONPATH": f"{launch.SITE}:/own"})
    assert again["PYTHONPATH"] == f"{launch.SITE}:/own"


KILLED = "import os; os.kill(os.getpid(), 9)"


@pytest.mark.parametrize(("script", "code"), [("pass", 0), ("raise SystemExit(7)", 7), (KILLED, 137)])
def test_exit_codes(script: str, code: int, tmp_path: Path) -> None:
    assert launch.run([sys.executable, "-c", script], tmp_path, io.BytesIO(), io.BytesIO()) == code


def test_output_is_passed_on_and_kept(tmp_path: Path) -> None:
    out, err = io.BytesIO(), io.BytesIO()
    script = "import sys; print('step 1'); sys.stderr.write('50%\\r'); sys.stderr.write('no end'); sys.exit(3)"
    launch.run([sys.executable, "-c", script], tmp_path, out, err)
    assert (out.getvalue(), err.getvalue()) == (b"step 1\n", b"50%\rno end")
    kept = next(tmp_path.glob("output.*.log")).read_bytes()
    assert b"step 1\n" in kept and b"no end" in kept and kept.endswith(b"exit code 3\n")


def test_dumps_get_the_name_of_the_recording(tmp_path: Path) -> None:
    (tmp_path / "fr.rank3").write_bytes(b"later")
    (tmp_path / "fr.rank3.pkl").write_bytes(b"earlier")
    launch.run(["true"], tmp_path, io.BytesIO(), io.BytesIO())
    assert (tmp_path / "fr.rank3.pkl").read_bytes() == b"later"
    assert not (tmp_path / "fr.rank3").exists()


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^/no/such/command: .* environment"):
        launch.run(["/no/such/command"], tmp_path / "recording", io.BytesIO(), io.BytesIO())
    assert not (tmp_path / "recording").exists(), "nothing ran, nothing is left"


def test_dry_run_shows_the_environment(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["-o", str(tmp_path / "rec"), "--dry-run", "--", "torchrun", "train.py"])
    assert f"TRIAGE_RECORD_DIR={tmp_path / 'rec'}\n" in done.output
    assert not (tmp_path / "rec").exists()
