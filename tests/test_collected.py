"""What collecting left of real GPUs: two linked H200 while a job of two ranks ran."""

from __future__ import annotations

import json
from pathlib import Path

from triage.bundle.opening import open_evidence
from triage.model.incident import Incident
from triage.parsers import recognise
from triage.pipeline import explain, understand

RUNNING = Path(__file__).resolve().parents[1] / "fixtures" / "collected" / "h200-two-running"
# What a node must tell of each card, or say why it cannot.
FIELDS = (
    "ecc_volatile_corrected ecc_volatile_uncorrected ecc_aggregate_corrected ecc_aggregate_uncorrected remapped_rows "
    "row_remapper retired_single retired_double retired_pending temperature_c clock_sm_mhz clock_memory_mhz "
    "clock_max_sm_mhz throttle_reasons power_mw power_limit_mw pcie_gen pcie_gen_max pcie_width pcie_width_max "
    "pcie_replays links processes mig_mode compute_mode persistence fabric uuid pci name"
)


def incident() -> Incident:
    with open_evidence([str(RUNNING)], recognise=recognise) as evidence:
        return understand(evidence)


def test_a_running_job_on_sound_cards_is_healthy() -> None:
    report = explain([str(RUNNING)])
    assert report.verdict == "healthy"
    assert report.hypotheses == []


def test_every_field_has_a_value_or_a_reason() -> None:
    (path,) = RUNNING.rglob("nvml.json")
    found = json.loads(path.read_text())
    assert len(found["gpus"]) == 2
    for gpu in found["gpus"]:
        silent = [name for name in FIELDS.split() if gpu.get(name) is None]
        unsupported = [name for name in FIELDS.split() if isinstance(gpu[name], dict) and "unsupported" in gpu[name]]
        assert silent == []
        assert unsupported == ["retired_single", "retired_double", "retired_pending"]
        assert [link["state"] for link in gpu["links"]] == [1] * 18


def test_links_topology_and_ras_agree_with_each_other() -> None:
    facts = incident().facts
    states = [fact.value for fact in facts if fact.name == "nvlink.state"]
    assert states == ["active"] * (2 * 18 * 2)  # as NVML says and as nvidia-smi does
    assert {(fact.entity["node"], fact.entity["gpu"]) for fact in facts if fact.name == "gpu.readable"} == {
        ("vm", 0), ("vm", 1),
    }  # fmt: skip
    assert [(gpu.node, gpu.gpu) for gpu in incident().gpus] == [("vm", 0), ("vm", 1)]
    topology = {fact.entity["gpu"]: fact.value for fact in facts if fact.name == "gpu.topology"}
    assert topology == {0: ["GPU1=NV18"], 1: ["GPU0=NV18"]}
    assert {fact.entity["rank"] for fact in facts if fact.name.startswith("ras.") and "rank" in fact.entity} == {0, 1}
    assert not [fact for fact in facts if fact.name.startswith("hang.")]
