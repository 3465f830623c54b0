"""A profile in shares of its window: spans by kind, from any profiler, in microseconds. kineto lists the facts."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from triage.model.base import Value, number
from triage.parsers._documents import mapping, text

STEPS = 4096
TOP = 5
GAP = 2_000.0  # us; longer gaps are not launch latency
Span = tuple[float, float]
_KINDS = tuple((kind, re.compile(names, re.IGNORECASE)) for kind, names in (
    ("communication", r"nccl|rccl|oneshot_all_?reduce|all_?reduce_kernel|deep_ep|nvshmem"),
    ("elementwise", r"elementwise_kernel|multi_tensor_apply|triton_poi_"),  # their arguments may name anything
    ("attention", r"flash|fmha|attention|mem_eff"),
    ("gemm", r"gemm|cutlass|cublas|xmma|wgmma|convol|conv\dd|dgrad|wgrad|implicit|nvjet|matmul|_mm_|triton_tem_"),
    ("normalisation", r"layer_?norm|rms_?norm|batch_?norm|group_?norm|bn_fw|bn_bw"),
    ("reduction", r"reduce_kernel|softmax|cub::|scan|sum_kernel|triton_(?:red|per)_"),
    ("elementwise", r"elementwise|pointwise|fill|copy|dropout|gelu|cat_?array|index|gather|scatter|fused_adam|foreach"),
))  # fmt: skip
_TENSOR = re.compile(
    r"tensorop|h\d{4,}|s\d{4,}gemm_(?:f16|bf16|fp16)|_bf16|bf16_|f16f16|fp16|_h_|[wh]gmma|hmma|imma|"
    r"i8|fp8|e4m3|e5m2|tf32|16816|1688",
    re.IGNORECASE,
)
_SIMT = re.compile(r"simt|ffma|sgemm_\d|f32f32_f32f32_f32|_sgemm", re.I)
_SYNC = re.compile(r"Synchronize|cuEventSync|cuStreamSync", re.I)


class Profile:
    """Spans by kind, and the windows of the profiled steps."""

    def __init__(self, events: Iterable[Any]) -> None:
        self.spans: dict[str, list[Span]] = defaultdict(list)
        self.steps: dict[str, Span] = {}
        self.kernels: list[tuple[str, float, float | None]] = []
        for event in events:
            item = mapping(event)
            start, length = number(item.get("ts")), number(item.get("dur"))
            if item.get("ph") == "X" and start is not None and length is not None and length >= 0:
                self._take(item, (start, start + length))
        self.window = merged(list(self.steps.values()))
        if not self.window:
            spans = [span for kind in ("kernel", "memcpy", "host") for span in self.spans[kind]]
            self.window = [(min(s[0] for s in spans), max(s[1] for s in spans))] if spans else []
        self.length = total(self.window)

    def _take(self, item: dict[Any, Any], span: Span) -> None:
        kind, name = str(item.get("cat", "")).lower(), text(item.get("name"), 400)
        if kind == "kernel":
            self.spans["kernel"].append(span)
            self.spans[kernel_kind(name)].append(span)
            told = number(mapping(item.get("args")).get("est. achieved occupancy %"))
            self.kernels.append((name, span[1] - span[0], told))
        elif kind in ("gpu_memcpy", "gpu_memset"):
            self.spans["memcpy"].append(span)
        elif kind in ("cpu_op", "cuda_runtime", "cuda_driver", "user_annotation", "python_function", "operator"):
            self._host(kind, name, span)

    def _host(self, kind: str, name: str, span: Span) -> None:
        if name.startswith("ProfilerStep"):
            self.steps[name] = span
            return
        if "DataLoader" in name and ("enumerate" in name or "__next__" in name or "next" in name.lower()):
            self.spans["loader"].append(span)
            return
        if kind.startswith("cuda") and _SYNC.search(name):
            self.spans["sync"].append(span)
        if kind != "python_function":
            self.spans["host"].append(span)

    def inside(self, kind: str) -> list[Span]:
        """Spans of a kind within the window, merged."""
        return overlap(merged(self.spans[kind]), self.window)

    def values(self) -> dict[str, Value]:
        """All facts that can be told."""
        if self.length <= 0:
            return {"profile.unreadable": "no work in it"}
        device = merged([*self.inside("kernel"), *self.inside("memcpy")])
        idle = without(self.window, device)
        values = self._shares(device, idle)
        values["profile.window_ms"] = round(self.length / 1e3, 3)
        values["profile.steps"] = len(self.steps) or None
        if self.steps:
            values["profile.step_ms"] = round(statistics.median(b - a for a, b in self.steps.values()) / 1e3, 3)
            values["profile.series.step_ms"] = [round((b - a) / 1e3, 4) for a, b in sorted(self.steps.values())[:STEPS]]
        return values | self._kernel_values()

    def _shares(self, device: list[Span], idle: list[Span]) -> dict[str, Value]:
        talk, copy, loader = self.inside("communication"), self.inside("memcpy"), self.inside("loader")
        work = merged([span for kind in (*_work_kinds(), "other") for span in self.inside(kind)])
        host, sync = self.inside("host"), self.inside("sync")
        quiet = without(without(idle, host), loader) if self.steps else []
        short = [span for span in without(idle, loader) if span[1] - span[0] < GAP] if work else []
        spans = {
            "busy": device, "compute": work, "communication": talk, "memcpy": copy, "idle": idle,
            "communication_exposed": without(talk, merged([*work, *copy])),
            "data_wait": overlap(loader, idle), "loader": loader, "host_silent": quiet,
            "launch_wait": overlap(without(short, sync), host), "sync": sync,
        }  # fmt: skip
        return {f"profile.{name}": self._share(part) for name, part in spans.items()}

    def _share(self, spans: list[Span]) -> float:
        return round(min(total(spans) / self.length, 1.0), 4)

    def _kernel_values(self) -> dict[str, Value]:
        time: Counter[str] = Counter()
        names: Counter[str] = Counter()
        tensor = 0.0
        for name, length, _ in self.kernels:
            kind = kernel_kind(name)
            time[kind] += length  # type: ignore[assignment]
            names[name[:120]] += length  # type: ignore[assignment]
            tensor += length if kind == "gemm" and tensor_cores(name) else 0.0
        work = sum(length for kind, length in time.items() if kind != "communication")
        if not self.kernels or work <= 0:
            return {}
        values: dict[str, Value] = {f"profile.{kind}": round(time[kind] / work, 4) for kind in _work_kinds()}
        values["profile.tensor_cores"] = round(tensor / time["gemm"], 4) if time["gemm"] else None
        values["profile.kernels"] = round(len(self.kernels) / max(len(self.steps), 1), 1)
        values["profile.kernel_us"] = round(statistics.median(length for _, length, _ in self.kernels), 3)
        told = [(length, share) for _, length, share in self.kernels if share is not None]
        weight = math.fsum(length for length, _ in told)
        if weight > 0:
            values["profile.occupancy"] = round(math.fsum(length * share for length, share in told) / weight, 1)
        every = sum(names.values())
        values["profile.top_kernels"] = [f"{count / every:.3f} {name}" for name, count in names.most_common(TOP)]
        return values


def _work_kinds() -> tuple[str, ...]:
    return tuple(dict.fromkeys(kind for kind, _ in _KINDS if kind != "communication"))


def kernel_kind(name: str) -> str:
    """What a kernel does, by its name: one of _KINDS, or `other`."""
    return next((kind for kind, names in _KINDS if names.search(name)), "other")


def tensor_cores(name: str) -> bool:
    """Does a matrix kernel's name say that it uses tensor cores?"""
    return bool(_TENSOR.search(name)) and not _SIMT.search(name)


def merged(spans: list[Span]) -> list[Span]:
    """The union of spans, sorted."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def overlap(one: list[Span], two: list[Span]) -> list[Span]:
    """Where both of two merged lists are."""
    out, at = [], 0
    for start, end in one:
        while at < len(two) and two[at][1] <= start:
            at += 1
        index = at
        while index < len(two) and two[index][0] < end:
            out.append((max(start, two[index][0]), min(end, two[index][1])))
            index += 1
    return out


def without(one: list[Span], two: list[Span]) -> list[Span]:
    """The first merged list less the second."""
    if not one:
        return []
    bounds = [-math.inf, *(edge for span in two for edge in span), math.inf]
    gaps = [(bounds[index], bounds[index + 1]) for index in range(0, len(bounds), 2)]
    return [span for span in overlap(one, gaps) if span[1] > span[0]]


def total(spans: list[Span]) -> float:
    """Length of merged spans together."""
    return math.fsum(end - start for start, end in spans)
