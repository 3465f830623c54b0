"""Starts a job so that it can be diagnosed: environment, recorder on the ranks' path, a copy of the output.

Nothing that the user set is overridden. One launcher runs on each node, before the job's own launcher (torchrun, srun).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from triage.errors import UsageError

SITE = Path(__file__).with_name("site")
RECORDS = 2000  # of the flight recorder, as torch's own documentation proposes
COLLECT_S = 90  # a collection after a failure ends by then
_BLOCK = 1 << 16
_DUMP = re.compile(r"fr\.rank\d+")


def default_folder() -> Path:
    """`triage-record-<job id or UTC time>` in the working folder."""
    job = os.environ.get("SLURM_JOB_ID") or time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return Path(f"triage-record-{job}")


def additions(folder: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Variables to add to `given` for a recording in `folder` (absolute); what is set already stays as it is.

    NCCL writes to files only when the user asked for no NCCL output: else it would vanish from where it is expected.
    Older names beside newer ones are for torch before 2.9.
    """
    wanted = {
        "TRIAGE_RECORD_DIR": str(folder),
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "PYTHONFAULTHANDLER": "1",
    }
    for names in _PAIRS:
        if not any(name in given for name in names):
            wanted |= dict.fromkeys(names, _PAIRS[names].format(folder=folder))
    if not any(name in given for name in ("NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS")):
        wanted |= {
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,NET",  # nothing that is said for each operation
            "NCCL_DEBUG_FILE": f"{folder}/nccl.%h.%p.log",
        }
    added = {name: value for name, value in wanted.items() if name not in given}
    path = [str(SITE), *[part for part in given.get("PYTHONPATH", "").split(os.pathsep) if part]]
    return added | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(path))}


_PAIRS: dict[tuple[str, ...], str] = {
    ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"): str(RECORDS),
    ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"): "{folder}/fr.rank",
}


def run(command: Sequence[str], folder: Path, out: BinaryIO, err: BinaryIO) -> int:
    """Run the job, pass its output on and keep a copy of it in `folder`. Returns its exit code, 128 + n for a signal.

    Raises UsageError when it cannot be started or the folder cannot be made.
    """
    if shutil.which(command[0]) is None:
        raise UsageError(
            f"{command[0]}: nothing of that name can be run here; load the job's environment, or name a program"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        log = (folder / f"output.{socket.gethostname()}.log").open("ab")
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or error}") from error
    with log:
        code = _run(command, {**os.environ, **additions(folder.resolve(), os.environ)}, log, out, err)
        if code:
            log.write(f"triage record: the command ended with exit code {code}\n".encode())
    _rename_dumps(folder)
    return code


def _run(command: Sequence[str], environment: dict[str, str], log: BinaryIO, out: BinaryIO, err: BinaryIO) -> int:
    try:
        child = subprocess.Popen(  # noqa: S603 - the command is the user's own, as a list, without a shell
            list(command), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise UsageError(f"{command[0]}: {error.strerror or error}") from error
    lock = threading.Lock()
    copies = [
        threading.Thread(target=_copy, args=(pipe, sink, log, lock), daemon=True)
        for pipe, sink in ((child.stdout, out), (child.stderr, err))
    ]
    with _forwarding(child):
        for thread in copies:
            thread.start()
        code = child.wait()
        for thread in copies:
            thread.join(timeout=5)  # a grandchild may hold the pipe open for ever
        for pipe, thread in zip((child.stdout, child.stderr), copies, strict=True):
            if pipe is not None and not thread.is_alive():
                pipe.close()
    return code if code >= 0 else 128 - code


def _copy(pipe: BinaryIO, sink: BinaryIO, log: BinaryIO, lock: threading.Lock) -> None:
    """Pass on whole lines as they come; a line without an end is passed on at the end or when it is long."""
    rest = b""
    while block := pipe.read1(_BLOCK):  # type: ignore[attr-defined]
        whole, mark, rest = (rest + block).rpartition(b"\n")
        if len(rest) > _BLOCK or b"\r" in rest:  # progress bars end their lines so
            whole, mark, rest = whole + mark + rest, b"", b""
        if whole or mark:
            _pass(whole + mark, sink, log, lock)
    if rest:
        _pass(rest, sink, log, lock)


def _pass(data: bytes, sink: BinaryIO, log: BinaryIO, lock: threading.Lock) -> None:
    """To both; that one cannot be written (a closed terminal, a full disk) takes nothing from the other."""
    with lock:
        for file in (sink, log):
            with contextlib.suppress(OSError, ValueError):
                file.write(data)
                file.flush()


@contextlib.contextmanager
def _forwarding(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """The scheduler's warning and end signals reach the job; an interrupt from the keyboard reaches it anyway."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
            before[number] = signal.signal(number, lambda received, _: child.send_signal(received))
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _rename_dumps(folder: Path) -> None:
    """torch appends the bare rank to a prefix: `fr.rank3` becomes `fr.rank3.pkl`, in place of an earlier one."""
    for path in folder.iterdir():
        if _DUMP.fullmatch(path.name):
            with contextlib.suppress(OSError):
                path.replace(path.with_name(path.name + ".pkl"))


def collect(folder: Path, output: Path) -> str | None:
    """Collect this node and the recording into a bundle. Returns what went wrong, or None."""
    if find_spec("triage.cli.collect") is None:
        return "this triage has no collectors"
    command = [sys.executable, "-m", "triage", "collect", "--include", str(folder), "-o", str(output)]
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            [*command, "--timeout", str(COLLECT_S)], capture_output=True, timeout=2 * COLLECT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if output.exists():
        return None
    return done.stderr.decode("utf-8", "replace").strip()[-300:] or f"exit code {done.returncode}"
