"""The recorder's own part: what it writes, and that nothing of it reaches the training."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from triage.recorder import StepRecorder
from triage.recorder.steps import FAULTS

FOLDER = Path(__file__).parents[2] / "triage" / "recorder"


def rows(folder: Path, rank: int = 0) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / f"steps.rank{rank}.jsonl").read_text().splitlines()]


def test_a_plain_loop(tmp_path: Path) -> None:
    recorder = StepRecorder(str(tmp_path), rank=3)
    for _ in recorder.data(range(4)):
        with recorder.phase("fwd"):
            time.sleep(0.002)
        with recorder.phase("bwd"):
            time.sleep(0.001)
        recorder.step()
    recorder.close()
    head, *steps = rows(tmp_path, 3)
    assert head["schema"] == "triage.steps/1"
    assert [row["step"] for row in steps] == [0, 1, 2, 3]
    assert all(row["rank"] == 3 and float(str(row["fwd_ms"])) >= 2 and "data_ms" in row for row in steps)
    assert all(float(str(row["step_ms"])) >= float(str(row["fwd_ms"])) for row in steps)


def test_phases_of_accumulated_gradients_add_up(tmp_path: Path) -> None:
    recorder = StepRecorder(str(tmp_path), rank=0)
    for _ in range(3):
        with recorder.phase("bwd"):
            time.sleep(0.002)
    recorder.step(number=41)
    recorder.close()
    assert rows(tmp_path)[1]["step"] == 41
    assert float(str(rows(tmp_path)[1]["bwd_ms"])) >= 6


def test_a_wait_that_is_begun_anew_counts_from_there(tmp_path: Path) -> None:
    recorder = StepRecorder(str(tmp_path), rank=0)
    recorder.begin("data")
    time.sleep(0.02)
    recorder.begin("data")
    recorder.end("data")
    recorder.step()
    recorder.close()
    row = rows(tmp_path)[1]
    assert float(str(row["data_ms"])) <= float(str(row["step_ms"])) - 20


def test_waits_are_measured_by_the_host_beside_a_gpu(tmp_path: Path) -> None:
    recorder = StepRecorder(str(tmp_path), rank=0)
    recorder.cuda = types.SimpleNamespace(is_current_stream_capturing=lambda: False, Event=Behind)
    recorder.begin("data")
    time.sleep(0.01)
    recorder.end("data")
    assert [mark[1] for mark in recorder.spans[0][1:]] == [None, None]


def test_a_phase_that_is_begun_anew_gives_its_event_back(tmp_path: Path) -> None:
    recorder = StepRecorder(str(tmp_path), rank=0)
    recorder.cuda = types.SimpleNamespace(is_current_stream_capturing=lambda: False, Event=Behind)
    recorder.begin("fwd")
    first = recorder.open["fwd"][1]
    recorder.begin("fwd")
    assert (recorder.open["fwd"][1], recorder.pool) == (first, [])
    recorder.off = True  # at exit the event's GPU would be asked


def test_a_process_that_ends_without_closing_has_written_all_its_steps(tmp_path: Path) -> None:
    script = f"""
from triage.recorder import StepRecorder
recorder = StepRecorder({str(tmp_path)!r}, rank=0)
for _ in range(40):
    recorder.begin("fwd")
    recorder.step()
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert [row["step"] for row in rows(tmp_path)[1:]] == list(range(40))


def test_a_folder_that_cannot_be_written_stops_the_recording_silently(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    recorder = StepRecorder(str(tmp_path / "file" / "below"), rank=0)
    for _ in range(5):
        recorder.begin("fwd")
        recorder.end("fwd")
        recorder.step()
        time.sleep(0.06)
    recorder.close()
    assert recorder.off


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "steps.rank0.jsonl").symlink_to("/dev/full")
    recorder = StepRecorder(str(tmp_path), rank=0)
    for _ in range(3):
        recorder.step()
        recorder.files["steps.rank0.jsonl"].flush(0.0)
    assert recorder.off
    assert "No space left" in (tmp_path / "recorder.rank0.log").read_text()


def test_its_own_errors_never_leave_it(tmp_path: Path) -> None:
    recorder = StepRecorder(str(tmp_path), rank=0)
    recorder.cuda = object()  # has none of the calls
    for _ in range(2 * FAULTS):
        recorder.begin("fwd")
        recorder.step()
    assert recorder.off
    assert "recording stops" in (tmp_path / "recorder.rank0.log").read_text()


def test_a_killed_process_has_written_its_steps(tmp_path: Path) -> None:
    script = f"""
import os, time
from triage.recorder import StepRecorder
recorder = StepRecorder({str(tmp_path)!r}, rank=0)
for _ in range(4):
    recorder.begin("fwd")
    time.sleep(0.3)
    recorder.end("fwd")
    recorder.step()
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -9
    assert [row["step"] for row in rows(tmp_path)[1:]][:3] == [0, 1, 2]


class Behind:
    """An event that a GPU has not reached."""

    def __init__(self, enable_timing: bool) -> None:
        pass

    def record(self) -> None:
        pass

    def query(self) -> bool:
        return False


class Event:
    """An event of a GPU that has failed."""

    def query(self) -> bool:
        raise RuntimeError("CUDA error: device-side assert triggered")


def test_steps_before_a_gpu_fault_are_kept(tmp_path: Path) -> None:
    recorder = StepRecorder(str(tmp_path), rank=0)
    recorder.begin("fwd")
    recorder.end("fwd")
    recorder.queue.append(({"step": 7, "rank": 0}, (1.0, Event()), (1.5, Event()), []))
    recorder.close()
    assert rows(tmp_path)[1] == {"step": 7, "rank": 0, "step_ms": 500.0}


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    recorder = StepRecorder(str(tmp_path), rank=0)
    recorder.pid = os.getpid() + 1  # as a child sees it
    recorder.begin("fwd")
    recorder.step()
    recorder.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["steps.py", "hooks.py", "site/sitecustomize.py"])
def test_runs_on_python_3_8(name: str, tmp_path: Path) -> None:
    source = (FOLDER / name).read_text()
    ast.parse(source, feature_version=(3, 8))
    found = shutil.which("python3.8")
    works = found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0
    if not works or name != "steps.py":
        return  # the syntax alone is checked where there is no Python 3.8
    script = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import steps, hooks\n"
    script += f"r = steps.StepRecorder({str(tmp_path)!r}, rank=0); r.begin('fwd'); r.end('fwd'); r.step(); r.close()"
    subprocess.run([str(found), "-c", script], check=True)
    assert len(rows(tmp_path)) == 2


def test_nothing_but_the_standard_library_is_imported() -> None:
    for name in ("steps.py", "hooks.py", "site/sitecustomize.py"):
        tree = ast.parse((FOLDER / name).read_text())
        modules = {a.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
        modules |= {(n.module or "").split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert modules <= set(sys.stdlib_module_names) | {"__future__"}
