"""Reproductions made, run over Gloo on CPU ranks under the recorder, and explained: needs torch.

TRIAGE_TORCH_PYTHON names a Python with torch when the one that runs the tests has none.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = os.environ.get("TRIAGE_TORCH_PYTHON") or (sys.executable if importlib.util.find_spec("torch") else "")
HANGS = ("rank-stalled", "missing-call", "other-operation", "other-size", "order-inversion", "dead-rank")
TIMED = ("slow-gpu", "slow-host", "slow-data", "imbalance")  # beside other work every rank is slow at times: try again
ENDS = ("loader-worker-death", "shared-memory")
LOOP = Path(__file__).parents[2] / "benchmarks" / "closed_loop.py"


@pytest.mark.skipif(not PYTHON, reason="no Python with torch: install gpu-triage[torch], or set TRIAGE_TORCH_PYTHON")
@pytest.mark.parametrize("name", [*HANGS, *TIMED, *ENDS])
def test_the_loop(name: str, tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(PYTHON).parent), os.environ.get("PATH", "")])
    for _ in range(3 if name in TIMED else 1):
        done = subprocess.run(
            [sys.executable, str(LOOP), "all", str(tmp_path), name, "--gpus", "0"],
            env={**os.environ, "PATH": path, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if f"right     {name}" in done.stdout:
            return
    pytest.fail(done.stdout[-3000:] + done.stderr[-3000:])
