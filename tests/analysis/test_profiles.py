"""What bounds a profiled step."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.analysis.build import facts, incident, named
from triage.analysis import profiles
from triage.model.event import Fact

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas"
SGEMM = "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>(Params)"
WISE = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>(int)"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def event(cat: str, name: str, start: float, length: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": start, "dur": length, "args": args}


def profile(parts: list[tuple[str, str, float, float]], steps: int = 3, length: float = 100_000.0) -> list[Fact]:
    events = []
    for number in range(steps):
        base = 1e9 + number * length
        events.append(event("user_annotation", f"ProfilerStep#{number + 4}", base, length))
        events += [event(cat, name, base + start, span) for cat, name, start, span in parts]
    trace = {"schemaVersion": 1, "distributedInfo": {"rank": 3}, "traceEvents": events}
    return facts("kineto", json.dumps(trace).encode(), "trace.json")


def verdict(found: list[Fact]) -> list[Any]:
    return named(profiles.derive(incident(found)), "profile.verdict")


HOST = ("cpu_op", "aten::mm", 0.0, 99_000.0)


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        (
            [
                ("user_annotation", LOADER, 0, 60_000),
                ("cpu_op", "aten::mm", 60_000, 40_000),
                ("kernel", GEMM, 61_000, 38_000),
            ],
            "data-wait",
        ),
        ([], "data-wait"),
        ([HOST, ("kernel", GEMM, 0, 50_000), ("kernel", NCCL, 50_000, 45_000)], "communication"),
        ([HOST, ("kernel", GEMM, 0, 95_000), ("kernel", NCCL, 10_000, 45_000)], "compute"),
        ([HOST, ("kernel", WISE, 0, 60_000), ("kernel", GEMM, 60_000, 35_000)], "memory-bandwidth"),
        ([HOST, ("kernel", SGEMM, 0, 90_000)], "kernel-inefficient"),
        ([HOST, *(("kernel", GEMM, at * 100.0, 40.0) for at in range(950))], "launch"),
    ],
)
def test_the_verdict(parts: list[tuple[str, str, float, float]], wanted: str) -> None:
    found = profile(parts)
    assert verdict(found) == [wanted]
    assert {fact.entity.get("rank") for fact in found} == {3}


def test_no_large_part_no_verdict() -> None:
    assert verdict(profile([HOST, ("kernel", GEMM, 0, 40_000), ("user_annotation", "user code", 0, 100_000)])) == []


def test_without_steps_silence_of_the_host_says_nothing() -> None:
    trace = {"traceEvents": [event("kernel", GEMM, 0, 10.0), event("kernel", GEMM, 1e6, 10.0)], "schemaVersion": 1}
    assert verdict(facts("kineto", json.dumps(trace).encode(), "trace.json")) == []


def test_the_gain_is_bounded() -> None:
    found = profile(
        [
            ("user_annotation", LOADER, 0, 50_000),
            ("cpu_op", "aten::mm", 50_000, 50_000),
            ("kernel", GEMM, 50_000, 50_000),
        ]
    )
    assert named(profiles.derive(incident(found)), "profile.gain") == [2.0]
