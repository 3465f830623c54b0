"""A disk that is really full: a file system of a few megabytes, as root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from transport.collected import explained

SIZE = 4 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system of its own can be mounted as root only")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def triage(disk: Path, *words: str) -> tuple[int, list[str]]:
    """Exit code and the lines of standard error."""
    command = [sys.executable, "-m", "triage", *words]
    done = subprocess.run(command, cwd=disk, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr.splitlines()


@pytest.mark.long
def test_collecting_keeps_what_came(tmp_path: Path, disk: Path) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"".join(b"step %09d loss 2.5\n" % number for number in range(300000)))
    code, said = triage(disk, "collect", "--only", "proc_stat,job_logs", "--include", str(log), "-o", "b.tar.zst")
    folder = disk / "b.tar.zst.partial"
    assert (code, said) == (1, [f"triage: no space left; what was collected is in {folder}: triage explain reads it"])
    assert {path.name for path in disk.iterdir()} == {"b.tar.zst.partial", "b.tar.zst.key.json"}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {row["path"].split("/")[-1]: row["truncated"] for row in manifest["files"]}["train.log"] is True
    assert {row["collector"] for row in manifest["ledger"] if row.get("failed")} == {"node", "job_logs"}
    gaps = {gap["what"]: gap["why"] for gap in explained(disk, "b.tar.zst.partial")["gaps"]}
    assert gaps["job_logs"] == "not collected"


def test_no_room_at_all(disk: Path) -> None:
    (disk / "fill").write_bytes(bytes(SIZE - (64 << 10)))
    code, said = triage(disk, "collect", "--only", "proc_stat", "-o", "b.tar.zst")
    assert (code, said) == (1, [f"triage: {disk}: No space left on device: name another place with -o"])
    assert [path.name for path in disk.iterdir()] == ["fill"]


@pytest.mark.parametrize("name", ["clean.tar.zst", "clean.log"])
def test_redacting_leaves_nothing(tmp_path: Path, disk: Path, name: str) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(os.urandom(SIZE))
    code, said = triage(disk, "redact", str(log), "-o", name)
    assert (code, len(said)) == (3, 1)
    assert "o space left" in said[0]
    assert not list(disk.iterdir())
