"""Yes, no and unknown are three answers."""

from __future__ import annotations

import pytest
from making import event, incident, signal, signature

from triage.model.bundle import File
from triage.model.event import Fact, Where
from triage.model.playbook import (
    FactQuestion,
    OperatorQuestion,
    OrderQuestion,
    Selector,
    SignalQuestion,
    SpreadQuestion,
)
from triage.model.signature import Condition
from triage.reasoning.questions import View

XID = signature("gpu/xid-79", sources=["kernel_log"])
TIMEOUT = signature("torch/watchdog-timeout", role="symptom", cause=None)
CATALOGUE = {each.id: each for each in (XID, TIMEOUT)}


def view(*signals, facts=(), sources=("torch_log",), **more) -> View:  # type: ignore[no-untyped-def]
    files = [
        File(path=path, size=1, sources=sources) for path in {each.event.where.file for each in signals} or {"a.log"}
    ]
    return View(incident(list(signals), facts=list(facts), files=files, **more), CATALOGUE)


def test_not_seen_is_no_only_where_somebody_looked() -> None:
    assert view(sources=("torch_log",)).seen("gpu/xid-79") == "unknown"
    assert view(sources=("kernel_log",)).seen("gpu/xid-79") == "no"
    assert view(signal(XID, event())).seen("gpu/xid-79") == "yes"


def test_any_and_all() -> None:
    seen = view(signal(TIMEOUT, event()))
    assert seen.answer(SignalQuestion(any=["gpu/xid-79", "torch/watchdog-timeout"])) == "yes"
    assert seen.answer(SignalQuestion(any=["gpu/xid-79"])) == "unknown"
    assert seen.answer(SignalQuestion(all=["gpu/xid-79", "torch/watchdog-timeout"])) == "unknown"


@pytest.mark.parametrize(("value", "answer"), [(3, "yes"), (0, "no"), (None, "unknown")])
def test_a_fact_that_says_nothing_is_unknown(value: int | None, answer: str) -> None:
    fact = Fact(name="gpu.ecc.volatile_uncorrectable", value=value, where=Where(file="smi"))
    question = FactQuestion(name="gpu.ecc.volatile_uncorrectable", op="gt", value="0")
    assert view(facts=[fact]).answer(question) == answer
    assert view().fact(Condition(name="gpu.ecc.volatile_uncorrectable", op="gt", value="0")) == "unknown"


def test_order_against_the_start_of_the_hang() -> None:
    died = signal(XID, event("k.log", at=1000.0, rank=3))
    hung = signal(TIMEOUT, event("r.log", at=1700.0, rank=0), {"ran_ms": 600000})
    question = OrderQuestion(first=Selector(role="root-cause"), before="hang_start", within="300s")
    assert view(died, hung).answer(question) == "yes"
    late = signal(XID, event("k.log", at=1500.0, rank=3))
    assert view(late, hung).answer(question) == "no"
    near = signal(XID, event("k.log", at=1099.0, rank=3))
    assert view(near, hung).answer(question) == "unknown"  # inside the uncertainty of two clocks
    assert view(signal(XID, event("k.log", rank=3)), hung).answer(question) == "unknown"


def test_spread_needs_four() -> None:
    def on(*ranks: int) -> View:
        return view(*[signal(TIMEOUT, event(f"rank{rank}.log", rank=rank)) for rank in ranks])

    assert on(1).answer(SpreadQuestion(of="torch/watchdog-timeout", is_="one-rank")) == "yes"
    assert on(0, 1).answer(SpreadQuestion(of="torch/watchdog-timeout", is_="all")) == "unknown"
    assert on(0, 1, 2, 3).answer(SpreadQuestion(of="torch/watchdog-timeout", is_="all")) == "yes"


def test_an_operator_is_not_asked_by_explain() -> None:
    assert view().answer(OperatorQuestion(text="Is the fan loud?")) == "unknown"
