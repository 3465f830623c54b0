"""The measuring scripts themselves, on the processor; only where torch is installed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from triage.checks import children
from triage.checks.children import Job
from triage.model.check import Raw

pytest.importorskip("torch")


def measured(folder: Path, *plant: str) -> dict[str, Raw]:
    words = ("gpu_child", "measure", "{result}", "cpu", "0.2", str(folder / "lock"), *plant)
    ended = children.run([Job("cpu", words)], folder, 60)[0]
    assert not ended.why
    return {raw.name: raw for raw in ended.found}


def test_a_sound_processor_passes(tmp_path: Path) -> None:
    found = measured(tmp_path)
    assert all(raw.ok is not False for raw in found.values())
    assert {"memory pattern", "matrix product", "same product again", "memory bandwidth", "gpu to host"} <= set(found)


@pytest.mark.parametrize(("plant", "figure"), [("product", "matrix product"), ("memory", "memory pattern")])
def test_what_is_planted_is_caught(tmp_path: Path, plant: str, figure: str) -> None:
    assert measured(tmp_path, plant)[figure].ok is False


def test_ranks_reduce_in_pairs_of_nodes_and_all(tmp_path: Path) -> None:
    start = f"file://{tmp_path}/meet"
    jobs = [Job(f"rank {rank}", ("group_child", "ranks", "{result}", str(rank), "3", "1", start, "60", "cpu"))
            for rank in range(3)]  # fmt: skip
    ended = children.run(jobs, tmp_path, 60)
    assert [one.why for one in ended] == ["", "", ""]
    sums = [raw for raw in ended[0].found if raw.name == "all-reduce sums"]
    assert len(sums) == 3, msgspec.json.encode(sums)
    assert all(raw.ok for raw in sums)
