"""YAML of a team's own: signatures and playbooks that are no signatures and no playbooks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.targets import Target
from triage import content
from triage.model.playbook import Playbook
from triage.model.signature import Signature


def targets() -> Iterator[Target]:
    """One for each kind of file."""
    for folder, kind in (("signatures", Signature), ("playbooks", Playbook)):
        files = [path for path in content.files(folder) if path.stat().st_size < 6_000]
        samples = tuple(path.read_bytes() for path in files[:: max(1, len(files) // 20)])
        yield Target(folder, samples, lambda data, kind=kind: _read(data, kind), share=0.1)


def _read(data: bytes, kind: Any) -> None:
    """A record, or faults that each name a line."""
    marked = content.Marked(Path("own.yaml"), data.decode("utf-8", "replace"))
    record = content.convert(marked, kind) if not marked.faults else None
    assert (record is None) == bool(marked.faults)
    assert all(fault.startswith("own.yaml:") for fault in marked.faults), marked.faults
