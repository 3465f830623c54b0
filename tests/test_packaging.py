"""The wheel holds everything, and installs without a network."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        str(folder),
    ]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    return next(folder.glob("gpu_triage-*.whl"))


def test_content_is_packed(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("signatures", "playbooks"):
        packed = {name.removeprefix("triage/_content/") for name in names if f"_content/{folder}/" in name}
        assert packed == {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.yaml")}
    assert {"triage/py.typed", "triage/data/causes.yaml"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests", "fixtures", "benchmarks"))]


def test_the_installed_wheel_explains_the_demo_without_a_network(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--target",
        str(site),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True)
    environment = os.environ | {"PYTHONPATH": str(site)}
    run = [sys.executable, "-m", "triage", "explain", "--demo", "--exit-code"]
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (10, "")
    assert done.stdout.startswith("Diagnosed: ")
