"""A real sshd under several names: healthy, hanging, refusing, dark."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from services import sshd
from transport.collected import HANGING, QUICK, Bundle, collect, explained, fault

pytestmark = pytest.mark.skipif(sshd.missing() is not None, reason=str(sshd.missing()))


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with sshd.running(tmp_path_factory.mktemp("sshd")) as command:
        yield command


@pytest.mark.parametrize("way", ["tree", pytest.param("plain", marks=pytest.mark.long)])
def test_healthy_hanging_refusing_and_dark(tmp_path: Path, ssh: str, way: str) -> None:
    """One deadline for all: complete for the healthy, honest for the others, and the fault has its node."""
    if way == "tree":
        pytest.importorskip("ClusterShell")
    else:
        _without_clustershell(tmp_path)
    (tmp_path / "content" / "collectors").mkdir(parents=True)
    (tmp_path / "content" / "collectors" / "site_hangs.py").write_text(HANGING.replace("{node}", "node2"))
    for name in ("node1", "node2"):
        (tmp_path / "logs" / name).mkdir(parents=True)
        (tmp_path / "logs" / name / "kern.log").write_text(
            fault() if name == "node2" else fault().splitlines()[0] + "\n"
        )
    environment = dict(os.environ, TRIAGE_CONTENT=str(tmp_path / "content"), PYTHONPATH=str(tmp_path / "path"))
    started = time.monotonic()
    code, out, errors = collect(
        tmp_path, "--nodelist", "node[1-2],refused,dark", "--ssh", ssh, "--timeout", "8", "--skip", "kernel_log",
        "--only", f"{QUICK},site_hangs", "--include", f"{tmp_path}/logs/{{node}}/*.log", environment=environment,
    )  # fmt: skip
    assert time.monotonic() - started < 14
    assert code == 6, errors
    assert "2 of 4 nodes answered in full" in out
    _check(Bundle(tmp_path / "b.tar.zst"))
    first = explained(tmp_path)["hypotheses"][0]
    assert (first["cause"], first["culprits"][0]["node"]) == ("gpu/fallen-off-bus", "node2")


def _without_clustershell(folder: Path) -> None:
    """A path in front of all others on which ClusterShell is no package."""
    (folder / "path").mkdir()
    (folder / "path" / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'ClusterShell' else find(name, *a)\n"
    )


def _check(bundle: Bundle) -> None:
    assert bundle.row("node1").items() >= {"ran": True}.items()
    assert bundle.row("node1", "site_hangs")["ran"] is True
    assert bundle.row("node2", "site_hangs")["timed_out"]
    assert bundle.files["nodes/node2/site_hangs/before.txt"] == b"what it had"
    assert "denied" in bundle.row("refused")
    assert "failed" in bundle.row("dark")
    planned = set(bundle.manifest["collectors"])
    for node in ("node1", "node2", "refused", "dark"):
        assert {name for one, name in bundle.rows if one == node} == planned | {"node"}
    said = {(gap.what, gap.why, gap.node) for gap in bundle.gaps}
    assert said == {
        ("the whole node", "denied", "refused"), ("the whole node", "not collected", "dark"),
        ("site_hangs", "timed out", "node2"),
    }  # fmt: skip


def test_the_same_value_is_the_same_token_on_every_node(tmp_path: Path, ssh: str) -> None:
    log = tmp_path / "a.log"
    log.write_text("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567 user alice@example-labs.com\n")
    collect(tmp_path, "--nodelist", "node[1-3]", "--ssh", ssh, "--only", "job_logs", "--include", str(log))
    found = [data for path, data in Bundle(tmp_path / "b.tar.zst").files.items() if path.endswith("a.log")]
    assert len(found) == 3
    assert len(set(found)) == 1
    assert b"API_KEY=wandb-key-" in found[0]
    assert b"email-" in found[0]
