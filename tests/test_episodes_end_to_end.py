"""Restarts, requeues and long kernel logs, through the whole path from files to the answer."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from triage import explain
from triage.model.report import Report
from triage.report.render import text

START = datetime(2026, 3, 4, 10, 0, tzinfo=timezone.utc)
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB "
    "of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.10 GiB memory in use. Of the "
    "allocated memory 76.00 GiB is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch but unallocated."
)
FULL = "OSError: [Errno 28] No space left on device: '/data/run/ckpt/step_40.pt'"


def steps(minute: float, first: int = 1, count: int = 40) -> list[str]:
    """Step lines, one a second."""
    at = [START + timedelta(minutes=minute, seconds=number) for number in range(count)]
    return [
        f"[{when:%Y-%m-%d %H:%M:%S}] [rank 0] step {first + n} loss 2.1 step_time 1000.0 ms"
        for n, when in enumerate(at)
    ]


def failure(message: str) -> list[str]:
    frame = '[rank0]:   File "/workspace/train.py", line 88, in step'
    return ["[rank0]: Traceback (most recent call last):", frame, f"[rank0]: {message}"]


def restarted(attempt: int) -> str:
    return f"SLURM_RESTART_COUNT={attempt}"


def test_a_restart_inside_one_log_the_last_failure_is_answered(tmp_path: Path) -> None:
    agent = (
        "W0304 10:02:00.000000 900 torch/distributed/elastic/agent/server/api.py:900] [default] Worker group FAILED. "
        "2/3 attempts left; will restart worker group"
    )
    (tmp_path / "train.log").write_text("\n".join([*steps(0), *failure(OOM), agent, *steps(3), *failure(FULL)]) + "\n")
    report = explain(tmp_path)
    assert report.hypotheses[0].cause == "storage/no-space"
    assert [episode.answered for episode in report.episodes] == [False, True]
    assert "memory/oom-capacity" in report.episodes[0].signatures or "memory/cuda-oom" in report.episodes[0].signatures


def test_three_requeues_are_listed_and_the_last_is_answered(tmp_path: Path) -> None:
    lines = [*steps(0), *failure(OOM)]
    for attempt, message in enumerate([OOM, OOM, FULL], start=1):
        lines += [restarted(attempt), *steps(5 * attempt), *failure(message)]
    (tmp_path / "slurm-77.out").write_text("\n".join(lines) + "\n")
    report = explain(tmp_path)
    assert report.hypotheses[0].cause == "storage/no-space"
    assert [episode.answered for episode in report.episodes] == [False, False, False, True]


def test_a_week_of_kernel_log_around_a_job_of_one_hour(tmp_path: Path) -> None:
    """Faults of days before and after are other people's; the one inside is the answer."""

    def xid(when: datetime, pci: str) -> str:
        told = f"NVRM: Xid (PCI:0000:{pci}:00): 79, pid=4021, name=python, GPU has fallen off the bus."
        return f"[{when:%a %b %e %H:%M:%S %Y}] {told}"

    week = [xid(START + timedelta(days=day), "1b") for day in (-4, -2)]
    later = [xid(START + timedelta(days=2), "43")]
    own = [xid(START + timedelta(minutes=59, seconds=50), "df")]
    node = tmp_path / "nodes" / "node017"
    node.mkdir(parents=True)
    (node / "dmesg.txt").write_text("\n".join([*week, *own, *later]) + "\n")
    (node / "rank0.log").write_text(
        "\n".join([line for minute in range(0, 60, 2) for line in steps(minute, 60 * minute)]) + "\n"
    )
    best = explain(tmp_path).hypotheses[0]
    assert best.cause == "gpu/fallen-off-bus"
    assert [culprit.pci for culprit in best.culprits] == ["0000:df:00"]


STARTS = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default"
ENDS = "{'train_runtime': 100.0, 'train_samples_per_second': 9.1, 'train_loss': 0.3}"


def appended(tmp_path: Path, *runs: list[str]) -> Report:
    """What a job says whose runs went to one file, as `nohup ... >> train.log` leaves it."""
    (tmp_path / "train.log").write_text("\n".join(line for run in runs for line in run) + "\n")
    return explain(tmp_path)


@pytest.mark.parametrize("start", [[STARTS], []])
def test_a_later_run_that_ended_well_is_the_answer(tmp_path: Path, start: list[str]) -> None:
    report = appended(tmp_path, [*steps(0), *failure(OOM)], [*start, *steps(5), ENDS])
    assert (report.verdict, report.hypotheses) == ("healthy", [])
    assert [(each.answered, each.cause or None) for each in report.episodes] == [
        (False, "memory/gpu-capacity"),
        (True, None),
    ]
    assert "An earlier run failed (train.log up to line 43): memory/gpu-capacity" in text.render(report)


def test_a_later_run_that_goes_on_leaves_the_failure_an_earlier_one(tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    first = appended(alone, [*steps(0), *failure(OOM)])
    report = appended(alone, [*steps(0), *failure(OOM)], [STARTS, *steps(5)])
    best = report.hypotheses[0]
    assert (best.cause, best.confidence) == ("memory/gpu-capacity", first.hypotheses[0].confidence)
    assert best.against == ["It is of an earlier run: the last begins at train.log:44 and has not failed"]


@pytest.mark.parametrize("start", [[STARTS], []])
def test_a_later_run_that_failed_otherwise_is_the_answer(tmp_path: Path, start: list[str]) -> None:
    report = appended(tmp_path, [*steps(0), *failure(OOM)], [*start, *steps(5), *failure(FULL)])
    assert [each.cause for each in report.hypotheses] == ["storage/no-space"]


def test_an_end_before_the_failure_says_nothing_of_it(tmp_path: Path) -> None:
    report = appended(tmp_path, [*steps(0), ENDS], [STARTS, *steps(5), *failure(FULL)])
    assert report.hypotheses[0].cause == "storage/no-space"


def test_an_end_and_then_a_failure_of_the_last_run_is_a_failure(tmp_path: Path) -> None:
    report = appended(tmp_path, [*steps(0), *failure(OOM)], [STARTS, *steps(5), ENDS, *failure(FULL)])
    assert report.hypotheses[0].cause == "storage/no-space"


def test_steps_of_other_ranks_after_a_failure_are_no_new_run(tmp_path: Path) -> None:
    others = [line.replace("[rank 0]", "[rank 1]") for line in steps(0.5, 30, 11)]
    report = appended(tmp_path, steps(0), [*failure(OOM), *others])
    assert len(report.episodes) == 1
    assert report.hypotheses[0].cause == "memory/gpu-capacity"


def test_epochs_that_count_from_the_start_are_no_new_run(tmp_path: Path) -> None:
    report = appended(tmp_path, steps(0), steps(1), [*steps(2), *failure(OOM)])
    assert len(report.episodes) == 1
