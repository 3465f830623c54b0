"""The manifest of a bundle says more than paths do, and what is not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from triage.bundle.opening import open_evidence

MANIFEST: dict[str, Any] = {
    "schema": "triage.bundle/1",
    "job": "1234",
    "files": [
        {"path": "job/stdout/out.log", "node": None, "source": "torch_log", "truncated": True},
        {"path": "nodes/a/x/dmesg.txt", "node": "node017.example", "rank": 3, "pid": 7, "source": "no_such_source"},
        {"path": "../../etc/passwd", "node": "evil"},
        "not a row",
    ],
    "ledger": [
        {"collector": "kernel_log", "node": "node017", "planned": True, "ran": True, "exit_code": 0, "bytes": 5},
        {"collector": "kernel_log", "node": "node018", "planned": True, "ran": False},
        {"collector": "nvidia_smi", "node": "node018", "ran": True, "timed_out": True, "exit_code": -9},
        {"collector": "fabric", "node": "node019", "denied": ["/var/log/fabricmanager.log"]},
        {"collector": "stdout", "node": None, "ran": True, "exit_code": 1, "bytes": 0},
        {"collector": "big", "node": "node017", "truncated": True},
    ],
}


def bundle(folder: Path, manifest: Any) -> Path:
    for name in ("job/stdout/out.log", "nodes/a/x/dmesg.txt"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(b"x\n")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.mark.parametrize("base", ["", "triage-job1234"])
def test_files_and_ledger(tmp_path: Path, base: str) -> None:
    bundle(tmp_path / base / "." if base else tmp_path, MANIFEST)
    with open_evidence([str(tmp_path)], recognise=lambda head, tail: ("slurm", "torch_log")) as evidence:
        assert evidence.manifest == MANIFEST
        out, dmesg = evidence.files
        assert (out.sources, out.truncated, out.node) == (("torch_log", "slurm"), True, None)
        assert (dmesg.node, dmesg.rank, dmesg.pid, dmesg.sources) == ("node017.example", 3, 7, ("slurm", "torch_log"))
        assert [(gap.what, gap.why, gap.node) for gap in evidence.gaps] == [
            ("stdout", "not collected", None),
            ("big", "truncated", "node017"),
            ("kernel_log", "not collected", "node018"),
            ("nvidia_smi", "timed out", "node018"),
            ("fabric", "denied", "node019"),
        ]


@pytest.mark.parametrize(
    "manifest", [{"schema": "sos"}, [], "x", {"schema": "triage.bundle/1", "files": 3, "ledger": {}}]
)
def test_other_manifests_do_no_harm(tmp_path: Path, manifest: Any) -> None:
    bundle(tmp_path, manifest)
    with open_evidence([str(tmp_path)]) as evidence:
        ours = isinstance(manifest, dict) and manifest["schema"].startswith("triage")
        assert (evidence.manifest == manifest) is ours
        assert len(evidence.files) == (2 if ours else 3)
        assert evidence.gaps == []
