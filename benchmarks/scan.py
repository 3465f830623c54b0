"""How fast is a large log read, as a user would wait for it? Figures, not a test.

    python -m benchmarks.scan [--bytes 1000000000] [--rate 0.0001] [--log FILE] [--keep]

Runs `triage explain` on a log of scan_log.py and prints MB/s of the whole process and its peak of anonymous memory,
beside `cat` and, where it is installed, ripgrep with the same regexes. All figures are of this machine in this run:
only their ratios mean something elsewhere.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.scan_log import write
from triage.matching.expressions import scannable
from triage.matching.loading import catalogue

EXPLAIN = [sys.executable, "-c", "from triage.cli import main; main()", "explain", "--format", "json"]


def main() -> None:
    """Make the log, measure, print."""
    asked = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        log = asked.log or Path(folder) / "job.out"
        if not log.exists():
            write(log, asked.bytes, asked.rate)
        if asked.keep and asked.log is None:
            shutil.copy(log, "scan-benchmark.out")
        size = log.stat().st_size
        subprocess.run(["cat", log], stdout=subprocess.DEVNULL, check=True)  # into the page cache
        for name, seconds, memory in measures(log, Path(folder)):
            note = f"{memory / 1e6:8.0f} MB anonymous" if memory else ""
            print(f"{name:<24} {seconds:8.2f} s {size / 1e6 / seconds:9.0f} MB/s {note}")


def measures(log: Path, folder: Path) -> Iterator[tuple[str, float, int]]:
    """(name, seconds, peak bytes) of each program, triage a second time with its cache filled."""
    environment = os.environ | {"XDG_CACHE_HOME": str(folder)}
    yield "cat", *timed(["cat", str(log)], environment)
    yield "triage, first time", *timed([*EXPLAIN, str(log)], environment)
    yield "triage", *timed([*EXPLAIN, str(log)], environment)
    yield "triage, one core", *timed([*EXPLAIN, str(log)], environment | {"TRIAGE_CORES": "1"})
    if shutil.which("rg"):
        patterns = folder / "patterns"
        regexes = (pattern.regex for each in catalogue().values() for pattern in each.match if not pattern.prefilter)
        patterns.write_bytes(b"\n".join(scannable(regex) for regex in regexes))
        yield "ripgrep", *timed(["rg", "--no-unicode", "-c", "-f", str(patterns), str(log)], environment)


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, int]:
    """Seconds, and the peak of anonymous memory in bytes (Linux; elsewhere 0), of a whole process."""
    begin, peak = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        while process.poll() is None:
            peak = max(peak, _anonymous(process.pid))
            time.sleep(0.005)
    return time.perf_counter() - begin, peak


def _anonymous(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bytes", type=int, default=1_000_000_000, help="size of the log")
    parser.add_argument("--rate", type=float, default=1e-4, help="share of lines that are examples of signatures")
    parser.add_argument("--log", type=Path, help="a log to read instead; made there when it does not exist")
    parser.add_argument("--keep", action="store_true", help="leave the log behind as scan-benchmark.out")
    return parser.parse_args()


if __name__ == "__main__":
    main()
