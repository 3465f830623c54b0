"""Child processes: what they wrote is kept, and they end in time. The children here are modules made for the test."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from triage.checks import children
from triage.checks.children import Ended, Job
from triage.cli.check import command
from triage.errors import UsageError


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs a program's text as a child."""
    package = tmp_path / "root/triage/checks"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    monkeypatch.setattr(children, "ROOT", tmp_path / "root")

    def of(text: str, limit: float = 20.0) -> Ended:
        (package / "made.py").write_text("import sys\nout = open(sys.argv[1], 'a', buffering=1)\n" + text)
        return children.run([Job("made", ("made", "{result}"))], tmp_path, limit)[0]

    return of


def test_lines_of_a_child(run) -> None:
    ended = run("""out.write('{"name": "copy", "value": 3.5}\\nnot json\\n{"name": "cut", "va')""")
    assert ([raw.name for raw in ended.found], ended.why) == (["copy"], "")


def test_why_a_child_failed(run) -> None:
    ended = run("""out.write('{"name": "copy"}\\n'); raise RuntimeError('CUDA: an \\x1b[31mstep\\nCompile with X')""")
    assert ended.why == "ended with exit code 1: RuntimeError: CUDA: an  [31mstep"
    assert len(ended.found) == 1
    assert run("import os; os.kill(os.getpid(), 6)").why == "ended by signal 6"


@pytest.mark.long
def test_a_child_that_hangs_is_killed_with_its_own_children(run, tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    inner = f"import time\\nwhile True: open({str(alive)!r}, 'w').write(str(time.time())); time.sleep(0.05)"
    start = time.monotonic()
    ended = run(
        f'import subprocess, time\nout.write(\'{{"name": "copy"}}\\n\')\n'
        f"subprocess.Popen([sys.executable, '-c', \"{inner}\"])\ntime.sleep(60)",
        limit=1.5,
    )
    assert time.monotonic() - start < 6
    assert (ended.why, len(ended.found)) == ("gave no answer within 2 s", 1)
    told = alive.read_text() if alive.exists() else ""
    time.sleep(0.3)
    assert (alive.read_text() if alive.exists() else "") == told


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="check runs on Linux")
def test_command_lines_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(*words: str) -> str:
        result = CliRunner().invoke(command, list(words))
        assert isinstance(result.exception, UsageError)
        return str(result.exception)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert said().startswith("torch is not installed here")
    assert "numbers with commas" in said("--gpus", "a")
    assert "each GPU once" in said("--gpus", "1,1")
    assert "--rendezvous" in said("--nodes", "2", "--node-rank", "1")
    assert "there are 2 nodes" in said("--nodes", "2", "--node-rank", "2", "--rendezvous", "a:1")
