"""Running `triage collect` as a user does, and looking into the bundle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from triage.bundle.opening import open_evidence

QUICK = "kernel_log,proc_stat,limits,job_logs"  # collectors that are done in a moment


class Bundle:
    """A bundle: its ledger by node and collector, its files, its texts."""

    def __init__(self, path: Path) -> None:
        with open_evidence([str(path)]) as evidence:
            assert evidence.manifest is not None
            self.manifest: dict[str, Any] = evidence.manifest
            self.files = {file.path: evidence.read(file) for file in evidence.files}
            self.gaps = evidence.gaps
        self.rows = {(row["node"], row["collector"]): row for row in self.manifest["ledger"]}

    def row(self, node: str | None, collector: str = "node") -> dict[str, Any]:
        return self.rows[node, collector]


def collect(
    folder: Path, *arguments: str, environment: dict[str, str] | None = None, output: str = "b.tar.zst"
) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "triage", "collect", "-o", output, *arguments],
        cwd=folder, env=environment or dict(os.environ), capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def explained(folder: Path, name: str = "b.tar.zst") -> dict[str, Any]:
    """The report on a bundle."""
    done = subprocess.run(
        [sys.executable, "-m", "triage", "explain", name, "--format", "json"],
        cwd=folder, capture_output=True, text=True, timeout=90, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fault() -> str:
    """A kernel log of now in which a GPU falls off the bus; its first line is harmless."""
    stamp = time.strftime("[%a %b %d %H:%M:%S %Y]")
    return (
        f"{stamp} NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
        f"{stamp} NVRM: GPU at PCI:0000:9b:00: GPU-7d3f6a1e-2c44-4b8a-9d11-0f1e2d3c4b5a\n"
        f"{stamp} NVRM: Xid (PCI:0000:9b:00): 79, pid=4021, name=python, GPU has fallen off the bus.\n"
        f"{stamp} NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.\n"
    )


HANGING = """\
import time

NAME, TITLE, NEEDS, SECONDS = "site_hangs", "Hangs on one node", (), 60


def collect(run):
    if run.node == "{node}":
        run.text("before.txt", "what it had")
        run.command(["sleep", "987"], seconds=500)
"""
