"""A bundle that a release has written is read by every later one: one of each release, made by its `triage collect`.

Each is of a machine of two cores, with the beginning of an output in which rank 1 of two ran out of memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from triage import explain
from triage.bundle.opening import open_evidence

BUNDLES = sorted((Path(__file__).parents[2] / "fixtures" / "bundles").glob("*.tar.*"))


def test_there_is_one() -> None:
    assert BUNDLES


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.name)
def test_a_bundle_of_a_release(path: Path) -> None:
    with open_evidence([str(path)]) as evidence:
        assert evidence.gaps == []
        assert evidence.manifest is not None
        assert evidence.manifest["schema"] == "triage.bundle/1"
        rows = {row["path"]: row for row in evidence.manifest["files"]}
        assert {file.path: file.size for file in evidence.files} == {name: row["bytes"] for name, row in rows.items()}
        assert {file.node for file in evidence.files} == {row["node"] for row in rows.values()}
    first = explain(str(path)).hypotheses[0]
    assert first.cause == "memory/gpu-capacity"
    assert [culprit.rank for culprit in first.culprits] == [1]
