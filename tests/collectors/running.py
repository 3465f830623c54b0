"""Running the zipapp with collectors of a test's own, and reading what it sends."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from triage.transport import packing


class Sent:
    """A node's stream, taken apart: ledger rows by collector, files by name, the first and the last word."""

    def __init__(self, data: bytes) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.known: dict[str, dict[str, Any]] = {}
        self.begin: dict[str, Any] = {}
        self.end: dict[str, Any] = {}
        with tarfile.open(fileobj=io.BytesIO(data), mode="r|gz") as archive:
            for info in archive:
                source = archive.extractfile(info)
                assert source is not None
                self._take(info.name, source.read())

    def _take(self, name: str, data: bytes) -> None:
        if name == "_ledger/_begin.json":
            self.begin = json.loads(data)
        elif name == "_ledger/_end.json":
            self.end = json.loads(data)
        elif name.startswith("_ledger/"):
            said = json.loads(data)
            self.rows[said["row"]["collector"]] = said["row"]
            self.known |= {one["path"]: one for one in said["files"]}
        else:
            self.files[name] = data


def packed(monkeypatch: pytest.MonkeyPatch, folder: Path, modules: dict[str, str], **request: Any) -> Path:
    """A zipapp that holds these collectors beside ours, and runs only these unless `only` is given."""
    own = folder / "content" / "collectors"
    own.mkdir(parents=True, exist_ok=True)
    for name, text in modules.items():
        (own / f"{name}.py").write_text(text)
    monkeypatch.setenv("TRIAGE_CONTENT", str(folder / "content"))
    app = folder / "c.pyz"
    app.write_bytes(packing.pack({"only": list(modules), "key": "07" * 32} | request))
    return app


def command(app: Path, seconds: float) -> list[str]:
    """How a node runs it."""
    return [sys.executable, "-I", "-S", str(app), "node017", f"--seconds={seconds}"]


def sent(app: Path, seconds: float = 8) -> Sent:
    """Run it and take the answer apart. It must always end well."""
    done = subprocess.run(command(app, seconds), capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return Sent(done.stdout)


def module(name: str, body: str, seconds: int = 3, needs: str = "") -> str:
    """The text of a collector."""
    head = f"NAME, TITLE, NEEDS, SECONDS = {name!r}, 'Test', {(needs,) if needs else ()}, {seconds}"
    return f"import os, time\n\n{head}\n\n\ndef collect(run):\n    {body}\n"
