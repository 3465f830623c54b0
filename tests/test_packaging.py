"""The wheel holds everything, and installs without a network."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks import sbom

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


def test_the_same_tree_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """At another time, in another zone, under another mask: whoever builds a release can compare its hash."""
    environment = os.environ | {"TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "7", "LC_ALL": "C"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, umask=0o077)
    assert next(tmp_path.glob("*.whl")).read_bytes() == wheel.read_bytes()


def test_the_same_collectors_make_the_same_program_for_nodes() -> None:
    script = (
        "import hashlib; from triage.transport.packing import pack; "
        "print(hashlib.sha256(pack({'a': 1, 'b': 2})).hexdigest())"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", script], env=os.environ | {"PYTHONHASHSEED": seed, "TZ": zone},
            check=True, capture_output=True,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }  # fmt: skip
    assert len(hashes) == 1


def test_what_it_consists_of_is_told_from_what_is_installed() -> None:
    """The SBOM names every package that pyproject.toml asks for, and each of them has a licence that is known."""
    text = (ROOT / "pyproject.toml").read_text("utf-8").split("\ndependencies = [")[1].split("\n]")[0]
    lines = [line.strip().rstrip(",").strip('"') for line in text.splitlines() if line.strip()]
    asked = {canonicalize_name(Requirement(line).name) for line in lines}
    parts = sbom.bill(set())["components"]
    assert {part["name"] for part in parts} >= asked - {"google-re2", "hyperscan"}  # one of the two is enough
    assert not [part["name"] for part in parts if part["licenses"][0]["license"]["name"] == "see the package"]
    assert len({part["bom-ref"] for part in parts}) == len(parts)
