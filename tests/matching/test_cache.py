"""The cache of compiled databases: used when it is sound, never needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.matching.building import signature
from triage.matching import cache
from triage.matching.engines import Hyperscan
from triage.matching.scanner import Scanner

LOST = signature("gpu/lost", r"card (?P<gpu>\d+) is lost")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TRIAGE_CACHE", raising=False)
    return tmp_path / "triage"


def scans() -> bool:
    return len(Scanner([LOST], (), Hyperscan).scan(b"card 3 is lost\n").hits) == 1


def test_it_is_written_once_and_read_again(folder: Path) -> None:
    assert scans()
    (stored,) = folder.glob("*.hsdb")
    before = stored.stat().st_mtime_ns
    assert scans()
    assert stored.stat().st_mtime_ns == before
    assert not list(folder.glob(".new-*"))


@pytest.mark.parametrize("damage", [b"", b"x" * 10, b"y" * 5_000, None])
def test_damage_is_noticed(folder: Path, damage: bytes | None) -> None:
    assert scans()
    (stored,) = folder.glob("*.hsdb")
    whole = stored.read_bytes()
    stored.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert scans()
    assert stored.read_bytes() == whole


def test_a_sound_file_that_is_no_database(folder: Path) -> None:
    assert scans()
    (stored,) = folder.glob("*.hsdb")
    cache.write(stored.stem, b"not a database")
    assert scans()


def test_it_can_be_turned_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_CACHE", "off")
    assert scans()
    assert not folder.exists()


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file stands here")
    assert scans()


def stored_by(folder: Path) -> Path:
    assert scans()
    (stored,) = folder.glob("*.hsdb")
    return stored


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = stored_by(folder)
    os.chown(stored, 12345, 12345)
    assert cache.read(stored.stem) is None
    assert scans()


def test_a_file_that_others_may_write_is_not_loaded(folder: Path) -> None:
    stored = stored_by(folder)
    for mode, read in ((0o666, False), (0o620, False), (0o644, True), (0o400, True)):
        stored.chmod(mode)
        assert (cache.read(stored.stem) is not None) is read, oct(mode)
    assert scans()


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_file_is_not_loaded(folder: Path, tmp_path: Path, kind: str) -> None:
    stored = stored_by(folder)
    moved = stored.rename(tmp_path / "elsewhere")
    {"link": lambda: stored.symlink_to(moved), "folder": stored.mkdir, "pipe": lambda: os.mkfifo(stored)}[kind]()
    assert cache.read(stored.stem) is None
    assert scans()


def test_deleted_while_it_is_used(folder: Path) -> None:
    scanner = Scanner([LOST], (), Hyperscan)
    assert len(scanner.scan(b"card 3 is lost\n").hits) == 1
    shutil.rmtree(folder)
    assert len(scanner.scan(b"card 4 is lost\n").hits) == 1
    assert scans()


# Some signatures of the catalogue over their own examples: what a process answers with its cache as it is.
ANSWER = """
from triage.matching.engines import Hyperscan
from triage.matching.loading import catalogue
from triage.matching.scanner import Scanner
some = list(catalogue().values())[::30]
text = "\\n".join(each.text for one in some for each in one.examples.matches).encode()
print(Scanner(some, (), Hyperscan).scan(text).hits)
"""


def processes(folder: Path, count: int = 1, **environment: str) -> set[bytes]:
    """What so many processes answer at once; they end well and say nothing on stderr."""
    known = {key: value for key, value in os.environ.items() if key != "HOME"} | {"XDG_CACHE_HOME": str(folder)}
    pipe = subprocess.PIPE
    some = [
        subprocess.Popen([sys.executable, "-c", ANSWER], env=known | environment, stdout=pipe, stderr=pipe)
        for _ in range(count)
    ]
    told = [process.communicate(timeout=60) for process in some]
    assert [error for _, error in told] == [b""] * count
    assert {process.returncode for process in some} == {0}
    return {answer for answer, _ in told}


@pytest.mark.long
def test_processes_give_one_answer_whatever_the_cache_is(tmp_path: Path) -> None:
    """Four at once into an empty folder; then with every file torn, deleted, in a folder that cannot be made, off."""
    answers = processes(tmp_path / "new", 4)
    stored = list((tmp_path / "new").rglob("*.hsdb"))
    assert stored
    assert not list((tmp_path / "new").rglob(".new-*"))
    for path in stored:
        os.truncate(path, path.stat().st_size // 2)
    answers |= processes(tmp_path / "new", 2)
    shutil.rmtree(tmp_path / "new")
    answers |= processes(tmp_path / "new") | processes(Path("/proc/1")) | processes(tmp_path, TRIAGE_CACHE="off")
    assert len(answers) == 1
    assert len(answers.pop()) > 500


def test_writers_at_once(folder: Path) -> None:
    payloads = [bytes([number]) * 200_000 for number in range(8)]
    threads = [threading.Thread(target=cache.write, args=("key", payload)) for payload in payloads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.read("key") in payloads


def test_old_files_go(folder: Path) -> None:
    for number in range(30):
        cache.write(f"key{number}", b"payload")
    assert len(list(folder.glob("*.hsdb"))) == 16


def test_many_threads_share_a_scanner() -> None:
    scanner, found = Scanner([LOST], (), Hyperscan), []
    data = b"card 3 is lost\n" * 200

    def scan() -> None:
        found.append(len(scanner.scan(data).hits))

    threads = [threading.Thread(target=scan) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 8
