"""A profile in shares of its window: spans by kind, from any profiler, in microseconds. kineto lists the facts."""

from __future__ import annotations

import math
import re
import statistics
from array import array
from collections import Counter, defaultdict
from functools import cached_property, lru_cache
from typing import Any

from triage.model.base import Value
from triage.parsers._spans import Merged, Spans, exact_sum, left_of, merged, overlap, shared, spans_of, without

STEPS = 4096
TOP = 5
GAP = 2_000.0  # us; longer gaps are not launch latency
MOST_STEPS = 1 << 17  # of one profile
NAMES = 1 << 16  # of kernels that are told apart
Span = tuple[float, float]
_HOST = frozenset({"cpu_op", "cuda_runtime", "cuda_driver", "user_annotation", "python_function", "operator"})
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
    """Spans by kind, and the windows of the profiled steps: `add` everything, then ask."""

    def __init__(self) -> None:
        self.spans: dict[str, Spans] = defaultdict(Spans)
        self.steps: dict[str, Span] = {}
        self.kernels = Kernels()

    def add(self, kind: str, name: str, start: float, end: float, occupancy: float | None = None) -> None:
        """What ran from `start` to `end`. kind: the category of Kineto, in lower case; others count for nothing."""
        if kind == "kernel":
            self.spans[self.kernels.add(name, end - start, occupancy)].add(start, end)
        elif kind in ("gpu_memcpy", "gpu_memset"):
            self.spans["memcpy"].add(start, end)
        elif kind in _HOST:
            self._host(_host_kinds(kind, name), name, start, end)

    def _host(self, kinds: tuple[str, ...], name: str, start: float, end: float) -> None:
        for kind in kinds:
            if kind != "step":
                self.spans[kind].add(start, end)
            elif len(self.steps) < MOST_STEPS or name in self.steps:
                self.steps[name] = (start, end)

    def share(self, host: Profile) -> None:
        """Take in what the host did, seen once for several devices."""
        self.steps = host.steps
        self.spans.update(host.spans)

    @cached_property
    def window(self) -> Merged:
        """The profiled steps, or, without steps, from the first to the end of the last of all work."""
        if self.steps:
            return merged([spans_of(self.steps.values())])
        some = [self.spans[kind] for kind in (*_DEVICE, "host") if self.spans[kind]]
        return merged([spans_of([(min(min(s.starts) for s in some), max(max(s.ends) for s in some))])] if some else [])

    def inside(self, *kinds: str) -> Merged:
        """Spans of some kinds within the window, merged."""
        return overlap(merged([self.spans[kind] for kind in kinds]), self.window)

    def values(self) -> dict[str, Value]:
        """All facts that can be told."""
        length = self.window.total()
        if not length > 0:
            return {"profile.unreadable": "no work in it"}
        values: dict[str, Value] = {
            f"profile.{name}": round(min(part / length, 1.0), 4) for name, part in self._parts().items()
        }
        values["profile.window_ms"] = round(length / 1e3, 3)
        values["profile.steps"] = len(self.steps) or None
        if self.steps:
            values["profile.step_ms"] = round(statistics.median(b - a for a, b in self.steps.values()) / 1e3, 3)
            values["profile.series.step_ms"] = [round((b - a) / 1e3, 4) for a, b in sorted(self.steps.values())[:STEPS]]
        return values | self.kernels.values(len(self.steps))

    def _parts(self) -> dict[str, float]:
        """Lengths. Millions of spans are held for no longer than something is still to be told from them."""
        device = self.inside(*_DEVICE)
        found = {"busy": device.total()}
        idle = without(self.window, device)
        del device
        found |= {"idle": idle.total()} | self._working()
        loader = self.inside("loader")
        found |= {"loader": loader.total(), "data_wait": shared(loader, idle)}
        starved = without(idle, loader)
        del idle
        host = self.inside("host")
        found["host_silent"] = left_of(starved, host) if self.steps else 0.0
        sync = self.inside("sync")
        short = starved.shorter(GAP) if found["compute"] else merged([])
        del starved
        return found | {"sync": sync.total(), "launch_wait": shared(without(short, sync), host)}

    def _working(self) -> dict[str, float]:
        work, talk, copy = self.inside(*work_kinds(), "other"), self.inside("communication"), self.inside("memcpy")
        return {
            "compute": work.total(), "communication": talk.total(), "memcpy": copy.total(),
            "communication_exposed": left_of(talk, merged([work, copy])),
        }  # fmt: skip


class Kernels:
    """How long each kernel ran: 12 bytes a kernel, 20 where a profiler tells occupancies.

    which: an index of its name. occupancies: as far as the last that is told; NaN where none is.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.kinds: list[str] = []
        self.tensor: list[bool] = []
        self.which, self.lengths, self.occupancies = array("i"), array("d"), array("d")

    def add(self, name: str, length: float, occupancy: float | None) -> str:
        """One more; returns what it does."""
        at = self.names.get(name)
        if at is None:
            at = self._named(name)
        if occupancy is not None:
            self.occupancies.extend(array("d", [math.nan]) * (len(self.lengths) - len(self.occupancies)))
            self.occupancies.append(occupancy)
        self.which.append(at)
        self.lengths.append(length)
        return self.kinds[at]

    def _named(self, name: str) -> int:
        kind = kernel_kind(name)
        if len(self.names) >= NAMES:
            name = f"one of many {kind} kernels"
        if name not in self.names:
            self.names[name] = len(self.names)
            self.kinds.append(kind)
            self.tensor.append(kind == "gemm" and tensor_cores(name))
        return self.names[name]

    def values(self, steps: int) -> dict[str, Value]:
        """Shares of the kernel time, the median kernel, the kernels that take most."""
        times = self._times()
        work = sum(length for kind, length in times.items() if kind != "communication")
        if not self.names or not work > 0:
            return {}
        values: dict[str, Value] = {f"profile.{kind}": round(times.get(kind, 0.0) / work, 4) for kind in work_kinds()}
        tensor = self._summed(self.tensor).get(True, 0.0)
        values["profile.tensor_cores"] = round(tensor / times["gemm"], 4) if times.get("gemm") else None
        values["profile.kernels"] = round(len(self.which) / max(steps, 1), 1)
        values["profile.kernel_us"] = round(_median(self.lengths), 3)
        values["profile.occupancy"] = self._occupancy()
        values["profile.top_kernels"] = self._top()
        return values

    def _times(self) -> dict[str, float]:
        return self._summed(self.kinds)

    def _summed(self, groups: list[Any]) -> dict[Any, float]:
        """Time by group of the names, in the order in which the groups appear."""
        import numpy as np

        numbers = {group: at for at, group in enumerate(dict.fromkeys(groups))}
        group_of = np.array([numbers[group] for group in groups], dtype=int)
        if not groups:
            return {}
        times = np.bincount(group_of[np.asarray(self.which)], weights=np.asarray(self.lengths))
        return dict(zip(numbers, times.tolist(), strict=True))

    def _top(self) -> list[str]:
        names = Counter(self._summed([name[:120] for name in self.names]))
        every = sum(names.values())
        return [f"{time / every:.3f} {name}" for name, time in names.most_common(TOP)]

    def _occupancy(self) -> float | None:
        import numpy as np

        share = np.asarray(self.occupancies)
        lengths = np.asarray(self.lengths)[: len(share)]
        told = ~np.isnan(share)
        weight = exact_sum(lengths[told])
        with np.errstate(over="ignore"):  # a share of a billion is no share: it is unknown, and no warning
            whole = exact_sum(lengths[told] * share[told])
        return round(whole / weight, 1) if weight > 0 and math.isfinite(whole) else None


def _median(numbers: array[float]) -> float:
    import numpy as np

    ordered = np.sort(np.asarray(numbers))
    middle = len(ordered) // 2
    return float(ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


@lru_cache(maxsize=1 << 16)
def _host_kinds(kind: str, name: str) -> tuple[str, ...]:
    """What it counts for when the host does this."""
    if name.startswith("ProfilerStep"):
        return ("step",)
    if "DataLoader" in name and ("enumerate" in name or "next" in name.lower()):
        return ("loader",)
    waits = ("sync",) if kind.startswith("cuda") and _SYNC.search(name) else ()
    return waits if kind == "python_function" else (*waits, "host")


_DEVICE = (*dict.fromkeys(kind for kind, _ in _KINDS), "other", "memcpy")


def work_kinds() -> tuple[str, ...]:
    """What kernels do, communication apart."""
    return tuple(dict.fromkeys(kind for kind, _ in _KINDS if kind != "communication"))


def kernel_kind(name: str) -> str:
    """What a kernel does, by its name: one of _KINDS, or `other`."""
    return next((kind for kind, names in _KINDS if names.search(name)), "other")


def tensor_cores(name: str) -> bool:
    """Does a matrix kernel's name say that it uses tensor cores?"""
    return bool(_TENSOR.search(name)) and not _SIMT.search(name)
