"""Two runs from practice, their recordings built anew to the figures that were measured: bounds, order, comparisons."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from triage.bundle.opening import open_evidence
from triage.cli.compare import command
from triage.model.incident import Incident
from triage.model.report import Report
from triage.parsers import recognise
from triage.pipeline import reason, understand

PRACTICE = Path(__file__).resolve().parents[2] / "fixtures" / "practice"


@cache
def understood(name: str) -> tuple[Incident, Report]:
    with open_evidence([str(PRACTICE / name)], recognise=recognise) as evidence:
        incident = understand(evidence)
    return incident, reason(incident)


def value(name: str, fact: str) -> Any:
    return next(each.value for each in understood(name)[0].facts if each.name == fact)


def texts(name: str, cause: str) -> str:
    found = next(each for each in understood(name)[1].hypotheses if each.cause == cause)
    return " ".join(cited.text for cited in found.evidence)


def test_an_epoch_that_waits_for_its_images() -> None:
    report = understood("image-epoch/as-found")[1]
    best = report.hypotheses[0]
    assert (report.verdict, best.cause, best.culprits) == ("diagnosed", "data/loader-bottleneck", [])
    assert value("image-epoch/as-found", "steps.data_share") == pytest.approx(0.38, abs=0.005)
    assert value("image-epoch/as-found", "steps.bound.data_ms") / 500 * 12.0 == pytest.approx(7.44, abs=0.05)
    assert value("image-epoch/as-found", "profile.gain") == pytest.approx(1.61, abs=0.01)
    assert value("image-epoch/as-found", "profile.busy") == pytest.approx(0.52, abs=0.005)
    told = texts("image-epoch/as-found", "data/loader-bottleneck")
    assert "12.0 min, then 7.4 min at best" in told
    assert "not how much got done: the multiprocessors were active for 52 % of the time" in told


def test_a_model_on_eight_gpus_waits_for_input_then_for_its_peers() -> None:
    name = "seven-billion/as-found"
    report = understood(name)[1]
    assert [each.cause for each in report.hypotheses] == ["data/loader-bottleneck", "performance/communication-bound"]
    assert value(name, "steps.bound.data_ms") == pytest.approx(1260, rel=0.01)
    assert value(name, "steps.bound.communication_ms") == pytest.approx(1440, rel=0.01)
    assert value(name, "steps.bound.both_ms") == pytest.approx(900, rel=0.01)
    assert value(name, "profile.bound.both_ms") == pytest.approx(900, rel=0.01)
    told = texts(name, "data/loader-bottleneck")
    assert "1.26 s at best" in told
    assert "1.44 s by itself, 900 ms with both hidden" in told
    assert "GPU utilisation of 98 % says that some kernel ran" in told
    assert "Memory at 78 of 80 GiB is a risk" in told
    assert not [each for each in report.hypotheses if each.cause.startswith("memory/")]


@pytest.mark.parametrize(
    ("before", "after", "result", "unexplained"),
    [
        ("image-epoch/as-found", "image-epoch/tf32-on", "worse", False),
        ("image-epoch/as-found", "image-epoch/loader-mended", "better", True),
        ("seven-billion/as-found", "seven-billion/both-mended", "fixed", False),
    ],
)
def test_against_the_run_after_a_change(before: str, after: str, result: str, unexplained: bool) -> None:
    answer = compared(before, after)
    assert answer["result"] == result
    assert any("more than one thing changed" in note for note in answer["notes"]) == unexplained


def compared(before: str, after: str) -> Any:
    out = CliRunner().invoke(command, [str(PRACTICE / before), str(PRACTICE / after), "--format", "json"])
    return json.loads(out.stdout)
