"""Who may import whom, print, start processes and open files. The lists are here and nowhere else."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "triage"
FILES = sorted(path for path in ROOT.rglob("*.py") if "_content" not in path.parts)

NOUNS = {"vocabulary", "errors", "content", "model", "timeline"}
ENGINES = {"bundle", "parsers", "matching", "graph", "analysis", "reasoning"}
USERS = {"report", "repro", "transport", "history", "checks", "recorder", "lookup", "comparing"}
MAY_IMPORT = (
    dict.fromkeys(NOUNS | ENGINES | {"report", "repro"}, NOUNS)
    | dict.fromkeys(USERS - {"report", "repro"}, NOUNS | ENGINES)
    | {
        "documents": {*NOUNS, "bundle", "parsers"},
        "recognising": {*NOUNS, "bundle", "parsers", "matching"},
        "engines": {*NOUNS, "bundle", "parsers", "matching"},
        "pipeline": NOUNS | ENGINES | {"report", "repro", "documents", "engines", "recognising"},
        "cli": NOUNS | ENGINES | USERS | {"pipeline", "engines"},
        "__init__": {"pipeline", "bundle", "model", "parsers"},
        "__main__": {"cli"},
    }
)
LATE = {"torch", "pynvml", "networkx", "numpy", "jinja2", "rich", "hyperscan", "re2", "zstandard", "isal", "resource"}
LATE |= {"ClusterShell", "lightkube", "distributed", "duckdb", "psycopg", "mcp", "weasyprint"}  # of extras
PROCESSES = ("transport/", "checks/", "recorder/launch.py", "bundle/workers.py", "report/render/pdf.py")
CHILD = "bundle/_unpickling.py"  # a script: its standard output is a pipe, its one import is told where to look

CACHE = "matching/cache.py"  # keeps the compiled scanner between runs; opens no evidence


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def package(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def parsed(path: Path) -> list[ast.AST]:
    """Every node of a module."""
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path: Path) -> set[str]:
    """Dotted names of what a module imports."""
    return imported(parsed(path))


def imported(nodes: list[ast.AST]) -> set[str]:
    """Dotted names of what is imported; names taken from `triage` itself are modules."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            found.update([f"triage.{a.name}" for a in node.names] if node.module == "triage" else [node.module or ""])
    return found


@cache
def calls(path: Path) -> set[str]:
    """Names that are called, and attributes that are used, as `a.b`."""
    used = {ast.unparse(node.func) for node in parsed(path) if isinstance(node, ast.Call)}
    return used | {ast.unparse(node) for node in parsed(path) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_layers(path: Path) -> None:
    own, name = package(path), name_of(path)
    assert own in MAY_IMPORT, f"say in MAY_IMPORT where {own} stands"
    inner = {module.split(".")[1] for module in imports(path) if module.startswith("triage.")}
    inner = {module for module in inner if not module.startswith("__")}
    assert inner <= MAY_IMPORT[own] | {own}
    assert not any(module.split(".")[0] == "collectors" for module in imports(path)), "collectors are shipped, not used"
    used = calls(path)
    if own not in {"cli", "__main__"} and name != CHILD:
        assert not used & {"print", "sys.stdout", "sys.stderr"}, "only cli prints"
    if own in ENGINES - {"bundle"} and name != CACHE:
        assert not {one for one in used if one == "open" or one.endswith((".read_bytes", ".read_text"))}, "bundle opens"
    if own == "recorder" and name != "recorder/launch.py":
        assert inner <= {"recorder"}, "it runs in the user's process, without triage"
    if not name.startswith(PROCESSES):
        assert not {module.split(".")[0] for module in imports(path)} & {"subprocess", "multiprocessing", "pty"}
        assert not {one for one in used if one.startswith(("os.system", "os.popen", "os.fork", "os.exec", "os.spawn"))}


@pytest.mark.parametrize("path", [path for path in FILES if package(path) not in {"cli", "__init__"}], ids=name_of)
def test_only_heavy_and_optional_packages_are_imported_late(path: Path) -> None:
    if name_of(path) == CHILD:
        return
    functions = [node for node in parsed(path) if isinstance(node, ast.FunctionDef)]
    inside = [node for function in functions for node in ast.walk(function)]
    assert {module.split(".")[0] for module in imported(inside)} <= LATE


def test_evidence_is_never_evaluated() -> None:
    for path in FILES:
        used = calls(path)
        assert not used & {"eval", "exec", "pickle.load", "pickle.loads", "marshal.loads", "yaml.load"}, name_of(path)
