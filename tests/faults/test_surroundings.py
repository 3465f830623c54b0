"""Full disks, few handles, other languages, clocks, signals: the same answer, or one line and an exit code of its own.

Exit codes: 1 the answer cannot be written to stdout, 2 nor to the file that was named, 130 interrupted, 141 the reader
went away; SIGTERM ends the process as it does every other.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from triage.cli import cli

LINE = "[    1.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus.\n"
TRIAGE = [sys.executable, "-m", "triage"]
Done = subprocess.CompletedProcess[bytes]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evidence") / "job.log"
    path.write_text(LINE)
    return path


@pytest.fixture(scope="module")
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cache that is filled once: no test here waits for the compiler."""
    kept = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return kept if os.access(Path(kept).parent, os.W_OK) else str(tmp_path_factory.mktemp("cache"))


def run(*arguments: str, cache: str, limits: Callable[[], None] | None = None, **environment: str) -> Done:
    known = {"XDG_CACHE_HOME": cache, "TRIAGE_HISTORY": "off", "PYTHONDONTWRITEBYTECODE": "1"} | environment
    return subprocess.run(
        [*TRIAGE, *arguments], capture_output=True, env=known, timeout=60, preexec_fn=limits, check=False
    )


def one_line(done: Done, code: int, part: str) -> None:
    told = done.stderr.decode()
    assert done.returncode == code, told
    assert told.startswith("triage: ") and told.count("\n") == 1 and part in told, told


def test_the_same_bytes_without_a_home_in_any_locale_and_under_any_mask(log: Path, cache_home: str) -> None:
    surroundings: list[dict[str, str]] = [
        {"HOME": "/nowhere", "LC_ALL": "zh_CN.UTF-8", "LANG": "zh_CN.UTF-8"},
        {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "TZ": "Pacific/Kiritimati"},
        {"LC_ALL": "C", "PYTHONHASHSEED": "77", "COLUMNS": "40", "TERM": "xterm"},
    ]
    limits: list[Callable[[], None]] = [lambda: None, lambda: os.umask(0o777) and None, few_handles]
    done = [
        run("explain", str(log), cache=cache_home, limits=limit, **known)
        for known, limit in zip(surroundings, limits, strict=True)
    ]
    assert {(one.returncode, one.stderr) for one in done} == {(0, b"")}
    assert len({one.stdout for one in done}) == 1
    assert b"gpu/fallen-off-bus" in done[0].stdout


def few_handles() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def test_many_files_and_few_handles(tmp_path: Path, cache_home: str) -> None:
    for number in range(300):
        (tmp_path / f"rank{number}.log").write_text(f"[rank{number}]: step {number}\n")
    (tmp_path / "dmesg.txt").write_text(LINE)
    done = run("explain", str(tmp_path), "--format", "json", cache=cache_home, limits=few_handles)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hypotheses"][0]["cause"] == "gpu/fallen-off-bus"


def small_files() -> None:
    """A disk with 4 KiB left, as far as a process can tell: each file ends there with an error."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_a_full_disk_leaves_no_report(log: Path, tmp_path: Path, cache_home: str) -> None:
    page = tmp_path / "report.html"
    done = run("report", str(log), "-o", str(page), cache=cache_home, limits=small_files)
    one_line(done, 2, str(page))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_full_disk_for_cache_and_history_costs_no_answer(log: Path, tmp_path: Path) -> None:
    known = {"TRIAGE_HISTORY": str(tmp_path / "history.sqlite")}
    done = run("explain", str(log), cache=str(tmp_path / "cache"), limits=small_files, **known)
    assert done.returncode == 0
    assert b"gpu/fallen-off-bus" in done.stdout
    assert b"Traceback" not in done.stderr and done.stderr.count(b"\n") <= 1
    assert not list((tmp_path / "cache").rglob("*.hsdb"))
    assert not list((tmp_path / "cache").rglob(".new-*"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [["explain", "LOG"], ["lookup", "79"], ["signature", "list"]])
def test_a_full_standard_output(log: Path, cache_home: str, arguments: list[str]) -> None:
    command = [*TRIAGE, *(str(log) if each == "LOG" else each for each in arguments)]
    known = {"XDG_CACHE_HOME": cache_home, "TRIAGE_HISTORY": "off"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=known, timeout=60, check=False)
    one_line(done, 1, "No space left on device")


def test_a_reader_that_goes_away(cache_home: str) -> None:
    pipe = subprocess.PIPE
    known = {"XDG_CACHE_HOME": cache_home}
    process = subprocess.Popen([*TRIAGE, "signature", "list"], stdout=pipe, stderr=pipe, env=known)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert (process.wait(60), process.stderr.read()) == (141, b"")
    process.stderr.close()


@pytest.mark.parametrize(("number", "code", "told"), [(signal.SIGINT, 130, b"interrupted"), (signal.SIGTERM, -15, b"")])
def test_signals(tmp_path: Path, cache_home: str, number: signal.Signals, code: int, told: bytes) -> None:
    """While it waits for standard input, so that the signal surely arrives in the middle."""
    pipe, known = subprocess.PIPE, {"XDG_CACHE_HOME": cache_home, "TRIAGE_HISTORY": "off", "TMPDIR": str(tmp_path)}
    command = [*TRIAGE, "explain", "-", "-o", str(tmp_path / "answer.json")]
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=known)
    assert process.stdin is not None
    process.stdin.write(LINE.encode())
    process.stdin.flush()
    wait_for_read(process.pid)
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, b"")
    assert told in error and b"Traceback" not in error
    assert list(tmp_path.iterdir()) == []


def wait_for_read(pid: int) -> None:
    """Until the process sleeps in a pipe: modules are loaded and the evidence is being read."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if "pipe" in Path(f"/proc/{pid}/wchan").read_text() or _reads_stdin(pid):
            return
        time.sleep(0.02)


def _reads_stdin(pid: int) -> bool:
    """Where the kernel does not tell what a process sleeps in: the call it is in, read (0) of handle 0 on x86-64."""
    try:
        return Path(f"/proc/{pid}/syscall").read_text().startswith("0 0x0 ")
    except OSError:
        return False


@pytest.mark.parametrize("place", ["/proc/answer.json", "/sys/answer.json", "nowhere/answer.json", "a" * 300 + ".json"])
def test_places_that_take_no_file(log: Path, tmp_path: Path, place: str) -> None:
    target = place if place.startswith("/") else str(tmp_path / place)
    done = CliRunner().invoke(cli, ["explain", str(log), "-o", target], standalone_mode=False)
    assert isinstance(done.exception, Exception)
    assert "\n" not in str(done.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only(log: Path, tmp_path: Path, cache_home: str) -> None:
    tmp_path.chmod(0o555)
    one_line(run("explain", str(log), "-o", str(tmp_path / "a.json"), cache=cache_home), 2, "Permission denied")
    assert run("explain", str(log), cache=str(tmp_path / "cache")).returncode == 0


def test_a_clock_that_jumps_back_changes_nothing(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer() -> str:
        return CliRunner().invoke(cli, ["explain", str(log), "--format", "json"], standalone_mode=False).output

    usual, ticks = answer(), iter(range(10**9, 0, -86_400))
    monkeypatch.setattr("time.time", lambda: float(next(ticks)))
    assert answer() == usual


@pytest.mark.parametrize("name", ["--help", "-o", "-"])
def test_names_that_look_like_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(LINE)
    told = f"./{name}" if name == "-" else name
    shown = CliRunner().invoke(cli, ["explain", "--format", "json", "--", told], standalone_mode=False)
    assert json.loads(shown.output)["hypotheses"][0]["evidence"][0]["file"] == name
