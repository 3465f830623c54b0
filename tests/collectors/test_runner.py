"""Whatever a collector meets, the stream ends well and its ledger says what happened."""

from __future__ import annotations

import gzip
import os
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

from collectors.running import Sent, command, module, packed, sent
from triage.transport import packing


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Sent:
    """One run with a collector for each kind of trouble."""
    folder = tmp_path_factory.mktemp("faults")
    big, packed_file = folder / "big.log", folder / "old.log.gz"
    big.write_bytes(b"first line\n" + b"x" * 99 + b"\n" + b"middle\n" * 3000 + b"last line\n")
    packed_file.write_bytes(gzip.compress(b"inside password=hunter2hunter2\n"))
    os.mkfifo(folder / "fifo")
    (folder / "link.log").symlink_to("/etc/passwd")
    (folder / "a:b.log").write_text("colon\n")
    modules = {
        "good": module("good", "run.command(['echo', 'hello'], 'hello.txt')"),
        "hangs_inside": module("hangs_inside", "run.text('before.txt', 'kept'); time.sleep(100)", 3),
        "hangs_outside": module("hangs_outside", "run.command(['sleep', '1000.5'], seconds=50)", 3),
        "slow_program": module("slow_program", "run.command(['sh', '-c', 'echo early; sleep 99'], 's', seconds=1.5)"),
        "floods": module("floods", "run.command(['yes', 'flood'], 'y.txt', cap=10000)"),
        "refused": module("refused", "run.command(['sh', '-c', 'echo x: Permission denied; exit 1'], 'r.txt')"),
        "raises": module("raises", "1 / 0"),
        "killed": module("killed", "run.text('k.txt', 'kept'); os.kill(os.getpid(), 9)"),
        "absent": module("absent", "run.command(['no-such-program'])"),
        "not_here": module("not_here", "pass", needs="no-such|/no/such"),
        "broken": "def collect(:\n",
        "tail": module("tail", f"run.file({str(big)!r}, cap=2000, head=200)"),
        "files": module("files", f"run.tree('{folder}/*', cap=100000); run.file('{folder}/fifo', 'f')"),
        "orphans": module("orphans", "run.command(['sh', '-c', 'sleep 1001.5 & echo started'], 'o.txt')"),
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        return sent(packed(patch, folder, modules), 40)  # ended far earlier, unless the machine is busy


def test_every_planned_collector_has_a_row(faults: Sent) -> None:
    assert set(faults.rows) == set(faults.begin["planned"])
    assert len(faults.rows) == 14
    assert faults.end["seconds"] < 40
    assert all(row["node"] == "node017" for row in faults.rows.values())


def test_a_good_one(faults: Sent) -> None:
    assert faults.files["good/hello.txt"] == b"hello\n"
    assert faults.rows["good"].items() >= {"ran": True, "bytes": 6}.items()
    assert faults.known["good/hello.txt"]["bytes"] == 6


def test_hanging_ones_are_ended_and_what_they_had_is_kept(faults: Sent) -> None:
    assert faults.files["hangs_inside/before.txt"] == b"kept"
    assert faults.rows["hangs_inside"]["timed_out"] is True
    assert faults.rows["hangs_outside"]["timed_out"] == ["sleep 1000.5"]
    assert faults.files["slow_program/s"] == b"early\n"
    assert faults.rows["slow_program"]["timed_out"]
    assert _running("sleep 1000.5") == _running("sleep 1001.5") == 0


def _running(words: str) -> int:
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return sum(1 for line in listed if line.strip() == words)


def test_a_flood_is_stopped_and_its_tail_kept(faults: Sent) -> None:
    assert 5000 < len(faults.files["floods/y.txt"]) <= 10000
    assert faults.rows["floods"]["truncated"] == ["yes flood"]


def test_trouble_has_its_name(faults: Sent) -> None:
    assert faults.rows["refused"]["denied"]
    assert "ZeroDivisionError" in faults.rows["raises"]["failed"][0]
    assert faults.rows["killed"]["failed"] == ["ended with -9"]
    assert faults.files["killed/k.txt"] == b"kept"
    assert faults.rows["absent"]["absent"] == ["no-such-program"]
    assert faults.rows["not_here"].items() >= {"ran": False, "not_applicable": "no-such|/no/such"}.items()
    assert "SyntaxError" in faults.rows["broken"]["failed"][0]


def test_long_files_keep_head_and_tail(faults: Sent) -> None:
    data = faults.files["tail/big.log"]
    assert data.startswith(b"first line\n")
    assert data.endswith(b"last line\n")
    assert len(data) < 2100
    assert faults.known["tail/big.log"]["truncated"] is True


def test_only_regular_files_are_read_and_names_are_safe(faults: Sent) -> None:
    assert "files/link.log" not in faults.files
    assert faults.files["files/a-b.log"] == b"colon\n"
    assert b"hunter2" not in faults.files["files/old.log"]
    assert faults.files["files/old.log"].startswith(b"inside password=secret-")
    assert not any(":" in name for name in faults.files)


@pytest.mark.long
def test_the_deadline_of_the_node_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {f"slow{number}": module(f"slow{number}", "time.sleep(60)", 50) for number in range(9)}
    started = time.monotonic()
    found = sent(packed(monkeypatch, tmp_path, modules), 3)
    assert time.monotonic() - started < 20  # not the 50 s that each may take
    ended = sum(1 for row in found.rows.values() if row.get("timed_out"))
    assert ended <= 4  # as many as run at once
    assert ended + sum(1 for row in found.rows.values() if row.get("skipped")) == 9


@pytest.mark.parametrize("delay", [0.05, 0.4, 0.9])
def test_a_killed_node_leaves_a_readable_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay: float
) -> None:
    modules = {
        f"c{number}": module(f"c{number}", f"time.sleep({number / 5}); run.text('x', 'y')") for number in range(6)
    }
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # what a hard kill leaves is removed with it
    app = packed(monkeypatch, tmp_path, modules)
    with subprocess.Popen(command(app, 8), stdout=subprocess.PIPE) as process:
        time.sleep(delay)
        process.kill()
        assert process.stdout is not None
        data = process.stdout.read()
    from io import BytesIO

    from triage.bundle.writing import Writer
    from triage.transport.receiving import Answer, Receiver, ledger

    writer = Writer(tmp_path / "x.tar.gz", {})
    answer = Answer("node017", time.time())
    Receiver(writer=writer, clean=str, label=str).receive(answer, BytesIO(data))
    rows = ledger(answer, "node017", list(modules), {})
    assert {row["collector"] for row in rows} == {*modules, "node"}
    assert all(kept["bytes"] for kept in writer.files)


def test_folders_are_removed_and_signals_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = packed(monkeypatch, tmp_path, {"slow": module("slow", "time.sleep(60)", 50)})
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with subprocess.Popen(command(app, 30), stdout=subprocess.PIPE) as process:
        deadline = time.monotonic() + 5
        while not list(tmp_path.glob("triage-*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert list(tmp_path.glob("triage-*"))
        time.sleep(0.3)
        process.terminate()
        process.communicate()
    assert process.returncode == 143
    assert not list(tmp_path.glob("triage-*"))


@pytest.mark.long
def test_a_node_without_room_for_clean_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redaction makes this file longer than any file may be here: its row says so, and the others come."""
    names = {"large": module("large", "run.text('a.txt', 'x\\n'); run.text('b.txt', '/home/ab \\n' * 180000)")}
    names["small"] = module("small", "run.text('c.txt', 'y\\n')")
    app = packed(monkeypatch, tmp_path, names)
    limited = ["sh", "-c", 'ulimit -f 4000; exec "$@"', "sh", *command(app, 8)]  # blocks of 512 bytes
    done = subprocess.run(limited, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    found = Sent(done.stdout)
    assert found.rows["large"]["failed"] == ["b.txt: no room here for a clean copy of it"]
    assert sorted(found.files) == ["large/a.txt", "small/c.txt"]


def test_compiled_collectors_do_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where one is no Python, and under a Python that cannot read what this one compiled."""
    modules = {"good": module("good", "run.text('a.txt', 'x\\n')"), "broken": "def ("}
    packed(monkeypatch, tmp_path, modules)
    plain, ready = tmp_path / "plain.pyz", tmp_path / "ready.pyz"
    request = {"only": ["good", "broken"], "key": "07" * 32}
    plain.write_bytes(packing.pack(request))
    ready.write_bytes(packing.pack(request, compiled=True))
    monkeypatch.setattr("importlib.util.MAGIC_NUMBER", b"\x00\x00\r\n")
    (tmp_path / "other.pyz").write_bytes(packing.pack(request, compiled=True))
    for app in (plain, ready, tmp_path / "other.pyz"):
        found = sent(app)
        assert found.files == {"good/a.txt": b"x\n"}
        assert "SyntaxError" in found.rows["broken"]["failed"][0]
    assert "good.pyc" in zipfile.ZipFile(ready).namelist()
