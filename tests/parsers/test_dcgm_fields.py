"""DCGM's counters: the table of `dcgmi dmon` and the exporter's metrics."""

from __future__ import annotations

import pytest

from tests.analysis.build import facts
from triage.parsers import dcgm_fields

TABLE = b"""#Entity   SMACT        TENSO        DRAMA        GPUTL
ID
GPU 0     0.500        0.200        0.300        97
GPU 1     N/A          N/A          N/A          95
GPU 0     0.540        0.220        0.320        99
"""
METRICS = b"""# HELP DCGM_FI_PROF_SM_ACTIVE The ratio of cycles an SM has at least 1 warp assigned.
# TYPE DCGM_FI_PROF_SM_ACTIVE gauge
DCGM_FI_PROF_SM_ACTIVE{gpu="3",UUID="GPU-1",device="nvidia3",modelName="NVIDIA H100",Hostname="node017"} 0.25
DCGM_FI_DEV_GPU_UTIL{gpu="3",UUID="GPU-1",device="nvidia3",Hostname="node017"} 100
DCGM_FI_DEV_SM_CLOCK{gpu="3",UUID="GPU-1",device="nvidia3",Hostname="node017"} 1980
"""


def told(data: bytes) -> dict[tuple[object, object, str], object]:
    return {(f.entity.get("node"), f.entity["gpu"], f.name): f.value for f in facts("dcgm_fields", data)}


def test_the_table() -> None:
    assert dcgm_fields.recognises(TABLE, b"") == 2
    found = told(TABLE)
    assert found[None, 0, "gpu.sm_active"] == pytest.approx(52.0)
    assert found[None, 0, "gpu.utilization"] == 98
    assert found[None, 1, "gpu.utilization"] == 95
    assert (None, 1, "gpu.sm_active") not in found  # a card without the counter is unknown, not idle


def test_the_metrics() -> None:
    assert dcgm_fields.recognises(METRICS, b"") == 2
    assert told(METRICS) == {("node017", 3, "gpu.sm_active"): 25.0, ("node017", 3, "gpu.utilization"): 100}


@pytest.mark.parametrize(
    "data", [b"", b"#Entity  \nGPU 0 1 2", b"GPU 0 fell off", b'DCGM_FI_PROF_SM_ACTIVE{gpu="x"} 1']
)
def test_anything_else_says_nothing(data: bytes) -> None:
    assert told(data) == {}
