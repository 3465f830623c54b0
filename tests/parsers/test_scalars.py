"""TensorBoard's event files and offline runs of wandb."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import pytest

from tests.analysis.build import facts, incident, named
from triage.analysis import steps
from triage.parsers import recognise, scalars

EVENTS = Path(__file__).resolve().parents[2] / "fixtures/parsers/scalars/events.out.tfevents.1790000000.node017"


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def offline(rows: list[dict[str, object]]) -> bytes:
    """An offline run as wandb 0.12 to 0.31 writes it: a log of records in blocks of 32 KiB."""
    out = b":W&B\xe1\xbe\x00"
    for row in rows:
        items = [field(1, field(2, key.encode()) + field(16, json.dumps(value).encode())) for key, value in row.items()]
        record = field(2, b"".join(items))
        kinds = 0
        while record or not kinds:
            left = 32768 - len(out) % 32768
            if left < 7:
                out += b"\0" * left
                continue
            piece, record = record[: left - 7], record[left - 7 :]
            kind = (1 if not record else 2) if not kinds else (4 if not record else 3)
            out += struct.pack("<IHB", 0, len(piece), kind) + piece
            kinds += 1
    return out


def test_tensorboard() -> None:
    data = EVENTS.read_bytes()
    assert recognise(data[:65536], data[-65536:]) == ("scalars",)
    found = facts("scalars", data)
    assert named(found, "scalars.last_step") == [39]
    assert named(found, "scalars.unread") == [4]  # texts
    assert named(found, "steps.series.loss")[0][0] == pytest.approx(4.0, abs=0.02)
    assert named(steps.derive(incident(found)), "steps.change_step") == [25]


@pytest.mark.parametrize("cut", [0, 1, 50, 1000, 4000])
def test_a_cut_file_gives_what_is_there(cut: int) -> None:
    assert facts("scalars", EVENTS.read_bytes()[:cut])


def test_wandb() -> None:
    rows: list[dict[str, object]] = [
        {"_step": at, "train/loss": 4.0 - at / 20, "perf/step_time_ms": 500 if at < 25 else 700, "note": "x" * 900}
        for at in range(60)
    ]
    data = offline(rows)
    assert len(data) > 32768 + 7
    assert scalars.recognises(data[:65536], b"") == 2
    found = facts("scalars", data)
    assert named(found, "steps.series.step") == [list(range(60))]
    assert named(found, "steps.series.step_ms")[0][0] == 500
    assert named(found, "scalars.unread") == [60]
    assert named(steps.derive(incident(found)), "steps.change_step") == [25]


def test_values_that_are_none() -> None:
    data = offline([{"_step": 1, "loss": math.nan}, {"_step": 2, "loss": 1.5}])
    assert math.isnan(named(facts("scalars", data), "steps.series.loss")[0][0])
    assert len(named(facts("scalars", b":W&B\xe1\xbe\x00" + b"\xff" * 99), "scalars.unreadable")) == 1


@pytest.mark.parametrize(
    ("tag", "told", "ms"),
    [("step_time", 0.5, 500), ("train/iteration-time", 0.5, 500), ("perf/step_time_ms", 500, 500),
     ("train_step_timing in s", 0.5, 500), ("time/step (ms)", 500, None)],
)  # fmt: skip
def test_units(tag: str, told: float, ms: float | None) -> None:
    found = named(facts("scalars", offline([{"_step": 1, tag: told}])), "steps.series.step_ms")
    assert found == ([] if ms is None else [[ms]])
