"""Restarts cut a log into episodes; the last failed one is answered."""

from __future__ import annotations

from making import event, incident, signal, signature, step

from triage.model.bundle import File
from triage.model.event import Mark

CRASH = signature("code/crash", cause="code/crash")


def restart(line: int, kind: str = "restart", file: str = "a.log", at: float | None = None) -> Mark:
    return Mark(kind=kind, event=event(file, line, at=at))


def test_a_restart_after_a_failure_begins_an_episode() -> None:
    built = incident([signal(CRASH, event(line=10)), signal(CRASH, event(line=50))], [restart(20)])
    assert [item.episode for item in built.signals] == [0, 1]
    assert built.answered == 1
    assert built.signals[0].rule == "other-episode"
    assert [row.first_line for row in built.episodes] == [None, 20]


def test_the_last_failed_episode_is_answered_when_the_last_run_is_well() -> None:
    built = incident([signal(CRASH, event(line=10))], [restart(20), step(1, event(line=30))])
    assert len(built.episodes) == 2
    assert built.answered == 0
    assert built.signals[0].rule is None


def test_a_world_that_starts_without_a_failure_before_it_is_no_restart() -> None:
    built = incident([signal(CRASH, event(line=50))], [restart(1, "start"), restart(2, "start"), restart(3, "start")])
    assert len(built.episodes) == 1


def test_three_requeues() -> None:
    crashes = [signal(CRASH, event(line=line)) for line in (10, 30, 50, 70)]
    built = incident(crashes, [restart(20), restart(40), restart(60)])
    assert [item.episode for item in built.signals] == [0, 1, 2, 3]
    assert [row.index for row in built.episodes if row.failed] == [0, 1, 2, 3]
    assert built.answered == 3


def test_attempt_folders_are_episodes() -> None:
    files = [File(path=f"attempt_{number}/0/stderr.log", size=1, attempt=number) for number in (0, 1)]
    built = incident([signal(CRASH, event(files[0].path)), signal(CRASH, event(files[1].path))], files=files)
    assert [item.episode for item in built.signals] == [0, 1]


def test_another_nodes_log_is_placed_by_time() -> None:
    marks = [restart(20, at=2000.0)]
    places = [("a.log", 10, 1000.0), ("b.log", 3, 1001.0), ("b.log", 9, 3000.0)]
    crashes = [signal(CRASH, event(file, line, at=at)) for file, line, at in places]
    built = incident(crashes, marks)
    assert [item.episode for item in built.signals] == [0, 0, 1]
