"""How long do many flight-recorder dumps take, and is the culprit found? Figures, not a test.

    python -m benchmarks.hangs [--ranks 256] [--keep FOLDER] [--torch-python PYTHON] [--labelled FOLDER]

Writes a dump for each rank of a made-up job (tensor groups of 8, data groups over them, the world) in which one rank
stops issuing, and runs `triage explain` on them; beside it, in the same run, torchfrtrace, where an environment has it.
Prints seconds (wall and processor), the peak of anonymous memory of all processes, the culprits, and the ratios. Then
the labelled sets of dumps in a folder, when there is one: whether exactly their culprits are named.
"""

from __future__ import annotations

import argparse
import json
import pickle
import re
import shutil
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.watching import EXPLAIN, watched
from triage import content

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


def named(output: bytes) -> list[int]:
    """Ranks that the first hypothesis names."""
    first = json.loads(output)["hypotheses"][:1]
    return sorted(one["rank"] for one in first[0]["culprits"] if one.get("rank") is not None) if first else []


def missing(output: bytes) -> list[int]:
    """Ranks that torchfrtrace lists as missing somewhere: it names no culprit."""
    sets = re.findall(rb"missing ranks: \{([\d, ]*)\}", output)
    return sorted({int(rank) for some in sets for rank in some.split(b",") if rank.strip()})


def peer(python: Path | None) -> list[str] | None:
    """The command of torchfrtrace in that environment, or in this one; None where there is none."""
    tool = shutil.which("torchfrtrace") if python is None else shutil.which(python.with_name("torchfrtrace"))
    return [tool, "--prefix"] if tool else None


def beside(folder: Path, prefix: str, tool: list[str] | None) -> Iterator[str]:
    """A line for each program, and their ratio."""
    own = watched([*EXPLAIN, str(folder)])
    yield f"triage       {own}  named {named(own.output)}"
    if tool is None:
        yield "torchfrtrace skipped: --torch-python names no environment that has it"
        return
    other = watched([*tool, prefix, str(folder)], errors=True)
    yield f"torchfrtrace {other}  missing somewhere {missing(other.output)[:12]}"
    yield f"ratio        {other.used / own.used:.1f} of processor time, {other.anonymous / own.anonymous:.1f} of memory"


def labelled(cases: Path | None, tool: list[str] | None) -> Iterator[str]:
    """Whether exactly the culprits of each labelled set are named: folders with evidence/ and truth.yaml."""
    truths = sorted(cases.glob("*-fr-*/truth.yaml")) if cases else []
    if not truths:
        yield "labelled sets skipped: --labelled names no folder with dumps in <set>/evidence"
    right = 0
    for truth in truths:
        wanted = sorted(map(int, content.read(truth).tree["culprit"]["rank"]))
        folder = truth.parent / "evidence"
        found = named(watched([*EXPLAIN, str(folder)]).output)
        prefix = re.sub(r"\d+$", "", min(path.name for path in folder.iterdir()))
        theirs = missing(watched([*tool, prefix, str(folder)], errors=True).output) if tool else "not asked"
        right += found == wanted
        yield f"{truth.parent.name:<24} wanted {wanted}, triage {found}, missing for torchfrtrace {theirs}"
    if truths:
        yield f"exact culprit sets {right} of {len(truths)}"


def main() -> None:
    """Write, measure, print."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--ranks", type=int, default=256)
    asked.add_argument("--entries", type=int, default=2000)
    asked.add_argument("--keep", type=Path)
    asked.add_argument("--torch-python", type=Path, help="Python of an environment with torchfrtrace")
    asked.add_argument("--labelled", type=Path, help="folder of labelled sets, read in place")
    options = asked.parse_args()
    tool = peer(options.torch_python)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary) / "dumps"
        if not folder.exists():
            write(folder, options.ranks, options.entries, options.ranks // 3)
        print(f"{options.ranks} ranks of {options.entries} entries, culprit {options.ranks // 3}")
        for line in chain(beside(folder, "nccl_trace_rank_", tool), labelled(options.labelled, tool)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
