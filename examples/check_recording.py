"""Is a recording what an example should leave? Standard library alone; used by run_all.sh.

    python examples/check_recording.py FOLDER STEPS PHASE...

Exit code 0 when steps.rank0.jsonl in FOLDER has STEPS steps numbered from 0, every one but the first with the time of
each PHASE (data, fwd, bwd, opt), what is computed no longer than the step itself, and the recorder noted no trouble; 1
with a line that says what is wrong.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

SLACK_MS = 0.1  # an event is read to half a microsecond, and rounding


def faults(folder: Path, steps: int, phases: list[str]) -> list[str]:
    """What is wrong with the recording in `folder`."""
    lines = (folder / "steps.rank0.jsonl").read_text(encoding="utf-8").splitlines()
    head, *rows = [json.loads(line) for line in lines]
    found = [f"{log.name}: {log.read_text(encoding='utf-8').strip()}" for log in sorted(folder.glob("recorder*.log"))]
    if head.get("schema") != "triage.steps/1":
        found.append(f"first line is no head: {lines[0]}")
    if [row["step"] for row in rows] != list(range(steps)):
        found.append(f"steps are {[row['step'] for row in rows]}")
    return found + [fault for row in rows[1:] for fault in _of_row(row, phases)]


def _of_row(row: dict[str, float], phases: list[str]) -> list[str]:
    names = [phase + "_ms" for phase in phases]
    absent = [name for name in names if not row.get(name, -1.0) >= 0]
    if absent:
        return [f"step {row['step']}: no {', '.join(absent)}"]
    computed = sum(row[name] for name in names if name != "data_ms")  # waits run beside a GPU that is behind
    too_long = computed > row["step_ms"] + SLACK_MS
    return [f"step {row['step']}: phases last {computed} of {row['step_ms']} ms"] if too_long else []


def main(folder: str, steps: str, *phases: str) -> int:
    """Print what is wrong, or one line of what is there."""
    try:
        found = faults(Path(folder), int(steps), list(phases))
    except (OSError, ValueError, KeyError) as error:
        found = [f"{type(error).__name__}: {error}"]
    for fault in found[:5]:
        print(f"{folder}: {fault}", file=sys.stderr)
    if not found:
        print(f"{folder}: {steps} steps with {', '.join(phases)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
