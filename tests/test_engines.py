"""Where the evidence is scanned changes no byte of the answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from triage import engines
from triage.bundle.opening import open_evidence
from triage.errors import TriageError, UsageError
from triage.pipeline import explain

CLUSTER = """\
import sys
from distributed import LocalCluster
options = dict(n_workers=1, threads_per_worker=2, processes=False, protocol="tcp://", host="127.0.0.1")
print(LocalCluster(dashboard_address=None, **options).scheduler_address, flush=True)
sys.stdin.read()
"""
INCIDENTS = Path(__file__).parents[1] / "fixtures" / "incidents"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler with a worker of two threads in another process."""
    pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    cluster = subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert cluster.stdout is not None
    yield cluster.stdout.readline().strip().removeprefix("tcp://")
    cluster.communicate()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two incidents and an archive of a third, so that something cannot be lent."""
    for name in ("oom-on-one-rank", "rank-killed"):
        shutil.copytree(INCIDENTS / name / "evidence", tmp_path / "logs" / name)
    shutil.make_archive(str(tmp_path / "logs" / "more"), "gztar", INCIDENTS / "cgroup-kill" / "evidence")
    return tmp_path / "logs"


def test_dask_gives_the_same_bytes(address: str, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "PART", 4096)
    local = msgspec.json.encode(explain([str(logs)]))
    assert msgspec.json.encode(explain([str(logs)], engines.engine(f"dask://{address}"))) == local


def test_processes_give_the_same_bytes(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux":
        pytest.skip("copies of this process are made on Linux alone")
    used: list[int] = []
    whole = engines.beside
    monkeypatch.setattr(engines, "beside", lambda own, works: used.append(1 + len(works)) or whole(own, works))
    monkeypatch.setattr(engines, "can_fork", lambda: True)  # threads of pytest's own plugins hold nothing of ours
    alone = msgspec.json.encode(explain([str(logs)]))
    assert not used
    monkeypatch.setattr(engines, "FILES", 2)
    monkeypatch.setenv("TRIAGE_CORES", "3")
    assert msgspec.json.encode(explain([str(logs)])) == alone
    assert used == [3]


def test_a_worker_says_what_it_does_not_have_and_what_went_wrong(logs: Path) -> None:
    with open_evidence([str(logs)]) as evidence:
        items = evidence.lendable()
        known = engines._known()
        whole = engines.scan_part(items, 100, known)
        gone = items[0].file.path
        (logs / gone).unlink()
        part = engines.scan_part(items, 100, known)
        assert not any("more.tar.gz" in item.file.path for item in items)
    assert (whole.absent, part.absent) == ((), (gone,))
    assert whole.matched is not None
    assert part.matched is not None
    assert len(part.matched.summaries) == len(whole.matched.summaries) - 1
    assert engines.scan_part(items, 100, "other").other == known


def test_files_that_workers_lack_are_scanned_here(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = msgspec.json.encode(explain([str(logs)]))
    monkeypatch.setattr(engines, "_connected", lambda _: Elsewhere())
    monkeypatch.setattr(engines, "_gathered", lambda _, parts: parts)
    assert msgspec.json.encode(explain([str(logs)], engines.Dask("host:1"))) == local


class Elsewhere:
    """A cluster whose workers see none of the files."""

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def map(self, function: Any, parts: list[Any], **asked: Any) -> list[engines.Part]:
        del function, asked
        return [engines.Part(absent=tuple(item.file.path for item in part)) for part in parts]


def test_names_of_engines() -> None:
    assert engines.engine("local") is engines.LOCAL
    for name in ("dask", "dask://", "dask://host", "tcp://host:1", "spark://h:1", "dask://h:1/x"):
        with pytest.raises(UsageError, match="say local, or dask"):
            engines.engine(name)


def test_no_scheduler_there(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "PATIENCE", 1)
    with pytest.raises(TriageError, match="no scheduler answers there"):
        explain([str(logs)], engines.engine("dask://127.0.0.1:9"))


def test_other_signatures_are_refused(address: str, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines.content, "digest", lambda: "another")
    with pytest.raises(UsageError, match="same gpu-triage"):
        explain([str(logs)], engines.engine(f"dask://{address}"))


def test_without_the_package_the_extra_is_named(logs: Path) -> None:
    script = "import sys; sys.modules['distributed'] = None; from triage.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "explain", str(logs), "--engine", "dask://127.0.0.1:9"],
        capture_output=True, text=True, check=False, env=dict(os.environ, TRIAGE_HISTORY="off"),
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install 'gpu-triage[dask]'" in done.stderr
    assert done.stderr.count("\n") == 1
