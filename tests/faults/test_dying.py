"""Killed at every step: nothing half-written stands under its final name, and what is left can be read."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from triage.bundle.opening import open_evidence
from triage.matching import cache

SCRIPT = Path(__file__).with_name("dying.py")


def died(what: str, folder: Path, least: int) -> list[Path]:
    """The folders that the dead left."""
    command = [sys.executable, str(SCRIPT), what, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= least
    return [folder / f"{number:03d}" for number in range(1, int(done.stdout) + 1)]


def test_a_report_is_whole_or_not_there(tmp_path: Path) -> None:
    new, seen = "new " * 50_000, set()
    for folder in died("report", tmp_path, 6):
        fresh, old = folder / "fresh.html", (folder / "old.html").read_text()
        assert not fresh.exists() or fresh.read_text() == new
        assert old in ("old", new)
        seen.add((fresh.exists(), old == new))
    assert seen >= {(False, False), (True, False)}


def test_a_bundle_is_whole_or_its_folder_can_be_read(tmp_path: Path) -> None:
    whole = 0
    for folder in died("bundle", tmp_path, 20):
        archive, partial = folder / "b.tar.gz", folder / "b.tar.gz.partial"
        if archive.exists():
            whole += 1
            with tarfile.open(archive) as packed:
                assert len(packed.getnames()) == 4
            with open_evidence([str(archive)]) as evidence:
                assert evidence.gaps == []
        elif partial.exists():
            with open_evidence([str(partial)]) as evidence:
                assert all(gap.why != "unparsable" for gap in evidence.gaps), evidence.gaps
    assert whole


def test_an_entry_of_the_cache_is_whole_or_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for folder in died("cache", tmp_path, 6):
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
        assert cache.read("old") in (b"old" * 50_000, b"new" * 50_000)
        assert cache.read("fresh") in (None, b"new" * 50_000)
        seen.add(cache.read("old"))
    assert len(seen) == 2
