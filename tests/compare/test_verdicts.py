"""The verdict on pairs of runs."""

from __future__ import annotations

import pytest

from tests.compare.making import noisy, run
from triage.comparing.verdicts import compare
from triage.model.comparison import Comparison


def moved(told: Comparison, name: str = "step time") -> str:
    return next(move.result for move in told.moved if move.name == name)


@pytest.mark.parametrize(("after", "result"), [(42.0, "worse"), (38.0, "better"), (40.0, "no difference")])
def test_step_times(after: float, result: str) -> None:
    told = compare(run(noisy(1)), run(noisy(2, mean=after)))
    assert told.result == result
    assert "95 %" in told.why
    assert (moved(told), moved(told, "throughput")) == (result, result)


def test_phases_say_where_it_went() -> None:
    one = {"step_ms": noisy(1), "data_ms": noisy(2, mean=5), "bwd_ms": noisy(3, mean=20)}
    two = {"step_ms": noisy(4, mean=44), "data_ms": noisy(5, mean=9), "bwd_ms": noisy(3, mean=20)}
    told = compare(run(one), run(two))
    assert (moved(told, "data"), moved(told, "bwd")) == ("worse", "no difference")


def test_a_failure_that_is_gone_is_fixed_only_when_the_run_came_as_far() -> None:
    failed = run(noisy(1), causes=["memory/capacity"], verdict="diagnosed", last_step=180)
    assert compare(failed, run(noisy(2), last_step=400)).result == "fixed"
    short = compare(failed, run(noisy(2), last_step=20))
    assert (short.result, "ran as far" in short.why) == ("not comparable", True)
    assert compare(failed, run(verdict="healthy")).result == "fixed"
    smaller = {("setting", "micro_batch_size"): ("4",)}, {("setting", "micro_batch_size"): ("2",)}
    pair = [run(noisy(1), causes=["memory/capacity"], last_step=180, settings=smaller[0]),
            run(noisy(2), last_step=400, settings=smaller[1])]  # fmt: skip
    told = compare(*pair)
    assert (told.result, told.one_change) == ("fixed", True)
    assert "the work is another: micro_batch_size" in told.notes


def test_slowness_is_fixed_when_steps_are_faster() -> None:
    slow = {"causes": ["performance/straggler"], "last_step": 200}
    assert compare(run(noisy(1, mean=55), **slow), run(noisy(2), last_step=200)).result == "fixed"
    assert compare(run(noisy(1), **slow), run(noisy(2), last_step=200)).result == "no difference"
    other = compare(run(noisy(1, mean=55), ranks=8, **slow), run(noisy(2), ranks=16, last_step=200))
    assert (other.result, "--scaling" in other.why) == ("not comparable", True)


@pytest.mark.parametrize(("step", "data", "result"), [(40.0, 1.0, "fixed"), (30.0, 1.0, "better")])
def test_slowness_that_explains_a_part_of_the_gain_is_not_what_was_fixed(step: float, data: float, result: str) -> None:
    one = {"step_ms": noisy(1, mean=55), "data_ms": noisy(2, mean=16)}
    two = {"step_ms": noisy(3, mean=step), "data_ms": noisy(4, mean=data)}
    told = compare(run(one, causes=["data/loader-bottleneck"], last_step=200), run(two, last_step=200))
    assert (told.result, "more than one thing changed" in told.why) == (result, result == "better")


def test_a_new_fault_is_worse_whatever_the_speed() -> None:
    told = compare(run(noisy(1)), run(noisy(2, mean=30), causes=["gpu/fallen-off-bus"]))
    assert (told.result, "gpu/fallen-off-bus" in told.why) == ("worse", True)


def test_exactly_one_thing_changed() -> None:
    base = {("version", "NCCL"): ("2.21.5",), ("environment", "NCCL_ALGO"): ("Ring",)}
    place = {"told": frozenset({"environment", "NCCL"})}
    told = compare(
        run(noisy(1), settings=base, **place),
        run(noisy(2), settings=base | {("version", "NCCL"): ("2.27.3",)}, **place),
    )
    assert told.one_change is True
    assert [(c.name, c.before, c.after) for c in told.changes] == [("NCCL", "2.21.5", "2.27.3")]
    unset = compare(
        run(noisy(1), settings=base, **place), run(noisy(2), settings={("version", "NCCL"): ("2.27.3",)}, **place)
    )
    assert (unset.one_change, unset.changes[0].after) == (False, None)
    assert compare(run(noisy(1)), run(noisy(2))).one_change is None


def test_what_only_one_side_tells_is_no_change() -> None:
    told = compare(run(noisy(1)), run(noisy(2), settings={("version", "torch"): ("2.8.0",)}))
    assert (told.changes, told.known_once) == ([], ["torch"])


def test_not_comparable() -> None:
    assert compare(run(), run(noisy(1))).why == "no step times in BEFORE"
    assert "too few" in compare(run([40.0] * 3), run(noisy(1))).why
    assert "ms a sample" in compare(run(noisy(1), unit="ms/sample"), run(noisy(2))).why
    longer = [run(noisy(at), settings={("setting", "seq_length"): (size,)}) for at, size in ((1, "4096"), (2, "8192"))]
    assert compare(*longer).why == "the work is another: seq_length"


def test_stalls_that_went_are_seen_though_the_typical_step_is_the_same() -> None:
    stalled = [value * (12 if at % 12 == 5 else 1) for at, value in enumerate(noisy(1, together=0.0))]
    told = compare(run(stalled), run(noisy(2, together=0.0)))
    assert moved(told) == "no difference"
    assert (told.result, "with stalls" in told.why) == ("better", True)


def test_throughput_of_logs_and_memory() -> None:
    told = compare(run(rates=noisy(1, mean=220)), run(rates=noisy(2, mean=240)))
    assert (told.result, told.moved[0].name) == ("better", "throughput as logged")
    more = compare(run(noisy(1), memory={"peak allocated": 100.0}), run(noisy(2), memory={"peak allocated": 150.0}))
    assert next(m.ratio for m in more.moved if m.name == "memory peak allocated") == 1.5


def test_small_changes_are_seen_sooner_where_they_are_watched_for() -> None:
    one, two = (compare(run(noisy(1)), run(noisy(2)), watch).moved[0] for watch in ("worse", "better"))
    assert one.low and two.low and one.low > two.low
    assert one.high and two.high and one.high > two.high
