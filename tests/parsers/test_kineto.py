"""Profiler traces."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from tests.analysis.build import facts, named
from triage.parsers import _profile, kineto
from triage.parsers._spans import merged, overlap, spans_of, without


def kernel(name: str, start: float, length: float) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "ts": start,
        "dur": length,
        "args": {"est. achieved occupancy %": 50},
    }


TRACE = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
    "distributedInfo": {"backend": "nccl", "rank": 5},
    "traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 0},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "ts": 0, "dur": 1000},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "ts": 500, "dur": 100},
        kernel("void at::native::vectorized_elementwise_kernel<4, MulFunctor>", 0, 300),
        kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(int)", 200, 300),
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "ts": 600, "dur": 50},
        kernel("sm80_xmma_gemm_f16f16", 5000, 300),
    ],
}


def read(content: Any, name: str = "trace.json") -> list[Any]:
    return facts("kineto", json.dumps(content).encode(), name)


def test_shares_of_the_step() -> None:
    values = {fact.name.removeprefix("profile."): fact.value for fact in read(TRACE)}
    wanted = {
        "busy": 0.55,
        "communication": 0.3,
        "communication_exposed": 0.2,
        "memcpy": 0.05,
        "sync": 0.1,
        "idle": 0.45,
    }
    assert {name: values[name] for name in wanted} == wanted
    assert values["gpu"] == "NVIDIA H100 80GB HBM3"
    assert {fact.entity["rank"] for fact in read(TRACE, "trace.rank1.json")} >= {5}


def test_compressed_data() -> None:
    assert named(facts("kineto", gzip.compress(json.dumps(TRACE).encode()), "trace.json.gz"), "profile.busy") == [0.55]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>", "elementwise"),
        ("triton_poi_fused_add_mul_3", "elementwise"),
        ("triton_red_fused_mean_1", "reduction"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>", "gemm"),
        ("nvjet_tst_128x256_64x4", "gemm"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "communication"),
        ("ncclKernel_AllGather_RING_LL", "communication"),
        ("void pytorch_flash::flash_fwd_kernel<>", "attention"),
        ("layer_norm_kernel", "normalisation"),
        ("my_kernel", "other"),
    ],
)
def test_kinds_of_kernels(name: str, kind: str) -> None:
    assert _profile.kernel_kind(name) == kind


@pytest.mark.parametrize(
    ("one", "two", "both", "rest"),
    [
        ([(0.0, 10.0)], [(2.0, 3.0), (9.0, 12.0)], [(2.0, 3.0), (9.0, 10.0)], [(0.0, 2.0), (3.0, 9.0)]),
        ([], [(0.0, 1.0)], [], []),
        ([(0.0, 1.0), (4.0, 5.0)], [], [], [(0.0, 1.0), (4.0, 5.0)]),
    ],
)
def test_spans(one: list[Any], two: list[Any], both: list[Any], rest: list[Any]) -> None:
    first, second = (merged([spans_of(pairs)]) for pairs in (one, two))
    assert overlap(first, second).pairs() == both
    assert without(first, second).pairs() == rest


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        5,
        None,
        {"traceEvents": 5},
        {"traceEvents": [None, 5, {}]},
        {"traceEvents": [{"ph": "X", "ts": "x", "dur": []}]},
        {"traceEvents": [{"ph": "X", "ts": 1e308, "dur": 1e308, "cat": "kernel", "name": 5}]},
        {
            "traceEvents": [{"ph": "X", "ts": 0, "dur": -5, "cat": "kernel"}],
            "deviceProperties": [5],
            "distributedInfo": [],
        },
        {"traceEvents": [{"ph": "X", "ts": float("nan"), "dur": 1, "cat": {}, "name": "k", "args": 7}]},
        {
            "traceEvents": [
                {"ph": "X", "ts": 0, "dur": 0, "cat": "kernel", "name": "k", "args": {"est. achieved occupancy %": "x"}}
            ]
        },
    ],
)
def test_hostile_content_gives_no_exception(content: Any) -> None:
    read(content)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\x1f\x8b broken", gzip.compress(b'{"traceEvents": [', mtime=0)[:-9], b'{"traceEvents":' * 5000],
)
def test_broken_data_is_unreadable(data: bytes) -> None:
    assert named(facts("kineto", data, "trace.json"), "profile.unreadable")


def test_recognition() -> None:
    data = json.dumps(TRACE).encode()
    assert kineto.recognises(data, data) == 2
    for other in (b"", b'{"events": []}', b'"traceEvents" is the key of a trace'):
        assert kineto.recognises(other, other) == 0
