"""Many nodes at once, each by a program of the site: bounded in number, under a deadline, ended as process groups."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import IO, Any, cast

from triage.bundle.writing import DiskFullError
from triage.model.base import Record
from triage.transport.jobs import Answered
from triage.transport.receiving import Answer, Receiver, ledger

WIDTH = 64  # nodes at once; a launcher of a large cluster has a few hundred processes to spare, and so has sshd
MARGIN = 2.5  # seconds before the deadline at which a node should have sent all: it began later than it was asked
GRACE = 1.5  # seconds in which a program that is ended may remove what it made
BLOCK = 1 << 18  # bytes read at once
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
REFUSED = ("permission denied", "access denied", "not permitted", "forbidden", "unauthorized", "invalid account")


class Target(Record, frozen=True, kw_only=True):
    """A node and how to reach it.

    command: from the seconds that collecting may take to the program that takes the zipapp on standard input.
    instead: another way, tried when the first one never began.
    """

    node: str
    command: Callable[[float], list[str]]
    instead: Callable[[float], list[str]] | None = None
    encoded: bool = False


def allowed(left: float) -> float:
    """Seconds for collecting on a node, of those that are left until the deadline."""
    return max(1.0, left - max(MARGIN, left / 10))


class Fanout:
    """One round over all targets. `stop` ends it from another thread or a signal handler."""

    def __init__(self, receiver: Receiver, planned: Sequence[str], ends: float, told: Callable[[str], None]) -> None:
        self._receiver, self._planned, self._ends, self._told = receiver, planned, ends, told
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self.full: DiskFullError | None = None

    def run(self, targets: Sequence[Target], app: bytes) -> None:
        """Collect from every target. Raises DiskFullError, and KeyboardInterrupt after ending what runs."""
        with tempfile.TemporaryFile() as file, ThreadPoolExecutor(max(1, min(WIDTH, len(targets)))) as pool:
            file.write(app)
            file.flush()
            jobs = [pool.submit(self._one, target, file.fileno()) for target in targets]
            try:
                while wait(jobs, timeout=0.2).not_done:
                    continue
            except BaseException:
                self.stop()
                raise
        for job in jobs:
            job.result()
        if self.full:
            raise self.full

    def stop(self) -> None:
        """End everything that runs and start nothing more."""
        self._stopped.set()
        with self._lock:
            for process in self._running:
                end(process)

    def _one(self, target: Target, app: int) -> None:
        started, answer, trouble = time.time(), Answer(target.node, time.time()), {"failed": ["was not asked"]}
        for command in [target.command] + ([target.instead] if target.instead else []):
            left = self._ends - time.time()
            if left < 1 or self._stopped.is_set() or answer.began:
                break
            answer.sent = time.time()
            try:
                trouble = self._asked(command(allowed(left)), app, answer, target.encoded)
            except DiskFullError as error:
                self.full, trouble = error, {"failed": ["no space left for its files"]}
                self.stop()
        self.tell(answer, trouble, started)

    def tell(self, answer: Answer, trouble: dict[str, Any], started: float) -> None:
        """Put a node's rows into the ledger."""
        label = self._receiver.label(answer.node)
        trouble = {key: [self._receiver.clean(str(one)) for one in value] for key, value in trouble.items()}
        about: dict[str, Any] = {"node": label, "seconds": round(time.time() - started, 2), "bytes": answer.bytes}
        if answer.offset:
            about |= {"clock_offset_s": round(answer.offset[0], 3), "clock_uncertainty_s": round(answer.offset[1], 3)}
        if answer.began:
            about |= {"python": str(answer.began.get("python"))[:20], "zone": str(answer.began.get("zone"))[:10]}
        if answer.ended:
            about["redacted"] = answer.ended.get("redacted")
        try:
            self._receiver.writer.note(ledger(answer, label, self._planned, trouble))
            self._receiver.writer.node(about | {"complete": answer.ended is not None})
        except DiskFullError as error:
            self.full = error
        words = "; ".join(said for one in trouble.values() for said in one)
        self._told(f"{label}: {'done' if answer.ended else words or 'partly'}")

    def _asked(self, command: list[str], app: int, answer: Answer, encoded: bool) -> dict[str, Any]:
        """Run one program to its end. What went wrong, as keys of a ledger row."""
        with tempfile.TemporaryFile() as errors, open(f"/proc/self/fd/{app}", "rb") as source:  # noqa: PTH123
            try:
                process = self._start(command, source, errors)
            except OSError as error:
                return {"failed": [f"{command[0]}: {error.strerror}"]}
            late = threading.Event()
            timer = threading.Timer(max(0.1, self._ends - time.time()), _end_late, (process, late))
            timer.daemon = True
            timer.start()
            try:
                with cast("IO[bytes]", process.stdout) as stream:
                    self._receiver.receive(answer, stream, encoded)
                code = process.wait()
            finally:
                timer.cancel()
                end(process)
                process.wait()
                with self._lock:
                    self._running.discard(process)
            return _trouble(answer, code, late.is_set(), _last_words(errors))

    def _start(self, command: list[str], source: IO[bytes], errors: IO[bytes]) -> subprocess.Popen[bytes]:
        with self._lock:
            process = subprocess.Popen(  # noqa: S603
                command, stdin=source, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
            self._running.add(process)
        if self._stopped.is_set():
            end(process)
        return process


def _trouble(answer: Answer, code: int, late: bool, words: str) -> dict[str, Any]:
    if late:
        return {"timed_out": ["no answer within the deadline" if not answer.began else "not ready at the deadline"]}
    if answer.ended is not None:
        return {}
    message = answer.fault or words or f"ended with {code} before it had begun"
    key = "denied" if any(word in words.lower() for word in REFUSED) else "failed"
    return {key: [message]}


def _last_words(errors: IO[bytes]) -> str:
    errors.seek(0, os.SEEK_END)
    errors.seek(max(0, errors.tell() - 2000))
    lines = [line.strip() for line in errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return "; ".join(lines[-3:])[:500]


def _end_late(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started: first so that it can tidy up, then hard. One that has ended is fine."""
    if _signal(process, signal.SIGTERM):
        timer = threading.Timer(GRACE, _signal, (process, signal.SIGKILL))
        timer.daemon = True
        timer.start()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> bool:
    if process.poll() is not None:
        return False
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


_questions: set[subprocess.Popen[bytes]] = set()  # to the scheduler, under way in any thread
_asking = threading.Lock()


def end_questions() -> None:
    """End every question that is under way."""
    with _asking:
        for process in _questions:
            end(process)


def answer_of(command: Sequence[str], seconds: float, limit: int = 64 << 20) -> tuple[bytes, str | None]:
    """Output of a quick question to the scheduler, and why there is none: absent, timed out, or what it said."""
    found = _answered(command, seconds, lambda stream: (stream.read(limit), False))
    return found.data, found.fault


def tail_of(command: Sequence[str], seconds: float, keep: int) -> Answered:
    """The last bytes of what a program prints, from the start of a line on, and why there are none."""
    return _answered(command, seconds, lambda stream: _last(stream, keep))


def _last(stream: IO[bytes], keep: int) -> tuple[bytes, bool]:
    parts, held, cut = deque[bytes](), 0, False
    while data := stream.read(BLOCK):
        parts.append(data)
        held += len(data)
        while held - len(parts[0]) >= keep:
            held, cut = held - len(parts.popleft()), True
    data = b"".join(parts)
    return (data[data.find(b"\n") + 1 :] if cut else data), cut


def _answered(command: Sequence[str], seconds: float, read: Callable[[IO[bytes]], tuple[bytes, bool]]) -> Answered:
    late = threading.Event()
    with tempfile.TemporaryFile() as errors:
        try:
            with _question(command, errors) as process:
                timer = threading.Timer(seconds, _end_late, (process, late))
                timer.daemon = True
                timer.start()
                try:
                    with cast("IO[bytes]", process.stdout) as stream:
                        data, cut = read(stream)
                    code = process.wait()
                finally:
                    timer.cancel()
        except _AbsentError as error:
            return Answered(fault=str(error))
        if late.is_set():
            return Answered(data, f"{command[0]} did not answer within {seconds:.0f} s", cut)
        return Answered(data, None if code == 0 else _last_words(errors) or f"{command[0]} ended with {code}", cut)


class _AbsentError(Exception):
    """A program that cannot be started."""


@contextmanager
def _question(command: Sequence[str], errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A program that is ended with all that it started when the block is left, whenever an interrupt comes."""
    process = None
    try:
        with _uninterrupted():  # between its start and the moment we know of it
            try:
                process = _quietly(command, errors)
            except OSError as error:
                raise _AbsentError(f"{command[0]}: {error.strerror}") from None
            with _asking:
                _questions.add(process)
        yield process
    finally:
        if process is not None:
            end(process)
            cast("IO[bytes]", process.stdout).close()  # where an interrupt came before anybody read it
            process.wait()
            with _asking:
                _questions.discard(process)


def _quietly(command: Sequence[str], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603
        list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
    )


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """What interrupts in the block is raised at its end. Only the main thread is interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []  # numbers of signals
    before = {each: signal.signal(each, lambda number, _: came.append(number)) for each in _INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
    if came:
        signal.raise_signal(came[0])
