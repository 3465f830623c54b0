"""Every document fixture is recognised as its own source, before all others, and gives facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.build import facts
from triage.parsers import recognise

ROOT = Path(__file__).parents[2] / "fixtures" / "parsers"
SOURCES = ("flight_recorder", "nccl_ras", "step_times", "memory_snapshot", "kineto")
FILES = [path for source in SOURCES for path in sorted((ROOT / source).rglob("*")) if path.is_file()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_fixture(path: Path) -> None:
    source, data = path.relative_to(ROOT).parts[0], path.read_bytes()
    assert recognise(data[:65536], data[-65536:])[:1] == (source,)
    found = facts(source, data, path.name)
    assert len(found) > 2
    assert not [fact for fact in found if fact.name.endswith("unreadable")]
