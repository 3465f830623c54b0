"""How long do many flight-recorder dumps take, and is the culprit found? Figures, not a test.

    python -m benchmarks.hangs [--ranks 256] [--entries 2000] [--keep FOLDER]

Writes a dump for each rank of a made-up job (tensor groups of 8, data groups over them, the world) in which one rank
stops issuing, and runs `triage explain` on them. Prints seconds (wall and processor), the peak of memory of the largest
process, and the culprits; beside it torchfrtrace, where the torch of this environment has it.
"""

from __future__ import annotations

import argparse
import json
import pickle
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

EXPLAIN = [sys.executable, "-c", "from triage.cli import main; main()", "explain", "--format", "json"]
TENSOR = 8
Group = tuple[str, list[int]]


def groups_of(rank: int, ranks: int) -> list[Group]:
    """The groups of a rank: its node, its peers on the other nodes, all."""
    first = rank - rank % TENSOR
    return [
        (f"tp{rank // TENSOR}", list(range(first, min(first + TENSOR, ranks)))),
        (f"dp{rank % TENSOR}", list(range(rank % TENSOR, ranks, TENSOR))),
        ("world", list(range(ranks))),
    ]


def plan(count: int) -> list[int]:
    """Which group is next: eight times the node, then the peers, and all together once in a while."""
    return [2 if at % 90 == 89 else 1 if at % 9 == 8 else 0 for at in range(count)]


def dump(rank: int, ranks: int, entries: int, culprit: int) -> dict[str, Any]:
    """The dump of a rank: the culprit never issues the last two; its groups wait in them, the others behind."""
    groups = groups_of(rank, ranks)
    steps = plan(entries + entries // 2)
    stop = len(steps) - 3
    issued = stop if rank == culprit else len(steps)
    done = stop
    counters = [0, 0, 0]
    records, enqueued, completed = [], [0, 0, 0], [0, 0, 0]
    for place, group in enumerate(steps[:issued]):
        counters[group] += 1
        enqueued[group] = counters[group]
        if place < done:
            completed[group] = counters[group]
        if place >= issued - entries:
            records.append(_entry(place, group, groups[group][0], counters[group], place < done))
    status = {
        str(at): {
            "last_enqueued_collective": enqueued[at] or -1,
            "last_started_collective": -1,
            "last_completed_collective": completed[at] or -1,
        }
        for at in range(3)
    }
    config = {name: {"name": name, "desc": name, "ranks": str(members)} for name, members in groups}
    return {
        "version": "2.10", "pg_config": config, "comm_lib_version": "2.28.9", "pg_status": status, "entries": records,
    }  # fmt: skip


def _entry(place: int, group: int, name: str, seq: int, done: bool) -> dict[str, Any]:
    return {
        "record_id": place, "pg_id": group, "process_group": (name, name), "collective_seq_id": seq, "p2p_seq_id": 0,
        "op_id": place, "profiling_name": "nccl:_all_gather_base" if group == 0 else "nccl:all_reduce",
        "time_created_ns": 1_790_000_000_000_000_000 + place * 1_000_000, "input_sizes": [[4096, 1024]],
        "input_dtypes": ["BFloat16"], "output_sizes": [[4096, 1024]], "output_dtypes": ["BFloat16"],
        "state": "completed" if done else "scheduled", "time_discovered_started_ns": None,
        "time_discovered_completed_ns": 1_790_000_000_000_500_000 + place * 1_000_000 if done else None,
        "retired": done, "timeout_ms": 600_000, "is_p2p": False, "thread_id": "140", "thread_name": "pt_main_thread",
        "frames": [
            {"name": "all_reduce", "filename": "/opt/venv/lib/python3.11/site-packages/torch/distributed/c10d.py",
             "line": 2501},
            {"name": "train_step", "filename": "/data/run/train.py", "line": 41},
        ],
    }  # fmt: skip


def write(folder: Path, ranks: int, entries: int, culprit: int) -> None:
    """The dumps of all ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump(rank, ranks, entries, culprit), protocol=2))


def measured(command: list[str]) -> tuple[float, float, float, bytes]:
    """Seconds of the clock and of the processor, peak in MB of the largest process, what it printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    out = subprocess.run(command, capture_output=True, check=False).stdout
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, used, after.ru_maxrss / 1024, out


def main() -> None:
    """Write, measure, print."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--ranks", type=int, default=256)
    asked.add_argument("--entries", type=int, default=2000)
    asked.add_argument("--keep", type=Path)
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary) / "dumps"
        culprit = options.ranks // 3
        if not folder.exists():
            write(folder, options.ranks, options.entries, culprit)
        wall, used, peak, out = measured([*EXPLAIN, str(folder)])
        first = json.loads(out)["hypotheses"][:1]
        named = [one["rank"] for one in first[0]["culprits"]] if first else []
        print(
            f"triage       {wall:7.1f} s  {used:7.1f} s of processor  {peak:7.0f} MB  named {named}, wanted [{culprit}]"
        )
        if tool := shutil.which("torchfrtrace"):
            wall, used, peak, _ = measured([tool, "--prefix", "nccl_trace_rank_", str(folder)])
            print(f"torchfrtrace {wall:7.1f} s  {used:7.1f} s of processor  {peak:7.0f} MB")


if __name__ == "__main__":
    main()
