"""A command watched from outside: its time, and the memory of it and of all that it starts."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

EXPLAIN = [sys.executable, "-c", "from triage.cli import main; main()", "explain", "--no-history", "--format", "json"]
LOOK_S = 0.02


class Watched(NamedTuple):
    """Seconds of the clock and of all processors, bytes of anonymous memory at the peak, what it printed."""

    wall: float
    used: float
    anonymous: int
    output: bytes

    def __str__(self) -> str:
        return f"{self.wall:7.2f} s {self.used:7.2f} s of processor {self.anonymous / 1e6:7.0f} MB"


def watched(command: list[str], environment: dict[str, str] | None = None, errors: bool = False) -> Watched:
    """Run it to its end. Memory is summed over its children; 0 where there is no /proc. errors: standard error, too."""
    before, begin, peak = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), 0
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT if errors else None, env=environment)
        while process.poll() is None:
            peak = max(peak, sum(map(_anonymous, _family(process.pid))))
            time.sleep(LOOK_S)
        wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        out.seek(0)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Watched(wall, used, peak, out.read())


def _family(pid: int) -> list[int]:
    try:
        tasks = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [pid, *(one for task in tasks for child in task.split() for one in _family(int(child)))]


def _anonymous(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


def environment(folder: Path) -> dict[str, str]:
    """This one's, with an empty cache in `folder`."""
    return os.environ | {"XDG_CACHE_HOME": str(folder)}
