"""The course of the loss."""

from __future__ import annotations

import msgspec
import pytest

from tests.analysis.build import incident, named, step
from triage.analysis import loss
from triage.model.event import Fact

SMOOTH = [4.0 - 0.01 * at for at in range(60)]


def told(values: list[object], texts: dict[int, str] | None = None) -> list[Fact]:
    marks = [step(at, (texts or {}).get(at, ""), loss=value) for at, value in enumerate(values)]
    return list(loss.derive(incident(marks=marks)))


@pytest.mark.parametrize(
    ("values", "verdict", "since"),
    [
        ([*SMOOTH, "nan", "nan"], "nan", 60),
        ([*SMOOTH, float("inf")], "nan", 60),
        ([*SMOOTH, 8.7, 7.6, 7.2, 6.9], "diverged", 60),
        ([*SMOOTH, 7.1, 5.0, 3.5, 3.4, 3.4], "spike", 60),
        (["0.0002", "0.0107", "27.3", "nan", "nan"], "nan", 3),
    ],
)
def test_the_verdict(values: list[object], verdict: str, since: int) -> None:
    derived = told(values)
    assert named(derived, "loss.verdict") == [verdict]
    assert named(derived, "loss.since_step") == [since]
    assert all(fact.entity == {} and fact.evidence for fact in derived)


@pytest.mark.parametrize(("norms", "since"), [(["0.4", "nan", "nan", "inf"], 1), (["nan"] * 5, 0)])
def test_gradients_that_stay_no_number(norms: list[str], since: int) -> None:
    derived = told([2.0] * len(norms), {at: f"lm loss: 2.0 | grad norm: {norm} |" for at, norm in enumerate(norms)})
    assert named(derived, "loss.verdict") == ["gradient-nan"]
    assert named(derived, "loss.since_step") == [since]


@pytest.mark.parametrize("norms", [["nan", "nan"], ["nan", "nan", "nan", "0.3"], ["0.1", "2e9", "0.2"]])
def test_gradients_that_a_scaler_skipped(norms: list[str]) -> None:
    assert not told([2.0] * len(norms), {at: f"lm loss: 2.0 | grad norm: {norm} |" for at, norm in enumerate(norms)})


@pytest.mark.parametrize(
    "values",
    [
        SMOOTH,
        [10.9, 9.0, 7.0, 6.0, 6.2, 5.9, 6.1],
        [0.0003, 0.0008, 0.0004, 0.002, 0.0001],
        [2.0 + 0.6 * (at * 7 % 5) / 5 for at in range(80)],
        [*SMOOTH, "nan", *SMOOTH[50:]],
        ["", None, True, "n/a", "1e999x"],
        [],
    ],
)
def test_what_is_nothing(values: list[object]) -> None:
    assert told(values) == []


def test_bars_that_begin_again_in_each_epoch_have_no_course() -> None:
    line, marks = 0, []
    for epoch, level in enumerate([0.6, 0.1, 0.1]):
        for at in range(epoch, 60, 3):  # of each epoch a third of the bar is left
            line += 1
            value = 2.0 if (epoch, at) == (2, 50) else level
            mark = step(at, loss=value)
            where = msgspec.structs.replace(mark.event.where, line=line)
            marks.append(msgspec.structs.replace(mark, event=msgspec.structs.replace(mark.event, where=where)))
    assert list(loss.derive(incident(marks=marks))) == []


def test_the_loss_scale_at_its_end() -> None:
    texts = {at: f"loss scale: {max(2 ** (10 - at), 1)}.0 |" for at in range(16)}
    assert named(told([2.0] * 16, texts), "loss.verdict") == ["scale-minimum"]


def test_the_loss_in_the_text_of_a_line() -> None:
    lines = [
        f" iteration {at}/ 9 | loss scale: 65536.0 | lm loss: {2.0 if at < 9 else 8.0}E+00 | x" for at in range(12)
    ]
    marks = [step(at, text) for at, text in enumerate(lines)]
    assert named(loss.derive(incident(marks=marks)), "loss.verdict") == ["diverged"]


def test_the_loss_of_an_evaluation_is_another() -> None:
    marks = [step(at, f"step {at} val loss: {'nan' if at % 2 else 3.0} loss: 2.0") for at in range(12)]
    assert list(loss.derive(incident(marks=marks))) == []
