"""Jobs that go on after a lasting fallback: as fast as before, slower, or with nothing to compare."""

from __future__ import annotations

from pathlib import Path

import pytest

import triage
from triage.model.report import Report

HIDDEN = (
    "node1:70:70 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_9.",
    "node1:70:502 [0] NCCL INFO NET/IB : No device found.",
)


def steps(first: int, last: int, begin: float, seconds: float) -> list[str]:
    out = []
    for number in range(first, last):
        now = begin + (number - first) * seconds
        clock = f"{int(now // 3600) % 24:02d}:{int(now // 60) % 60:02d}:{now % 60:06.3f}"
        out.append(f"[2026-03-02 {clock}] step {number} loss 2.1")
    return out


def answer(folder: Path, *lines: str) -> Report:
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    return triage.explain(str(folder))


def middle(seconds: float) -> list[str]:
    """Forty steps of a second, the fallback, forty steps of so many."""
    return [*steps(0, 40, 3600, 1.0), *HIDDEN, *steps(40, 80, 3641, seconds)]


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ([*HIDDEN, *steps(0, 40, 3600, 1.0)], "suspected"),
        (middle(1.0), "healthy"),
        (middle(1.03), "healthy"),
        (middle(4.0), "suspected"),
        ([*steps(0, 2, 3600, 1.0), *HIDDEN, *steps(2, 40, 3603, 1.0)], "suspected"),
        ([HIDDEN[1], *steps(0, 40, 3600, 1.0)], "healthy"),
    ],
    ids=["nothing before", "as fast", "within the noise", "slower", "too few before", "nobody asked for one"],
)
def test_verdicts(lines: list[str], verdict: str, tmp_path: Path) -> None:
    report = answer(tmp_path, *lines)
    assert report.verdict == verdict
    if verdict == "suspected":
        assert report.hypotheses[0].cause == "network/rdma-config"
        assert 0.4 <= report.hypotheses[0].confidence < 0.7
        assert any(each.startswith("Training went on") for each in report.hypotheses[0].against)


def test_a_job_that_ended_with_it_is_not_weakened(tmp_path: Path) -> None:
    """The cap is for jobs that went on."""
    error = "node1:70:502 [0] NCCL WARN NET/OFI Unable to find a protocol that worked.  Failing initialization"
    ended = answer(tmp_path, error, "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1, unhandled system error")
    went_on = answer(tmp_path, error, *steps(0, 40, 3600, 1.0))
    of = [
        next(each.confidence for each in r.hypotheses if each.cause == "network/plugin-fallback")
        for r in (ended, went_on)
    ]
    assert of[0] > of[1]
