"""Cause edges: rules join by `covers`, in time and scope; echoes and progress never cause."""

from __future__ import annotations

import pytest
from making import event, incident, signal, signature, step

from triage import content
from triage.graph.cascade import near, rules
from triage.model.event import Mark

XID79 = signature("gpu/xid-79", covers=["xid-79-fell-off-bus"])
TIMEOUT = signature("torch/watchdog-timeout", role="symptom", cause=None, covers=["torch-watchdog-timeout"])
OOM = signature("memory/cuda-oom", cause="memory/gpu-capacity", covers=["torch-cuda-oom"])
XID45 = signature("gpu/xid-45", role="consequence", cause=None, covers=["xid-45-preemptive-removal"])


def test_every_rule_names_a_closed_scope_and_both_sides() -> None:
    assert len(rules()) == 87
    assert all(rule.cause and rule.effect and rule.window[0] <= rule.window[1] for rule in rules())
    assert content.data("causality.yaml").is_file()


def test_a_timeout_is_explained_by_the_death_before_it() -> None:
    dead = signal(OOM, event("rank2.log", 5, at=1000.0, rank=2))
    late = signal(TIMEOUT, event("rank0.log", 9, at=1605.0, rank=0), {"ran_ms": 600000})
    effect = incident([dead, late]).signals[1]
    assert effect.effect_of == (0,)
    assert effect.rule == "death-to-timeouts"
    assert effect.at == 1005.0  # when the waiting began


def test_nothing_explains_what_came_before_it() -> None:
    late = signal(OOM, event("rank2.log", 5, at=5000.0, rank=2))
    early = signal(TIMEOUT, event("rank0.log", 9, at=1605.0, rank=0), {"ran_ms": 600000})
    assert incident([late, early]).signals[1].effect_of == ()


def test_scope_another_gpu_is_not_explained() -> None:
    first = signal(XID79, event("k.log", 1, at=1.0, node="n1", source="torch_log"), pci="0000:1b:00")
    same = signal(XID45, event("k.log", 2, at=2.0, node="n1", source="torch_log"), pci="0000:1b:00")
    other = signal(XID45, event("k.log", 3, at=2.0, node="n1", source="torch_log"), pci="0000:43:00")
    placed = incident([first, same, other]).signals
    assert placed[1].effect_of == (0,)
    assert placed[2].effect_of == ()


def test_without_times_the_order_of_lines_in_one_file_decides() -> None:
    before = incident([signal(OOM, event(line=1)), signal(TIMEOUT, event(line=2))]).signals[1]
    after = incident([signal(OOM, event(line=3)), signal(TIMEOUT, event(line=2))]).signals[1]
    assert (before.effect_of, after.effect_of) == ((0,), ())


def test_a_timeout_opens_the_window_when_its_wait_began() -> None:
    kernel = signal(XID79, event("k.log", 1, at=1000.0, source="kernel_log"))
    late = [signal(TIMEOUT, event("rank0.log", line, at=2801.0), {"ran_ms": 1800000}) for line in (1, 2)]
    assert incident([kernel, *late]).signals[0].rule is None


def test_steps_after_a_survivable_signal_make_it_noise() -> None:
    retry = signature("network/retry", progress="survivable")
    told = incident([signal(retry, event(line=5))], [step(10, event(line=9))])
    last = incident([signal(retry, event(line=12))], [step(10, event(line=9))])
    assert told.signals[0].rule == "progress"
    assert last.signals[0].rule is None


def test_a_bar_that_is_drawn_once_more_is_no_progress() -> None:
    def bar(number: int, line: int) -> Mark:
        return step(number, event(line=line, text=f"Steps:   3%|3         | {number}/500 [00:01<00:30,  1.42it/s]"))

    error = signal(signature("code/error", progress="survivable"), event(line=5))
    assert incident([error], [bar(7, 3), bar(7, 9)]).signals[0].rule is None
    assert incident([error], [bar(7, 9)]).signals[0].rule is None  # the bar around the loop that ended
    assert incident([error], [bar(7, 3), bar(8, 9), bar(9, 10)]).signals[0].rule == "progress"


def test_ranks_that_step_have_found_each_other() -> None:
    taken = signature("rendezvous/taken", progress="fatal")
    told = incident([signal(taken, event(line=5))], [step(10, event(line=9))])
    assert told.signals[0].rule == "progress"


def test_a_log_that_begins_with_the_failure_has_no_start() -> None:
    kernel = [
        signal(XID79, event("k.log", line, at=at, source="kernel_log")) for line, at in ((1, 1000.0), (2, 90000.0))
    ]
    late = signal(TIMEOUT, event("rank0.log", 1, at=90600.0))
    assert [item.rule for item in incident([*kernel, late]).signals[:2]] == ["outside-window", None]


def test_kernel_lines_outside_the_job_are_context() -> None:
    old = signal(XID79, event("k.log", 1, at=1000.0, source="kernel_log"))
    own = signal(XID79, event("k.log", 2, at=90500.0, source="kernel_log"))
    marks = [step(number, event(line=number, at=90000.0 + number)) for number in range(1, 900)]
    placed = incident([old, own], marks).signals
    assert [item.rule for item in placed] == ["outside-window", None]


@pytest.mark.parametrize(
    ("scope", "one", "other", "agree"),
    [
        ("same-node", {"node": "a"}, {"node": "a"}, True),
        ("same-node", {"node": "a"}, {"node": "b"}, False),
        ("same-node", {"node": "a"}, {}, True),
        ("same-rank", {"rank": 1}, {"rank": 2}, False),
        ("same-job", {"node": "a", "rank": 1}, {"node": "b", "rank": 2}, True),
        ("same-gpu", {"node": "a", "pci": "x"}, {"node": "a", "pci": "y"}, False),
    ],
)
def test_scopes(scope: str, one: dict[str, str], other: dict[str, str], agree: bool) -> None:
    assert near(scope, one, other) is agree  # type: ignore[arg-type]
