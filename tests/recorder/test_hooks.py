"""The automatic recorder in a process of its own: with a stand-in for torch, and with torch where it is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from triage.recorder import StepRecorder, hooks
from triage.recorder import steps as steps_module
from triage.recorder.launch import additions

TORCH = """
import sys, types
class Optimizer:
    before, after = [], []
    def step(self):
        for hook in self.before: hook(self, (), {})
        for hook in self.after: hook(self, (), {})
optimizer = types.ModuleType("torch.optim.optimizer")
optimizer.register_optimizer_step_pre_hook = Optimizer.before.append
optimizer.register_optimizer_step_post_hook = Optimizer.after.append
sys.modules["torch.optim.optimizer"] = optimizer
autograd = types.SimpleNamespace(backward=lambda *a, **k: None)
version = types.SimpleNamespace(cuda=None)
cuda = types.SimpleNamespace()
save = lambda *a, **k: None
__version__ = "2.9"
"""
TRAINING = """
import gc, time, torch
model = torch.Optimizer()
for step in range(5):
    time.sleep(0.002)
    torch.autograd.backward()
    gc.collect()
    model.step()
    model.step()   # as DeepSpeed does for each group of parameters: still one step
"""


PYTHON = os.environ.get("TRIAGE_TORCH_PYTHON") or (sys.executable if importlib.util.find_spec("torch") else "")


def run(
    script: str, tmp_path: Path, python: str = sys.executable, **environment: str
) -> subprocess.CompletedProcess[str]:
    folder = tmp_path / "recording"
    base = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | environment
    everything = base | additions(folder, base)
    return subprocess.run(
        [python, "-c", script], env=everything, cwd=tmp_path, capture_output=True, text=True, check=False
    )


def steps(tmp_path: Path, rank: int = 0) -> list[dict[str, float]]:
    lines = (tmp_path / "recording" / f"steps.rank{rank}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines][1:]


def stand_in(tmp_path: Path, text: str = TORCH) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(text)


def test_steps_are_recorded_without_a_change_to_the_code(tmp_path: Path) -> None:
    stand_in(tmp_path)
    done = run(TRAINING, tmp_path, RANK="2", WORLD_SIZE="4")
    assert (done.returncode, done.stderr) == (0, "")
    found = steps(tmp_path, 2)
    assert [row["step"] for row in found] == [0, 1, 2, 3, 4]
    assert all({"step_ms", "bwd_ms", "opt_ms", "gc_ms"} <= row.keys() for row in found[1:])
    assert all(row["fwd_ms"] >= 2 for row in found[1:])


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.13"])
def test_other_pythons(version: str, tmp_path: Path) -> None:
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"no Python {version} here")
    stand_in(tmp_path)
    done = run(TRAINING, tmp_path, python)
    assert (done.returncode, done.stderr, len(steps(tmp_path))) == (0, "", 5)


def test_a_torch_without_hooks_only_leaves_a_note(tmp_path: Path) -> None:
    stand_in(tmp_path, TORCH.replace("sys.modules[", "sys.modules.get("[:0] + "dict()["))
    done = run("import torch; torch.autograd.backward()", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no steps recorded" in (tmp_path / "recording" / "recorder.rank0.log").read_text()


def test_a_broken_torch_still_runs(tmp_path: Path) -> None:
    stand_in(tmp_path, "version = 1\n")
    done = run("import torch; print(torch.version)", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_process_without_torch_leaves_nothing(tmp_path: Path) -> None:
    assert run("print(1)", tmp_path).stdout == "1\n"
    assert not (tmp_path / "recording").exists()


CLOSURE = TORCH.replace("def step(self):", "def step(self, closure=lambda: None):").replace(
    "        for hook in self.after", "        closure()\n        time.sleep(0.002)\n        for hook in self.after"
)
INSIDE = """
import gc, time, torch
model = torch.Optimizer()
def closure():   # as Lightning trains: both passes inside the optimizer's step
    time.sleep(0.02)
    torch.autograd.backward()
gc.collect()
for step in range(3):
    model.step(closure)
"""


def test_an_update_with_a_closure_begins_after_the_backward_pass(tmp_path: Path) -> None:
    stand_in(tmp_path, "import time" + CLOSURE)
    done = run(INSIDE, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = steps(tmp_path)
    assert all(2 <= row["opt_ms"] <= row["step_ms"] - 20 for row in found), found
    assert "gc_ms" not in found[0], "collected before the training began"


def test_steps_recorded_by_hand_say_that_the_training_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    automatic, own = (StepRecorder(str(tmp_path), rank=0) for _ in range(2))
    installed = hooks.Hooks(automatic, steps_module.guarded)
    monkeypatch.setattr(hooks, "_ACTIVE", [installed])
    hooks.stand_down(own)
    before = installed._progress()
    own.step()
    assert installed._progress() != before


DISTRIBUTED = """
class Inner:
    count = 0
    def _dump_fr_trace(self, includeCollectives=True): return b"dump %d" % self.count
inner = Inner()
_C = types.SimpleNamespace(_distributed_c10d=inner)
yes, gloo = lambda: True, lambda: "gloo"
distributed = types.SimpleNamespace(is_available=yes, is_initialized=yes, get_backend=gloo)
sys.modules["torch.distributed"] = distributed
"""
STALL = """
import os, time, torch
path = os.path.join(os.environ["TRIAGE_RECORD_DIR"], "fr.rank0.pkl")
end = time.monotonic() + 20
while not os.path.exists(path) and time.monotonic() < end:
    time.sleep(0.02)
time.sleep(0.2)
print(open(path, "rb").read())
torch.inner.count += 1   # a failing collective moves once
time.sleep(0.5)
print(os.path.exists(path))
end = time.monotonic() + 20
while os.path.exists(path) and time.monotonic() < end:
    torch.inner.count += 1
    time.sleep(0.06)
print(os.path.exists(path))
"""


def test_a_stall_leaves_a_dump_and_takes_it_back_when_training_goes_on(tmp_path: Path) -> None:
    stand_in(tmp_path, TORCH + DISTRIBUTED)
    done = run(STALL, tmp_path, RANK="0", TRIAGE_STALL_S="0.4")
    assert done.stdout.splitlines() == ["b'dump 0'", "True", "False"], done.stderr
    assert "steps go on" in (tmp_path / "recording" / "recorder.rank0.log").read_text()


def test_the_sites_own_sitecustomize_runs_too(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import os; os.environ['OWN'] = 'ran'")
    done = run("import os; print(os.environ['OWN'])", tmp_path, PYTHONPATH=str(tmp_path / "own"))
    assert (done.stdout, done.stderr) == ("ran\n", "")


@pytest.mark.skipif(not PYTHON, reason="no Python with torch: install gpu-triage[torch], or set TRIAGE_TORCH_PYTHON")
def test_with_torch_itself(tmp_path: Path) -> None:
    script = """
import torch
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(torch.zeros(6, 8)):
    layer(batch).sum().backward()
    optimizer.step()
"""
    done = run(script, tmp_path, PYTHON)
    assert done.returncode == 0, done.stderr
    assert all({"data_ms", "fwd_ms", "bwd_ms", "opt_ms"} <= row.keys() for row in steps(tmp_path)[1:])
