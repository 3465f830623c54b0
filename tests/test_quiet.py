"""Healthy logs stay quiet: no root cause in them, and no hypothesis about them.

fixtures/quiet/<source>/ holds what healthy runs, tools and machines print; the public healthy incidents are read where
they lie, beside the checkout, and skipped without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from triage.bundle.opening import open_evidence
from triage.model.incident import Incident
from triage.parsers import recognise
from triage.pipeline import reason, understand
from triage.vocabulary import sources

ROOT = Path(__file__).resolve().parents[1]
QUIET = ROOT / "fixtures" / "quiet"
CASES = ROOT.parent / "shared" / "cases"
FILES = sorted(path for path in QUIET.rglob("*") if path.is_file())
LEAST = 25


def healthy() -> list[Path]:
    """Evidence of the incidents whose truth is that nothing is wrong."""
    truths = sorted(CASES.glob("*/truth.yaml")) if CASES.is_dir() else []
    return [path.parent / "evidence" for path in truths if yaml.safe_load(path.read_text())["cause"] == "healthy"]


def understood(path: Path) -> Incident:
    with open_evidence([str(path)], recognise=recognise) as evidence:
        return understand(evidence)


def causes(incident: Incident) -> Iterator[str]:
    """Signals that name a root cause and are no mere information."""
    for placed in incident.signals:
        signature = placed.signal.signature
        if signature.role == "root-cause" and signature.severity != "info":
            yield f"{signature.id}: {placed.signal.event.text[:120]}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(QUIET).as_posix())
def test_nothing_is_wrong(path: Path) -> None:
    incident = understood(path)
    assert list(causes(incident)) == []
    report = reason(incident)
    assert [hypothesis.cause for hypothesis in report.hypotheses] == []
    assert report.verdict in {"healthy", "inconclusive"}


@pytest.mark.parametrize("path", healthy(), ids=lambda path: path.parent.name)
def test_public_healthy_evidence_gives_no_hypothesis(path: Path) -> None:
    report = reason(understood(path))
    assert [hypothesis.cause for hypothesis in report.hypotheses] == []
    assert report.verdict == "healthy"


def test_there_are_enough_of_many_kinds() -> None:
    kinds = {path.parent.name for path in FILES}
    assert len(FILES) >= LEAST
    assert kinds - {"other"} <= set(sources())
    assert len(kinds) >= 8


@pytest.mark.parametrize("kind", sorted({path.parent.name for path in FILES} - {"other"}))
def test_they_are_recognised_as_what_they_are(kind: str) -> None:
    """Otherwise weak signatures would not even be tried on them."""
    for path in (path for path in FILES if path.parent.name == kind):
        head = path.read_bytes()
        assert recognise(head[:65_536], head[-65_536:]), path.name
