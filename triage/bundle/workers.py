"""Processes beside this one: copies that share its work, and children that load pickles.

Pickles are loaded where they can do no harm: in a limited child that knows no classes. One child serves many.

Flight-recorder dumps and memory snapshots hold plain data only, so nothing is lost. Looking at the opcodes first and
loading here would save the child, but memory and time of a hostile pickle can only be bounded from outside.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar, cast

import msgspec

from triage.bundle._unpickling import HEAD, REPLY
from triage.model.base import Record
from triage.model.bundle import Rows

LENGTH = struct.Struct(">Q")
T = TypeVar("T")


class Bounds(Record, frozen=True, kw_only=True):
    """What one pickle may take: bytes of memory, seconds of CPU and of wall clock, bytes of result.

    A snapshot of a large job is some hundred MB, and its objects about ten times that.
    """

    memory: int = 6 << 30
    cpu: int = 60
    wall: float = 120
    result: int = 1 << 30


class Unpickler:
    """Loads pickles in a child process: started by the first, ended by `close`, replaced after a failure."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def load(self, data: bytes) -> Any:
        """The plain data of a pickle; tuples come as lists. Raises ValueError with the reason."""
        return self._answer(data, b"", Any)

    def rows(self, data: bytes, wanted: Rows, kind: type) -> tuple[Any, list[Any]]:
        """A pickle whose records are too many to be looked at whole: what it holds beside them, and a row for each.

        kind: an array-like struct whose fields are the wanted columns and then the rare ones; those that hold nothing
        but msgspec.Raw are not decoded. Raises ValueError as `load` does.
        """
        return cast("tuple[Any, list[Any]]", self._answer(data, msgspec.msgpack.encode(wanted), tuple[Any, list[kind]]))  # type: ignore[valid-type]

    def _answer(self, data: bytes, wish: bytes, kind: Any) -> Any:
        with self._lock:
            status, payload = self._ask(data, wish)
        if status != b"+":
            raise ValueError(f"the pickle cannot be read: {payload.decode('utf-8', 'replace')}")
        try:
            return msgspec.msgpack.decode(payload, type=kind, strict=False)
        except (msgspec.DecodeError, RecursionError, TypeError) as error:
            raise ValueError(f"the pickle cannot be read: {error}") from None

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._end()

    def _ask(self, data: bytes, wish: bytes) -> tuple[bytes, bytes]:
        child = self._running()
        late = threading.Event()

        def stop() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(self._bounds.wall, stop)
        timer.daemon = True
        timer.start()
        try:
            return self._exchange(child, data, wish)
        except (OSError, EOFError):
            self._end()
            return b"-", b"it takes too long" if late.is_set() else b"it takes too much time or memory"
        finally:
            timer.cancel()

    def _exchange(self, child: subprocess.Popen[bytes], data: bytes, wish: bytes) -> tuple[bytes, bytes]:
        sink, source = _pipes(child)
        sink.write(HEAD.pack(self._bounds.cpu, len(wish), len(data)) + wish)
        sink.write(data)
        sink.flush()
        status, length = REPLY.unpack(_exactly(source, REPLY.size))
        if length > self._bounds.result:
            self._end()
            return b"-", b"its content is too large"
        return status, _exactly(source, length)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self._end()
            self._child = _start(self._bounds.memory)
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        for pipe in _pipes(child):
            try:
                pipe.close()
            except OSError:  # what was left in the buffer has no reader any more
                continue
        child.wait()


class Unpicklers:
    """Some children that load pickles side by side; each is started when all others are busy."""

    def __init__(self, most: int = 2, bounds: Bounds | None = None) -> None:
        self._free: queue.LifoQueue[Unpickler] = queue.LifoQueue()
        self._all = [Unpickler(bounds) for _ in range(most)]
        for one in self._all:
            self._free.put(one)

    def load(self, data: bytes) -> Any:
        """As `Unpickler.load`; waits while all children are busy."""
        with self._one() as one:
            return one.load(data)

    def rows(self, data: bytes, wanted: Rows, kind: type) -> tuple[Any, list[Any]]:
        """As `Unpickler.rows`; waits while all children are busy."""
        with self._one() as one:
            return one.rows(data, wanted, kind)

    @contextlib.contextmanager
    def _one(self) -> Iterator[Unpickler]:
        one = self._free.get()
        try:
            yield one
        finally:
            self._free.put(one)

    def close(self) -> None:
        """End the children."""
        for one in self._all:
            one.close()


def can_fork() -> bool:
    """Where a copy of this process is whole: on Linux, while no other thread holds a lock that nobody would open."""
    return sys.platform == "linux" and threading.active_count() == 1


def forked(works: Sequence[Callable[[], bytes]]) -> list[bytes]:
    """What each of some works gives, one of them here and each other in a copy of this process.

    A copy shares what was opened and gives back bytes. The work of one that dies is done here.
    """
    if not works:
        return []
    first, others = beside(works[0], works[1:])
    return [first, *others]


def beside(own: Callable[[], T], works: Sequence[Callable[[], bytes]]) -> tuple[T, list[bytes]]:
    """The same; what this process does itself may give anything, for it is sent nowhere."""
    children = [_Copy(work) for work in works]
    try:
        result = own()
        answers = [child.answer() for child in children]
    finally:
        for child in children:
            child.end()
    done = zip(answers, works, strict=True)
    return result, [work() if answer is None else answer for answer, work in done]


class _Copy:
    """A copy of this process that does one work and ends."""

    def __init__(self, work: Callable[[], bytes]) -> None:
        source, sink = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            _work_and_end(work, sink)
        os.close(sink)
        self._source = os.fdopen(source, "rb")

    def answer(self) -> bytes | None:
        """Wait for it; None when it did not come to its end."""
        head = self._source.read(LENGTH.size)
        data = self._source.read()
        return data if len(head) == LENGTH.size and LENGTH.unpack(head)[0] == len(data) else None

    def end(self) -> None:
        """Leave nothing behind."""
        self._source.close()
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _work_and_end(work: Callable[[], bytes], sink: int) -> NoReturn:
    """Nothing of this process's own end may run a second time, whatever happens."""
    try:
        data = work()
        with os.fdopen(sink, "wb") as pipe:
            pipe.write(LENGTH.pack(len(data)))
            pipe.write(data)
    finally:
        os._exit(0)


def _start(memory: int) -> subprocess.Popen[bytes]:
    """-I: no site of the user, no PYTHON* variables; the folder of msgspec is named, wherever it is installed."""
    script = Path(__file__).with_name("_unpickling.py")
    site = Path(msgspec.__file__).parents[1]
    command = [sys.executable, "-I", str(script), str(site), str(memory)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # noqa: S603


def _pipes(child: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if child.stdin is None or child.stdout is None:
        raise OSError("the child has no pipes")
    return child.stdin, child.stdout


def _exactly(source: IO[bytes], length: int) -> bytes:
    data = source.read(length)
    if len(data) < length:
        raise EOFError
    return data
