"""Many files are looked at by several processes: what is opened is the same as when one looks at all of them."""

from __future__ import annotations

import gzip
import os
import pickle
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from triage.bundle import gathering
from triage.bundle.blobs import Disk
from triage.bundle.opening import Evidence, open_evidence
from triage.model.bundle import File, Gap

TEST = os.getpid()
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="copies of this process are made on Linux alone")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Files of every kind that opening tells apart, more than there are processes."""
    for number in range(7):
        (tmp_path / f"rank_{number}.log").write_text(f"step {number}\n" * (9 if number < 4 else 20_000))
    (tmp_path / "wide.log").write_text("step 1\n", encoding="utf-16")
    (tmp_path / "packed.log.gz").write_bytes(gzip.compress(b"step 2\n"))
    (tmp_path / "cut.log.gz").write_bytes(gzip.compress(os.urandom(999))[:500])
    (tmp_path / "dump").write_bytes(pickle.dumps({"step": 3}, protocol=2))
    (tmp_path / "binary").write_bytes(b"\x7fELF" + bytes(range(256)) * 9)
    (tmp_path / "empty.log").touch()
    with tarfile.open(tmp_path / "some.tar", "w") as archive:
        archive.add(tmp_path / "rank_0.log", "inside.log")
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as packed:
        packed.writestr("inside.log", "step 4\n" * 9)
    return tmp_path


def recognise(head: bytes, tail: bytes) -> tuple[str, ...]:
    """Tells the process that looked, too."""
    return ("training_log", "here" if os.getpid() == TEST else "elsewhere") if b"step" in head + tail else ()


def seen(evidence: Evidence) -> tuple[list[File], list[bytes], list[Gap]]:
    with evidence:
        texts = [b"".join(chunk.data for chunk in evidence.chunks(file)) for file in evidence.files]
        return list(evidence.files), texts, evidence.gaps


@pytest.mark.parametrize("one_by_one", [False, True])
def test_the_same_files_and_gaps(logs: Path, one_by_one: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(path) for path in sorted(logs.iterdir()) if path.stat().st_size] if one_by_one else [str(logs)]
    paths = [path for path in paths if not path.endswith("cut.log.gz")] if one_by_one else paths
    plain = seen(open_evidence(paths, recognise=lambda head, tail: recognise(head, tail)[:1]))
    monkeypatch.setattr(gathering, "MANY", 2)
    assert seen(open_evidence(paths, recognise=lambda head, tail: recognise(head, tail)[:1], processes=3)) == plain
    lookers = [
        file.sources[1] for file in seen(open_evidence(paths, recognise=recognise, processes=3))[0] if file.sources
    ]
    assert {"here", "elsewhere"} <= set(lookers)


def test_few_files_are_looked_at_here(logs: Path) -> None:
    files = seen(open_evidence([str(logs)], recognise=recognise, processes=3))[0]
    assert {file.sources[1] for file in files if file.sources} == {"here"}


def test_a_file_that_goes_away_while_it_is_looked_at_is_a_gap(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "MANY", 2)
    looks = gathering.Gathering._look_ahead

    def late(self: gathering.Gathering, disks: list[Disk]) -> None:
        if disks:
            (logs / "rank_1.log").unlink()
        looks(self, disks)

    monkeypatch.setattr(gathering.Gathering, "_look_ahead", late)
    files, _, gaps = seen(open_evidence([str(logs)], recognise=recognise, processes=3))
    assert "rank_1.log" not in [file.path for file in files]
    assert [gap.what for gap in gaps if gap.file == "rank_1.log"] == ["a file that went away while it was read"]
