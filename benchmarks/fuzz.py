"""Many inputs for every fuzz target: counts, seconds, the worst input. Figures, and a folder of what broke.

    python -m benchmarks.fuzz [--inputs 1000000] [--minutes 60] [--seed campaign] [--target NAME ...] [--log FILE]

Targets are those of tests/fuzz. They are run in turn, a slice each, so that an end at any moment leaves all of them
tried alike; each runs in a process of its own under a limit of address space. A line of JSON for each target goes to
the log when the time is over; inputs that break something go to fuzz-found/<target>/, to be kept in fixtures/fuzz/
once the fault is mended.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from pathlib import Path
from typing import Any

from tests.fuzz.targets import Target, check, made, targets

FOUND = Path("fuzz-found")
KEPT = 20  # inputs kept of one kind of fault
ADDRESS_SPACE = 6 << 30  # bytes; scanner databases and numpy map much that they do not use
SLICE = 5_000  # inputs of a parser between two looks at the clock


def main() -> None:
    """Run until the inputs or the minutes are used up."""
    asked = _arguments()
    rows = {name: _row(name) for name in asked.target or targets()}
    end = time.monotonic() + asked.minutes * 60
    while time.monotonic() < end and (
        left := [name for name, row in rows.items() if row["inputs"] < _goal(name, asked)]
    ):
        for name in left:
            if time.monotonic() < end:
                rows[name] = _sliced(name, rows[name], asked)
        _write(asked.log, asked.seed, rows)
    for row in rows.values():
        print(json.dumps(row))


def _goal(name: str, asked: argparse.Namespace) -> int:
    return max(1, int(asked.inputs * targets()[name].share))


def _row(name: str) -> dict[str, Any]:
    return {"target": name, "inputs": 0, "cpu_s": 0.0, "worst_s": 0.0, "worst_input": None, "peak_mb": 0, "faults": {}}


def _sliced(name: str, row: dict[str, Any], asked: argparse.Namespace) -> dict[str, Any]:
    """One slice in a child, so that a crash or a lost gigabyte ends nothing but the slice."""
    count = max(1, min(int(SLICE * targets()[name].share), _goal(name, asked) - row["inputs"]))
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(
        target=_run, args=(name, row["inputs"], count, asked.seed, there)
    )
    child.start()
    there.close()
    try:
        told = here.recv()
    except EOFError:
        told = {"inputs": count, "faults": {f"the process ended near input {row['inputs']}": 1}}
    child.join()
    return _joined(row, told)


def _run(name: str, first: int, count: int, seed: str, there: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    target, begin, row = targets()[name], time.process_time(), _row(name)
    target.run(target.samples[0])
    for number in range(first, first + count):
        _tried(target, seed, number, row)
    row["inputs"], row["cpu_s"] = count, time.process_time() - begin
    row["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    there.send(row)


def _tried(target: Target, seed: str, number: int, row: dict[str, Any]) -> None:
    data = made(target, seed, number)
    try:
        seconds = check(target, data).seconds
    except Exception as error:
        kind = f"{type(error).__name__}: {error}"[:120]
        row["faults"][kind] = row["faults"].get(kind, 0) + 1
        if row["faults"][kind] <= KEPT:
            (FOUND / target.name).mkdir(parents=True, exist_ok=True)
            (FOUND / target.name / f"{seed}-{number}").write_bytes(data)
        return
    if seconds > row["worst_s"]:
        row["worst_s"], row["worst_input"] = seconds, number


def _joined(row: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    faults = row["faults"] | {kind: row["faults"].get(kind, 0) + count for kind, count in told["faults"].items()}
    worse = told.get("worst_s", 0.0) > row["worst_s"]
    return row | {
        "inputs": row["inputs"] + told["inputs"],
        "cpu_s": round(row["cpu_s"] + told.get("cpu_s", 0.0), 2),
        "worst_s": round(told["worst_s"], 4) if worse else row["worst_s"],
        "worst_input": told["worst_input"] if worse else row["worst_input"],
        "peak_mb": max(row["peak_mb"], told.get("peak_mb", 0)),
        "faults": faults,
    }


def _write(log: Path, seed: str, rows: dict[str, dict[str, Any]]) -> None:
    lines = [json.dumps({"seed": seed, **row}) for row in rows.values()]
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs of a parser; other targets have a share")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", default="campaign")
    parser.add_argument("--target", action="append")
    parser.add_argument("--log", type=Path, default=Path("fuzz.log"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
