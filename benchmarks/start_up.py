"""How long a person waits for the small commands: medians of whole processes, and ratios to an empty Python."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 9
LOG = Path(__file__).resolve().parents[1] / "fixtures/incidents/oom-then-watchdog/evidence"
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "triage --help": ["-m", "triage", "--help"],
    "triage lookup 79": ["-m", "triage", "lookup", "79"],
    "triage lookup exit 137": ["-m", "triage", "lookup", "exit", "137"],
    "triage explain (short log)": ["-m", "triage", "explain", str(LOG)],
}


def median(arguments: list[str]) -> float:
    """Median milliseconds of RUNS runs, after one that warms the caches."""
    taken = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        taken.append(1000 * (time.perf_counter() - start))
    return statistics.median(taken[1:])


def main() -> None:
    """Print the table."""
    base = median(COMMANDS["python -c pass"])
    for name, arguments in COMMANDS.items():
        took = median(arguments)
        print(f"{name:<28}{took:>8.0f} ms{took / base:>8.1f} times an empty Python")


if __name__ == "__main__":
    main()
