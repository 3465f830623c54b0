"""The cache of compiled databases: used when it is sound, never needed."""

from __future__ import annotations

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
