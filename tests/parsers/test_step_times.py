"""Step times as JSON lines and CSV, ours and others'."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.analysis.build import facts, named
from triage.parsers import step_times

OURS = "\n".join(
    [
        json.dumps({"schema": "triage.steps/1", "host": "node017", "world_size": 8}),
        *(json.dumps({"step": at, "rank": 2, "ts": 1.0, "step_ms": 100.0 + at, "data_ms": 1.0}) for at in range(20)),
        '{"step": 20, "ra',
    ]
)


def read(text: str | bytes, name: str = "steps.rank2.jsonl") -> list[Any]:
    return facts("step_times", text.encode() if isinstance(text, str) else text, name)


def test_our_own_lines() -> None:
    found = read(OURS)
    assert named(found, "steps.count") == [20]
    assert named(found, "steps.step_ms") == [112.0]
    assert named(found, "steps.world_size") == [8]
    assert {fact.entity.get("node") for fact in found if "rank" in fact.entity} == {"node017"}


@pytest.mark.parametrize(
    ("text", "phase", "value"),
    [
        ("step,rank,step_time,data_time\n1,0,0.5,0.1\n2,0,0.5,0.1\n", "steps.step_ms", 500.0),
        ("iteration;iter_time_ms;forward_ms\n1;70;20\n2;70;20\n", "steps.fwd_ms", 20.0),
        ('{"global_step": 1, "train_step_timing in s": 2.0}\n', "steps.step_ms", 2000.0),
        ('{"iter": 1, "elapsed_us": 1500}\n', "steps.step_ms", 1.5),
        ("iter\tdata (ms)\titeration_time (ms)\n1\t5\t70\n", "steps.data_ms", 5.0),
    ],
)
def test_columns_of_others(text: str, phase: str, value: float) -> None:
    assert step_times.recognises(text.encode(), b"") == 2
    assert named(read(text), phase) == [value]


def test_ranks_in_one_file() -> None:
    text = "step,rank,pp_rank,step_ms\n" + "".join(
        f"{at},{rank},{rank // 2},10\n" for at in range(9) for rank in range(4)
    )
    found = read(text, "steps.csv")
    assert sorted(fact.entity["rank"] for fact in found if fact.name == "steps.count") == [0, 1, 2, 3]
    assert [fact.value for fact in found if fact.name == "steps.stage"] == [0, 0, 1, 1]


@pytest.mark.long
def test_long_runs_are_binned_alike_on_all_ranks() -> None:
    lines = [json.dumps({"step": at, "step_ms": 5.0}) for at in range(100_000)]
    one, two = read("\n".join(lines)), read("\n".join(lines[17:]))
    steps = [named(found, "steps.series.step")[0] for found in (one, two)]
    assert len(steps[0]) <= 2 * step_times.BINS
    assert steps[0][5:] == steps[1][5:]


def test_a_loss_that_is_no_number_is_kept() -> None:
    found = read('{"step": 1, "step_ms": 5, "loss": 2.0}\n{"step": 2, "step_ms": 5, "loss": NaN}\n')
    assert str(named(found, "steps.series.loss")) == "[[2.0, nan]]"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}\n",
        '{"step": "x", "step_ms": []}\n',
        '{"step": 1e400, "step_ms": NaN}\n',
        "step,step_ms\n" + "1," * 9999,
        '{"step": 1, "step_ms": -5, "rank": {}}\n',
        "step,step_ms\n\x00\n1,\x00\n",
        '{"step": 1, "step_ms": true}\n',
        '{"a":' * 5000 + "1" + "}" * 5000,
        'step,step_ms\n"1,2\n3,4',
    ],
)
def test_hostile_content_gives_no_exception(text: str) -> None:
    read(text)


def test_recognition() -> None:
    assert step_times.recognises(OURS.encode(), b"") == 2
    for other in (
        b"",
        b"a,b\n1,2\n",
        b"step 1 of the manual, then step 2\n",
        b'{"step": 1, "loss": 2}\n',
        b"timestamp, name, pci.bus_id, temperature.gpu\n",
        b"JobID|State|Elapsed\n",
    ):
        assert step_times.recognises(other, other) == 0
