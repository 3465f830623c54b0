"""NVML as the collector wrote it down on two linked H200 while a job ran, and what it would say of sick cards."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.build import facts
from triage.parsers import nvidia_smi, nvml

FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "parsers" / "nvml" / "nvml.json"
DATA = FIXTURE.read_bytes()


def told(data: bytes, gpu: int = 0) -> dict[str, object]:
    """Facts of one GPU that are of no link and no process."""
    found = facts("nvml", data)
    return {f.name: f.value for f in found if f.entity.get("gpu") == gpu and not {"link", "pid"} & f.entity.keys()}


def changed(**fields: Any) -> bytes:
    """The recorded file with fields of the first GPU changed, in the collector's indentation."""
    found = copy.deepcopy(json.loads(DATA))
    found["gpus"][0] |= fields
    return (json.dumps(found, indent=1, sort_keys=True) + "\n").encode()


def test_a_healthy_card_under_load() -> None:
    assert nvml.recognises(DATA, DATA) == 2
    found = told(DATA)
    assert found.items() >= {
        "gpu.name": "NVIDIA H200", "gpu.driver": "580.159.04", "gpu.pci": "0000:00:06", "gpu.state": "ok",
        "gpu.temperature_c": 62, "gpu.temperature_state": "ok", "gpu.power_w": 680.308, "gpu.power_limit_w": 700,
        "gpu.utilization": 100, "gpu.memory_total": 150754820096, "gpu.memory_used": 5146345472, "gpu.pstate": "P0",
        "gpu.clock.sm_mhz": 1980, "gpu.clock.state": "normal", "gpu.throttle.sw_power_cap": "not active",
        "gpu.throttle.hw_slowdown": "not active", "gpu.ecc.mode": "enabled", "gpu.ecc.volatile_uncorrectable": 0,
        "gpu.remap.pending": "no", "gpu.remap.failure": "no", "gpu.remap.uncorrectable": 0,
        "gpu.pcie.gen_state": "full", "gpu.pcie.width_state": "full", "gpu.pcie.replays": 1, "gpu.readable": "yes",
        "gpu.recovery_action": "none",
        "gpu.fabric.state": "completed", "gpu.fabric.status": "success", "gpu.compute_mode": "default",
        "gpu.persistence": "enabled", "gpu.mig": "disabled", "nvlink.links": 18, "nvlink.inactive_state": "none",
    }.items()  # fmt: skip
    assert found["gpu.retired.double_bit"] is None  # the board has row remapping instead


def test_lines_are_those_of_the_file() -> None:
    lines = DATA.decode().splitlines()
    (heat,) = [f for f in facts("nvml", DATA) if f.name == "gpu.temperature_c" and f.entity["gpu"] == 1]
    assert heat.where.line is not None and lines[heat.where.line - 1].strip() == f'"temperature_c": {heat.value},'
    assert heat.where.line > lines.index('   "index": 1,')


def test_processes_and_links() -> None:
    found = facts("nvml", DATA)
    memory = {f.entity["pid"]: f.value for f in found if f.name == "gpu.process.memory"}
    assert memory == {625: 4492099584, 626: 4492099584}
    errors = [f for f in found if f.name.startswith("nvlink.errors.")]
    assert len(errors) == 2 * 18 * 3 and {f.value for f in errors} == {0}


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"remapped_rows": [0, 2, 1, 0]}, {"gpu.remap.pending": "yes", "gpu.remap.uncorrectable": 2}),
        ({"remapped_rows": [0, 9, 0, 1]}, {"gpu.remap.failure": "yes"}),
        ({"ecc_volatile_uncorrected": 3}, {"gpu.ecc.volatile_uncorrectable": 3}),
        ({"throttle_reasons": 0x48}, {"gpu.throttle.hw_slowdown": "active", "gpu.throttle.hw_thermal": "active"}),
        ({"pcie_width": 4}, {"gpu.pcie.width_state": "reduced"}),
        ({"fabric": {"state": 2, "status": 0}}, {"gpu.fabric.state": "in progress"}),
        ({"recovery_action": 4}, {"gpu.recovery_action": "drain and reset"}),
        ({"temperature_c": {"unsupported": "Not Supported"}}, {"gpu.temperature_c": None, "gpu.state": "ok"}),
        ({"temperature_c": {"unsupported": "GPU is lost"}}, {"gpu.temperature_c": None, "gpu.state": "lost"}),
        ({"error": "Unknown Error"}, {"gpu.state": "error"}),
        ({"error": "GPU is lost"}, {"gpu.state": "lost"}),
        ({"links": [{"link": 0, "state": 1}, {"link": 1, "state": 0}]}, {"nvlink.inactive_state": "some"}),
        ({"links": "none", "processes": 7, "pci": [], "utilization": None}, {"gpu.utilization": None}),
    ],
)
def test_other_states(fields: dict[str, Any], wanted: dict[str, object]) -> None:
    assert told(changed(**fields)).items() >= wanted.items()
    assert told(changed(**fields), 1)["gpu.state"] == "ok"


@pytest.mark.parametrize("data", [b"", b"{}", b'{"gpus": []}', b"[1]", b'{"cuda": 1, "driver": 2}'])
def test_refuses_other_json(data: bytes) -> None:
    assert nvml.recognises(data, data) == 0


def test_neither_reads_the_other() -> None:
    text = (FIXTURE.parents[1] / "nvidia_smi").iterdir()
    assert all(nvml.recognises(path.read_bytes()[:65536], b"") == 0 for path in text if path.is_file())
    assert nvidia_smi.recognises(DATA, DATA) == 0
