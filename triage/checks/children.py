"""Child processes with a time limit: started together, ended together, and what they wrote before either."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from triage.model.check import Raw

GRACE = 5.0  # seconds until a killed child is given up: one that waits in the driver cannot end
MOST = 20_000  # lines read of a result
_ERROR = re.compile(r"[\w.]{0,80}(?:Error|Exception)\b")
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Job:
    """One child. `words[0]` is a module of this package; `{result}` in the others becomes the path of its result.

    visible: CUDA_VISIBLE_DEVICES for it; empty leaves that as it is.
    """

    name: str
    words: tuple[str, ...]
    visible: str = ""


@dataclass(frozen=True)
class Ended:
    """What a child found; `why` says how it failed, and is empty when it ended well."""

    name: str
    found: list[Raw]
    why: str = ""


def run(jobs: Sequence[Job], folder: Path, limit: float) -> list[Ended]:
    """Run all at once; after `limit` seconds those that still run are killed, with all that they started."""
    started = [_start(job, folder, at) for at, job in enumerate(jobs)]
    deadline = time.monotonic() + limit
    try:
        codes = [_wait(child, deadline) for child in started]
    finally:
        for child in started:
            _kill(child)
    return [
        Ended(job.name, list(_found(folder / f"{at}.jsonl")), _why(child, code, folder / f"{at}.err", limit))
        for at, (job, child, code) in enumerate(zip(jobs, started, codes, strict=True))
    ]


def _start(job: Job, folder: Path, at: int) -> subprocess.Popen[bytes]:
    words = [word.replace("{result}", str(folder / f"{at}.jsonl")) for word in job.words[1:]]
    with (folder / f"{at}.err").open("wb") as errors:
        return subprocess.Popen(  # noqa: S603 (a module of ours, its arguments checked by the command line)
            [sys.executable, "-m", f"triage.checks.{job.words[0]}", *words],
            cwd=ROOT,  # from where `-m` imports
            env=_environment(job),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )


def _environment(job: Job) -> dict[str, str]:
    """Without torchrun's own: its agent's store would take the place of the rendezvous that is asked for."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC_")}
    return kept | ({"CUDA_VISIBLE_DEVICES": job.visible} if job.visible else {})


def _wait(child: subprocess.Popen[bytes], deadline: float) -> int | None:
    try:
        return child.wait(max(deadline - time.monotonic(), 0.01))
    except subprocess.TimeoutExpired:
        return None


def _kill(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)


def _why(child: subprocess.Popen[bytes], code: int | None, errors: Path, limit: float) -> str:
    if code == 0:
        return ""
    if code is None:
        stuck = ", and could not be killed: it waits in the driver" if child.poll() is None else ""
        return f"gave no answer within {limit:.0f} s{stuck}"
    ended = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    last = _last_line(errors)
    return f"{ended}: {last}" if last else ended


def _last_line(path: Path) -> str:
    """The last error, else the last line that says something: printable, at most 200 characters."""
    with path.open("rb") as errors:
        errors.seek(max(path.stat().st_size - 16_384, 0))
        lines = errors.read().decode("utf-8", "replace").splitlines()
    told = [line.strip() for line in lines if line.strip() and not line.startswith(" ")]
    told = [line for line in told if _ERROR.match(line)] or told  # torch writes advice behind its errors
    return "".join(char if char.isprintable() else " " for char in told[-1])[:200] if told else ""


def _found(path: Path) -> Iterator[Raw]:
    if not path.exists():
        return
    for line in path.read_bytes().splitlines()[:MOST]:
        with contextlib.suppress(msgspec.DecodeError):  # cut by the end of the child
            yield msgspec.json.decode(line, type=Raw)
