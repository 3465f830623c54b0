"""The examples of the recorder: the page shows them, they run where their library is, and their check can fail."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("record_*.py"))
PYTHON = os.environ.get("TRIAGE_TORCH_PYTHON") or (sys.executable if importlib.util.find_spec("torch") else "")


def core(name: str) -> str:
    """What an example marks as its core."""
    _, mark, rest = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").partition("# [shown in docs/record.md\n")
    shown, end, _ = rest.partition("# ]\n")
    assert mark and end, name
    return textwrap.dedent(shown).strip() + "\n"


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_the_core_of_each_example(name: str) -> None:
    page = (ROOT / "docs" / "record.md").read_text(encoding="utf-8")
    _, _, after = page.partition(f"(`examples/{name}.py`)")
    assert after.partition("```python\n")[2].partition("```")[0] == core(name)


def test_every_example_is_run_by_the_script() -> None:
    script = (EXAMPLES / "run_all.sh").read_text(encoding="utf-8")
    assert [line.split()[1] for line in script.splitlines() if line.startswith("example record_")] == sorted(
        NAMES, key=script.index
    )
    assert subprocess.run(["bash", "-n", str(EXAMPLES / "run_all.sh")], check=False).returncode == 0


def check(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / "check_recording.py"), str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def recording(folder: Path, steps: int, **phases: float) -> Path:
    folder.mkdir()
    rows = [{"schema": "triage.steps/1"}, *({"step": n, "rank": 0, "step_ms": 9.0, **phases} for n in range(steps))]
    (folder / "steps.rank0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_good_recording_passes_the_check(tmp_path: Path) -> None:
    done = check(recording(tmp_path / "one", 3, data_ms=9.5, opt_ms=9.0), "3", "data", "opt")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("steps", "phases", "log", "told"),
    [
        (2, {"opt_ms": 1.0}, "", "steps are [0, 1]"),
        (3, {"fwd_ms": 1.0}, "", "step 1: no opt_ms"),
        (3, {"opt_ms": 9.2}, "", "phases last 9.2 of 9.0 ms"),
        (3, {"opt_ms": 1.0}, "step: KeyError", "recorder.rank0.log: step: KeyError"),
    ],
)
def test_a_poor_recording_fails_the_check(
    steps: int, phases: dict[str, float], log: str, told: str, tmp_path: Path
) -> None:
    folder = recording(tmp_path / "one", steps, **phases)
    if log:
        (folder / "recorder.rank0.log").write_text(log)
    done = check(folder, "3", "opt")
    assert done.returncode == 1
    assert told in done.stderr


def test_no_recording_fails_the_check(tmp_path: Path) -> None:
    done = check(tmp_path, "40", "opt")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


@pytest.mark.skipif(not PYTHON, reason="needs torch (TRIAGE_TORCH_PYTHON)")
def test_the_plain_loop_runs(tmp_path: Path) -> None:
    environment = os.environ | {"TRIAGE_RECORD_DIR": str(tmp_path / "one"), "PYTHONPATH": str(ROOT)}
    subprocess.run([PYTHON, str(EXAMPLES / "record_loop.py")], env=environment, check=True)
    assert check(tmp_path / "one", "40", "data", "fwd", "bwd", "opt").returncode == 0
