"""Step lines of the frameworks."""

from __future__ import annotations

import re

import pytest
from cutting import FIXTURES, event_at, lines_of

from triage.parsers import training_log


def marks(line: str) -> list[tuple[str, dict[str, str]]]:
    found = ((kind, re.search(form, line)) for kind, form in training_log.MARKS)
    return [(kind, {key: text for key, text in hit.groupdict().items() if text}) for kind, hit in found if hit]


EXPECTED = [
    ("iteration       10/", {"step": "10", "total": "500000", "step_ms": "13035.3", "loss": "2.100000E+00"}),
    ("42780/", {"step": "42780", "total": "115311", "step_s": "105.16", "loss": "2.1E+00"}),
    ("iteration 17/99", {"step": "17", "total": "99", "step_s": "12.64"}),
    ("/global_step=10", {"step": "10"}),
    ("step=20, skipped", {"step": "20"}),
    ("steps: 30", {"step": "30", "loss": "8.1000", "step_s": "1.230"}),
    ("[titan]", {"step": "40", "loss": "12.2254"}),
    ("iter 50", {"step": "50", "loss": "3.4012", "step_ms": "123.45"}),
    ("{'loss': 0.5", {"loss": "0.5"}),
    ("{'loss': '0.6924'", {"loss": "0.6924"}),
    ("60/500", {"step": "60", "total": "500"}),
    ("70/500", {"step": "70", "total": "500", "step_s": "1.48"}),
    ("32040/500150", {"step": "32040", "total": "500150"}),
    ("[411/1736]", {"step": "411", "total": "1736"}),
    ("250/1251", {"step": "250", "total": "1251"}),
    ("step 80 loss", {"step": "80", "loss": "2.1"}),
    ("step 90 loss", {"step": "90", "loss": "2.31", "step_ms": "812.5"}),
    ("41/100", {"step": "41", "total": "100"}),
]


@pytest.mark.parametrize(("part", "fields"), EXPECTED)
def test_step_lines(part: str, fields: dict[str, str]) -> None:
    (line,) = (line for line in lines_of("training_log", "steps.log") if part in line)
    found = [values for kind, values in marks(line) if kind == "step"]
    assert found and found[0] == fields


@pytest.mark.parametrize("part", ["Downloading shards", "Running tokenizer", "valid loss at"])
def test_other_bars_and_evaluations_are_no_steps(part: str) -> None:
    (line,) = (line for line in lines_of("training_log", "steps.log") if part in line)
    assert not [kind for kind, _ in marks(line) if kind == "step"]


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Evaluation  [1990/2007]  eta: 0:01:21    time: 4.6874  data: 0.0910  max mem: 17334", "1990"),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.300585", "640"),
        ("Test set: Average loss: 2.0562, Accuracy: 17054/23808 F1 (71.6314%)", None),
        (
            "{'loss': 0.42, 'acc': 0.87, 'memory(GiB)': 19.76, 'speed(iter/s)': 1.16, 'epoch': 0.3}",
            None,
        ),
        ("2026-03-01T10:00:01.123456789Z Train:  32%|██▌     | 200/619 [02:23<04:35,  1.52it/s]", "200"),
        ("Test: [10/124] Data 75.717 (96.748) Batch 76.307 (104.039).", "10"),
        ("2026-08-12 05:44:02,294 Epoch[1] Batch [220]  Speed: 606.44 samples/sec,  loss=46.012,", "220"),
        ("Epoch [1/5], Step [300/600], Loss: 0.2156", "300"),
        ("[2,  4000] loss: 1.837", "4000"),
        ("Epoch: 003/010 | Batch 0400/0469 | Loss: 0.1904", "0400"),
        ("epoch: 4 train loss: 0.3120 val loss: 0.4011", None),
        ("| epoch   1 |   400/ 2983 batches | lr 20.00 | ms/batch 12.34 | loss  6.81 | ppl   907.11", "400"),
        ("Step 150/100000; acc:  11.02; ppl: 871.31; xent: 6.77; lr: 0.00010;", "150"),
        ("epoch: 1 step: 400, loss is 2.2811", "400"),
        ("I0512 17:43:20.057090 14426 solver.cpp:243] Iteration 4450, loss = 1.42478", "4450"),
        ("completed step: 12, seconds: 10.344, TFLOP/s/device: 346.932, loss: 12.979", "12"),
        ("40\timages/sec: 134.4 +/- 0.9 (jitter = 5.4)\t8.007", "40"),
        ("Epoch 34 | iter 3050700 step 610140 | loss train: 2.846, val: 2.861 | iter time: 112.20 ms", "3050700"),
        ("1875/1875 [==============================] - 4s 2ms/step - loss: 0.2958 - accuracy: 0.9134", "1875"),
        (" 812/1875 ━━━━━━━━━━━━━━━━━━━━ 2s 2ms/step - accuracy: 0.9534 - loss: 0.1058", "812"),
        ("(TaskRunner pid=77) step:4 - actor/pg_loss:0.011 - perf/throughput:1234.5", "4"),
        ("I0301 10:01:05.1 140 logging_writer.py:48] [100] loss=2.3, steps_per_sec=1.2", "100"),
        ("[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4294967296, reducing to 2147483648", None),
        ("23-05-06 20:54:16.019 - INFO: [epoch: 19, iter: 121,300, lr:(1.723e-04,)] l_pix: 5.1293e-03", None),
    ],
)
def test_lines_of_other_loops(line: str, step: str | None) -> None:
    found = [values for kind, values in marks(line) if kind == "step"]
    assert found and found[0].get("step") == step


@pytest.mark.parametrize(
    "line",
    [
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 2, reducing to 1",
        "RuntimeError: step() was called 3 times before the loss was known",
        "the loss is logged every 10 steps",
        "valid loss at iteration 45000 | lm loss value: 2.327091E+00",
        "Saved checkpoint at step 400",
    ],
)
def test_lines_that_tell_of_no_step(line: str) -> None:
    assert not [kind for kind, _ in marks(line) if kind == "step"]


def test_ends() -> None:
    for line in lines_of("training_log", "ends.log"):
        assert "end" in {kind for kind, _ in marks(line)}, line
    assert not marks("Training for 3 epochs")


def test_rank_of_a_step_line() -> None:
    lines = lines_of("training_log", "steps.log")
    assert event_at(training_log, lines, "step 90").rank == 3
    assert event_at(training_log, lines, "42780/").local_rank == 7


@pytest.mark.parametrize(
    "lines",
    [
        [
            " iteration   10/ 500 | consumed samples: 10 |",
            " elapsed time per iteration (ms): 12.1 | lm loss: 2.1 |",
            "x",
        ],
        [
            " iteration   10/ 500 | elapsed time per iteration (ms): 12.1 | learning",
            "rate: 1.0E-4 | lm loss: 2.1 |",
            "x",
        ],
    ],
)
def test_a_broken_step_line_is_joined(lines: list[str]) -> None:
    body = event_at(training_log, lines, "iteration   10").body
    assert body.count("\n") == 1 and body.endswith("lm loss: 2.1 |")


def test_the_next_step_line_is_not_taken_along() -> None:
    lines = [" iteration   10/ 500 | lm loss: 2.1 |", " iteration   20/ 500 | lm loss: 2.0 |"]
    assert event_at(training_log, lines, "iteration   10").body == lines[0]


def test_recognised() -> None:
    own = (FIXTURES / "training_log" / "steps.log").read_bytes()
    assert training_log.recognises(own, own) == 2
    assert training_log.recognises(b"NVRM: loading\n", b"") == 0


def test_a_serving_engine_that_answers_says_that_it_is_well() -> None:
    line = "INFO 05-05 10:03:00 [loggers.py:111] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
    assert [kind for kind, _ in marks(line + "Avg generation throughput: 511.9 tokens/s, Running: 4 reqs")] == ["well"]
    assert marks(line + "Avg generation throughput: 0.0 tokens/s, Running: 4 reqs") == []
