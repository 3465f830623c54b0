"""How long do the logs of many ranks take, one file a rank, and how does that grow? Figures, not a test.

    python -m benchmarks.many_ranks [--ranks 1024] [--bytes 1000000] [--kind failing] [--growth] [--keep FOLDER]

Writes a folder of logs as a job of so many ranks leaves them (NCCL INFO, steps, lines of the framework; at the end of a
failing one a rank out of memory and, ten minutes later, the watchdog of all others), and runs `triage explain` on it,
cold: each run starts Python, with the compiled scanner in its cache. Prints seconds (wall and processor), the peak of
anonymous memory of all processes, the first cause and its culprit.

--growth does it for 10, 102, 1,024 and 10,240 ranks of 100 kB, three decades of bytes, and prints the exponent of the
processor's seconds over bytes: between neighbours, and through all, each less the seconds of a run on one small file.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from benchmarks.watching import EXPLAIN, Watched, environment, watched

NODE = 8  # ranks of a node
GROWTH = (10, 102, 1024, 10_240)
_HEAD = """\
{host}:{pid}:{pid} [{local}] NCCL INFO Bootstrap: Using ens3:192.0.2.{local}<0>
{host}:{pid}:{pid} [{local}] NCCL INFO NCCL version 2.28.9+cuda13.0
{host}:{pid}:{thread} [{local}] NCCL INFO ncclCommInitRankConfig comm 0x55d1c0{local}0 rank {rank} nranks {ranks} \
cudaDev {local} nvmlDev {local} busId {local}b000 commId 0x5f2a9c - Init START
{host}:{pid}:{thread} [{local}] NCCL INFO comm 0x55d1c0{local}0 rank {rank} nRanks {ranks} nNodes {nodes} \
localRanks 8 localRank {local} MNNVL 0
{host}:{pid}:{thread} [{local}] NCCL INFO ncclCommInitRankConfig comm 0x55d1c0{local}0 rank {rank} nranks {ranks} \
cudaDev {local} nvmlDev {local} busId {local}b000 commId 0x5f2a9c - Init COMPLETE
"""
_STEP = """\
 [2026-11-30 {clock}] iteration {step:8d}/  500000 | consumed samples: {samples:12d} | elapsed time per iteration \
(ms): {ms:.1f} | learning rate: 1.500000E-04 | global batch size:  1024 | lm loss: {loss:.6f}E+00 | loss scale: 1.0 | \
grad norm: 0.41 | num zeros: 0.0 | number of skipped iterations:   0 | number of nan iterations:   0 |
"""
_OTHER = (
    "@HOST:@PID:@PID [@LOCAL] NCCL INFO Channel {lane:02d}/0 : @RANK[@LOCAL] -> 9[1] [send] via NET/IB/3/GDRDMA\n",
    "2026-11-30 {clock},{lane:03d} INFO:data: rank @RANK loaded shard /data/tok/shard-{step:05d}.bin (errors: 0)\n",
    "@HOST:@PID:@PID [@LOCAL] NCCL INFO AllReduce: opCount {step:x} sendbuff 0x7f2a00 count 1048576 datatype 9 op 0\n",
    "2026-11-30 {clock},{lane:03d} DEBUG:timers: forward-compute: 1999.4 backward-compute: 2411.0 optimizer: 31.0\n",
)
_MEMORY = """\
[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/data/run/train.py", line 218, in <module>
[rank{rank}]:     loss.backward()
[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {local} has a total capacity \
of 79.11 GiB of which 1.07 GiB is free. Process {pid} has 78.03 GiB memory in use. Of the allocated memory 74.40 GiB \
is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated.
"""
_WATCHDOG = """\
[rank{rank}]:[E1130 23:40:11.{local}05000000 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective \
operation timeout: WorkNCCL(SeqNum=40804, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran \
for 6000{local}2 milliseconds before timing out.
[rank{rank}]:[E1130 23:40:11.{local}06000000 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] \
failure detected by watchdog at work sequence id: 40804 PG status: last enqueued work: 40804, last completed work: 40803
[rank{rank}]:[E1130 23:40:12.{local}06000000 ProcessGroupNCCL.cpp:730] [Rank {rank}] To avoid data inconsistency, we \
are taking the entire process down.
Fatal Python error: Aborted
"""


def body(size: int) -> bytes:
    """Steps and what stands between them, about `size` bytes; rank, node and process are still to be put in."""
    lines, written, step = [], 0, 0
    while written < size:
        step += 1
        clock = f"{13 + step // 700 % 10:02d}:{step // 12 % 60:02d}:{step * 5 % 60:02d}"
        known = {"step": step, "clock": clock, "lane": step % 32, "samples": step * 1024}
        text = _STEP.format(**known, ms=4500 + 90 * math.sin(step * 1.7), loss=2 + 0.1 * math.cos(step * 0.9))
        text += "".join(line.format(**known) for line in _OTHER)
        lines.append(text)
        written += len(text)
    return "".join(lines).encode()


def write(folder: Path, ranks: int, size: int, failing: bool) -> int:
    """The logs of all ranks; returns their bytes. In a failing job rank `culprit(ranks)` ran out of memory."""
    written, text = 0, body(size)
    for rank in range(ranks):
        known = {
            "rank": rank, "ranks": ranks, "local": rank % NODE, "nodes": -(-ranks // NODE), "pid": 4000 + rank % NODE,
            "thread": 4100 + rank % NODE, "host": f"node{rank // NODE:04d}",
        }  # fmt: skip
        own = text
        for name in ("host", "pid", "local", "rank"):
            own = own.replace(b"@" + name.upper().encode(), str(known[name]).encode())
        end = "[after training is done] datetime: 2026-11-30 23:41:00\n"
        if failing:
            end = (_MEMORY if rank == culprit(ranks) else _WATCHDOG).format(**known)
        path = folder / str(known["host"]) / f"rank_{rank}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        written += path.write_bytes(_HEAD.format(**known).encode() + own + end.encode())
    return written


def culprit(ranks: int) -> int:
    """The rank that runs out of memory."""
    return ranks // 3


def measured(ranks: int, size: int, failing: bool, keep: Path | None) -> tuple[int, Watched]:
    """Bytes, and the run."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = (keep or Path(temporary)) / f"{ranks}-{size}-{'failing' if failing else 'healthy'}"
        written = sum(path.stat().st_size for path in folder.rglob("*.log")) or write(folder, ranks, size, failing)
        seen = watched([*EXPLAIN, str(folder)])
        if keep is None:
            shutil.rmtree(folder)
        return written, seen


def told(seen: Watched) -> str:
    """Verdict, first cause and the ranks that it names."""
    report = json.loads(seen.output)
    first = report["hypotheses"][:1]
    named = [one.get("rank") for one in first[0]["culprits"]] if first else []
    return f"{report['verdict']} {first[0]['cause'] if first else '-'} {named[:4]}"


def growth(failing: bool, keep: Path | None) -> Iterator[str]:
    """A line for each decade, then the exponents."""
    rows: list[tuple[int, float]] = []
    start = measured(1, 1000, failing, None)[1].used
    for ranks in GROWTH:
        size, seen = measured(ranks, 100_000, failing, keep)
        rows.append((size, max(seen.used - start, 1e-3)))
        yield f"{ranks:6d} ranks {size / 1e6:7.1f} MB {seen}  {told(seen)}"
    slopes = [slope([before, after]) for before, after in pairwise(rows)]
    told_slopes = ", ".join(f"{each:.2f}" for each in slopes)
    yield f"exponents {told_slopes}; through all {slope(rows):.2f} (start {start:.2f} s)"


def slope(rows: list[tuple[int, float]]) -> float:
    """Of the line through the logarithms, by least squares."""
    points = [(math.log(size), math.log(seconds)) for size, seconds in rows]
    middle_x, middle_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    above = sum((x - middle_x) * (y - middle_y) for x, y in points)
    return above / sum((x - middle_x) ** 2 for x, _ in points)


def main() -> None:
    """Write, measure, print."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--ranks", type=int, default=1024)
    asked.add_argument("--bytes", type=int, default=1_000_000, help="of one log")
    asked.add_argument("--kind", choices=("failing", "healthy", "both"), default="both")
    asked.add_argument("--growth", action="store_true")
    asked.add_argument("--keep", type=Path, help="where logs are kept, and taken from when they are there")
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        watched([*EXPLAIN, "README.md"], environment(Path(cache)))  # nothing of it counts
    for failing in (True, False):
        if options.kind not in ("both", "failing" if failing else "healthy"):
            continue
        if options.growth:
            for line in growth(failing, options.keep):
                print(line, flush=True)
        else:
            size, seen = measured(options.ranks, options.bytes, failing, options.keep)
            print(f"{options.ranks:6d} ranks {size / 1e6:7.1f} MB {seen}  {told(seen)}", flush=True)


if __name__ == "__main__":
    main()
