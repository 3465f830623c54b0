"""What speaks against an answer, and what would settle it."""

from __future__ import annotations

from making import event, incident, signal, signature, step

from triage.model.bundle import File
from triage.model.event import Fact, Where
from triage.reasoning import hypotheses
from triage.reasoning.loading import causes

ECC = signature("gpu/xid-48", cause="gpu/ecc-uncorrectable", sources=["kernel_log"])
FULL = signature("storage/no-space", cause="storage/no-space")


def test_a_second_unexplained_fault_is_told() -> None:
    built = incident([signal(FULL, event("a.log", 3)), signal(ECC, event("b.log", 4))])
    by_cause = {each.cause: each.against for each in hypotheses.rank(built, causes(), [])}
    assert by_cause["storage/no-space"] == ["It does not explain gpu/xid-48 (gpu/ecc-uncorrectable) at b.log:4"]


def test_training_that_went_on_is_told() -> None:
    marks = [step(number, event("a.log", line=10 + number)) for number in range(5)]
    best = hypotheses.rank(incident([signal(FULL, event("a.log", 3))], marks), causes(), [])[0]
    assert best.against == ["Training went on: 5 steps are logged after it in a.log"]


def test_counters_that_read_zero_are_told() -> None:
    fact = Fact(name="gpu.ecc.volatile_uncorrectable", value=0, where=Where(file="smi.txt"), entity={"gpu": 0})
    best = hypotheses.rank(incident([signal(ECC, event("k.log"))], facts=[fact]), causes(), [])[0]
    assert best.against == [
        "gpu.ecc.volatile_uncorrectable reads 0 on every GPU that was asked; counters are cleared by a reset"
    ]


def test_what_nobody_collected_is_named_with_a_command() -> None:
    files = [File(path="k.log", size=1, sources=("kernel_log",))]
    best = hypotheses.rank(incident([signal(ECC, event("k.log"))], files=files), causes(), [])[0]
    assert [(each.what, each.how) for each in best.missing] == [
        ("the state of the GPUs (ECC, remapped rows, throttling)", "nvidia-smi -q")
    ]
