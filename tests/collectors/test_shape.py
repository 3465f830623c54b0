"""Collectors run on old nodes: Python 3.6, the standard library alone, and one shape for all."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from collectors.running import packed, sent

ROOT = Path(__file__).resolve().parents[2] / "collectors"
FILES = sorted(ROOT.glob("*.py"))
COLLECTORS = [path for path in FILES if not path.stem.startswith("_")]
OWN = {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_python_36_and_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 6))
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    roots = {name.split(".")[0] for name in modules}
    assert roots <= sys.stdlib_module_names | OWN | {"pynvml"}
    assert "pynvml" not in roots or path.stem == "nvml"
    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, (ast.Call, ast.keyword))}
    assert not any("shell=True" in one for one in used)


def test_nothing_younger_than_python_36_is_used() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("vermin")), "-t=3.6-", "--no-tips", "--violations", str(ROOT)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", COLLECTORS, ids=lambda path: path.stem)
def test_shape(path: Path) -> None:
    names = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names[node.targets[0].id] = node.value
    assert ast.literal_eval(names["NAME"]) == path.stem
    assert ast.literal_eval(names["TITLE"])
    assert isinstance(ast.literal_eval(names["NEEDS"]), tuple)
    assert 1 <= ast.literal_eval(names["SECONDS"]) <= 60


def test_all_of_them_run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = sent(packed(monkeypatch, tmp_path, {}, only=[], skip=["samples"]), 20)
    assert set(found.begin["planned"]) == {path.stem for path in COLLECTORS} - {"samples"}
    assert set(found.rows) == set(found.begin["planned"])
    assert not [row for row in found.rows.values() if row.get("failed")]
    assert b"btime" in found.files["proc_stat/stat.txt"]
    assert "limits/collector-limits.txt" in found.files
