"""How long does a large profile take, and how much memory? Figures, not a test.

    python -m benchmarks.profiles [--bytes 1000000000] [--keep FOLDER]

Writes a trace as the PyTorch profiler writes it (steps, operators, launches, kernels, copies, collectives; stacks of
Python where there is room), the same compressed, and an export of Nsight Systems of about that size, and runs `triage
explain` on each. Prints seconds (wall and processor), the peak of anonymous memory of all its processes, the verdict.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.watching import EXPLAIN, watched

HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150754820096, "numSms": 132}],
  "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
  "displayTimeUnit": "ms",
  "traceEvents": ["""
TAIL = """
  ],
  "traceName": "/data/run/trace.rank3.json"
}
"""
KERNELS = (
    "nvjet_sm90_tst_256x128_64x4_2x1_v_bz_coopA_TNT",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*>>",
    "void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::tuple<int, int>>>>",
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
)
OPERATORS = ("aten::linear", "aten::add", "aten::scaled_dot_product_attention", "c10d::_reduce_scatter_base_")
STEP_US = 100_000
CALL_US = 50  # from one kernel to the next
WAIT_US = 30_000  # of each step: the input is not there yet


def events() -> Iterator[str]:
    """Steps of 1,400 kernels without end."""
    step = 0
    while True:
        at = 1_790_000_000_000_000.0 + step * STEP_US
        yield _event("user_annotation", f"ProfilerStep#{step}", at, STEP_US - 1, 1, {})
        yield _event(
            "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, WAIT_US, 1, {}
        )
        for call in range((STEP_US - WAIT_US) // CALL_US):
            yield from _call(at + WAIT_US + call * CALL_US, step * 10_000 + call)
        step += 1


def _call(at: float, number: int) -> Iterator[str]:
    """An operator, the function that called it, its launch and its kernel."""
    which = (0, 1, 2, 1, 0, 1, 3)[number % 7]
    link = {"External id": number, "correlation": number}
    yield _event("python_function", f"/data/run/model.py({number % 400}): forward", at, 48, 1, {"Python id": number})
    yield _event("cpu_op", OPERATORS[which], at + 1, 40, 1, link | {"Input Dims": [[4096, 8192], [8192, 8192], []]})
    yield _event("cuda_runtime", "cudaLaunchKernel", at + 5, 4, 1, link | {"cbid": 211})
    more = {
        "stream": 7,
        "registers per thread": 168,
        "grid": [132, 1, 1],
        "block": [384, 1, 1],
        "est. achieved occupancy %": 19,
    }
    yield _event("kernel", KERNELS[which], at + 9.5, 41.25 if which != 1 else 12.125, 7, link | more)


def _event(kind: str, name: str, at: float, length: float, thread: int, values: dict[str, object]) -> str:
    head = {"ph": "X", "cat": kind, "name": name, "pid": 0, "tid": thread, "ts": at, "dur": length}
    return f"\n  {json.dumps(head)[:-1]},\n    {json.dumps({'args': values})[1:-1]}\n  }}"


def write_trace(path: Path, size: int) -> None:
    """A trace of about `size` bytes."""
    with path.open("w") as file:
        file.write(HEAD)
        for number, event in enumerate(events()):
            file.write("," * (number > 0) + event)
            if not number % 1000 and file.tell() > size:
                break
        file.write(TAIL)


def write_export(path: Path, size: int) -> None:
    """What `nsys export` makes of such a run: about 95 bytes a kernel and its launch."""
    base = sqlite3.connect(path)
    base.executescript("""
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
            correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
            streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER,
            registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER);
    """)
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate([*KERNELS, "cudaLaunchKernel", "data_loading"]))
    calls = range((STEP_US - WAIT_US) // CALL_US)
    for step in range(max(size // 125 // len(calls), 1)):
        at = 10**15 + step * STEP_US * 1000
        base.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, NULL)", (at, at + STEP_US * 1000, f"step {step}"))
        base.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, 5)", (at, at + WAIT_US * 1000))
        times = [(at + (WAIT_US + call * CALL_US) * 1000, step * 10_000 + call) for call in calls]
        base.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, 281475, ?, 4, 0)",
            ((start, start + 4000, number) for start, number in times),
        )
        base.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, 7, ?, 281475, ?, ?, 168, 132, 1, 1, 384)",
            ((start + 9000, start + 45000, number, number % 4, number % 4) for start, number in times),
        )
    base.commit()
    base.close()


def main() -> None:
    """Write, measure, print."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--bytes", type=int, default=1_000_000_000)
    asked.add_argument("--keep", type=Path)
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        plain, packed, export = (folder / name for name in ("trace.json", "trace.json.gz", "report.sqlite"))
        if not plain.exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_trace(plain, options.bytes)
            with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=1) as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
            write_export(export, options.bytes)
        for path in (plain, packed, export):
            seen = watched([*EXPLAIN, str(path)])
            first = json.loads(seen.output)["hypotheses"][:1]
            print(f"{path.name:<14} {path.stat().st_size / 1e6:6.0f} MB {seen}  {first[0]['cause'] if first else '-'}")


if __name__ == "__main__":
    main()
