"""Step times of one rank as `triage.steps/1` JSON lines. Runs in the training process: Python 3.8, no triage, no raise.

GPU phases are measured by CUDA events that are read once they have passed, steps later: nothing waits for the GPU.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import functools
import json
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Python 3.8 cannot subscript these when it runs
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    Mark = tuple[float, Any]  # host seconds, CUDA event or None
    F = TypeVar("F", bound=Callable[..., Any])

RANK_NAMES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
LOCAL_NAMES = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
SIZE_NAMES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
WAITS = ("data",)  # of the host alone: a GPU that is behind would hide them
FLUSH_S = 0.25  # lines wait at most this long: a killed rank loses less than that
MEMORY_STEPS, MEMORY_S = 64, 0.25  # allocator statistics: at each of the first steps, then this seldom
PENDING = 64  # steps whose events have not passed; older ones are written without GPU times
FAULTS = 5  # so many of its own errors, and the recorder stops


def guarded(function: F) -> F:
    """The one place that catches everything: a fault of the recorder is a line in its log, never the training's."""

    @functools.wraps(function)
    def inner(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.off:
            return None
        try:
            return function(self, *args, **kwargs)
        except Exception as error:
            self.fault(function.__name__, error)
            return None

    return inner  # type: ignore[return-value]


def first_number(names: Iterable[str], default: int | None = None) -> int | None:
    """The first environment variable of these that is a number."""
    for name in names:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return default


class Lines:
    """A file of lines, opened when the first comes. When it cannot be written it stays silent from then on."""

    def __init__(self, folder: str, name: str) -> None:
        self.path = os.path.join(folder, name)
        self.lines: list[str] = []
        self.written = 0.0
        self.trouble: OSError | None = None

    def add(self, line: str, now: float) -> None:
        """Keep a line; write all of them when the last writing is long enough ago."""
        self.lines.append(line + "\n")
        if now - self.written >= FLUSH_S:
            self.flush(now)

    def flush(self, now: float) -> None:
        """Write what is kept."""
        lines, self.lines, self.written = self.lines, [], now
        if not lines or self.trouble is not None:
            return
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(self.path, "a", encoding="utf-8") as file:
                file.write("".join(lines))
        except OSError as error:
            self.trouble = error


class StepRecorder:
    """Records the steps of this rank; every method is safe to call at any time.

    A plain loop::

        recorder = StepRecorder()
        for batch in recorder.data(loader):
            with recorder.phase("fwd"):
                loss = model(batch)
            with recorder.phase("bwd"):
                loss.backward()
            with recorder.phase("opt"):
                optimizer.step()
            recorder.step()

    directory: where to write; default $TRIAGE_RECORD_DIR, else `triage-record-<job id or time>`. rank: default from the
    environment. Phases: data, fwd, bwd, opt, comm, gc, ckpt, host; written as `<phase>_ms` in milliseconds.
    """

    def __init__(self, directory: str | None = None, rank: int | None = None, manual: bool = True) -> None:
        self.off = False
        self.faults = 0
        self.given = rank
        self.folder = directory or os.environ.get("TRIAGE_RECORD_DIR") or _default_folder()
        self.pid = os.getpid()
        self.files: dict[str, Lines] = {}
        self.count = 0
        self.since: Mark | None = None
        self.open: dict[str, Mark] = {}
        self.spans: list[tuple[str, Mark, Mark]] = []
        self.extra: dict[str, float] = {}
        self.queue: collections.deque[tuple[dict[str, Any], Mark, Mark, list[tuple[str, Mark, Mark]]]] = (
            collections.deque()
        )
        self.pool: list[Any] = []
        self.cuda: Any = None
        self.moved = time.monotonic()
        self.pace = 0.0
        self.sampled = 0.0
        self.last: tuple[int | None, int | None] = (None, None)
        if manual:
            atexit.register(self.close)
            _take_over(self)

    # -- what a training loop calls --

    @guarded
    def begin(self, phase: str) -> None:
        """A phase starts now, also when it was begun before and not ended."""
        if os.getpid() == self.pid:
            if self.since is None:
                self.since = self._mark()  # not the phase's own: each event goes back to the pool once
            again = self.open.get(phase)
            self.pool.extend([again[1]] if again is not None and again[1] is not None else [])
            self.open[phase] = (time.perf_counter(), None) if phase in WAITS else self._mark()

    @guarded
    def end(self, phase: str) -> None:
        """A phase ends now; several of one name in a step are added up."""
        start = self.open.pop(phase, None)
        if start is not None and os.getpid() == self.pid:
            now = (time.perf_counter(), None) if phase in WAITS else self._mark()
            self.spans.append((phase, start, now))

    @guarded
    def add(self, phase: str, seconds: float) -> None:
        """Host time that somebody else measured."""
        self.extra[phase] = self.extra.get(phase, 0.0) + seconds

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """`with recorder.phase("fwd"):`"""
        self.begin(name)
        try:
            yield
        finally:
            self.end(name)

    def data(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same batches; the time that each was waited for is `data_ms`."""
        iterator = iter(batches)
        while True:
            start = time.perf_counter()
            try:
                batch = next(iterator)
            except StopIteration:
                return
            self.add("data", time.perf_counter() - start)
            yield batch

    @guarded
    def step(self, number: int | None = None) -> None:
        """The step ends here. Its line is written when its GPU work has passed."""
        if os.getpid() != self.pid:
            return
        now = self._mark()
        row = self._row(number)
        if self.since is not None:
            self.queue.append((row, self.since, now, self.spans))
        else:
            self._write(row)
        self.since, self.spans, self.extra = now, [], {}
        moved, self.moved = self.moved, time.monotonic()
        self.pace += 0.1 * (self.moved - moved - self.pace)
        self._drain(len(self.queue) > PENDING)

    @guarded
    def close(self) -> None:
        """Write what is left, without waiting for the GPU."""
        if os.getpid() == self.pid:
            self._drain(False)
            while self.queue:
                self._drain(True)
            for file in self.files.values():
                file.flush(time.monotonic())

    def note(self, text: str) -> None:
        """A line in the recorder's own log, which says what it could not do."""
        with contextlib.suppress(Exception):
            file = self._file(f"recorder.rank{self.rank}.log")
            file.add(time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()) + text, time.monotonic())
            file.flush(time.monotonic())

    def fault(self, where: str, error: BaseException) -> None:
        """Note an error of the recorder's own; after FAULTS of them it stops."""
        self.faults += 1
        self.off = self.off or self.faults >= FAULTS
        self.note(f"{where}: {type(error).__name__}: {error}{'; recording stops' if self.off else ''}")

    # -- inside --

    @property
    def rank(self) -> int:
        """As given, else from the environment, else as torch.distributed says, else 0."""
        if self.given is None:
            found = first_number(RANK_NAMES)
            distributed = sys.modules.get("torch.distributed")
            if found is None and distributed is not None and distributed.is_available():
                found = distributed.get_rank() if distributed.is_initialized() else None
            if found is None:
                return 0  # perhaps known later
            self.given = found
        return self.given

    def _file(self, name: str) -> Lines:
        if name not in self.files:
            self.files[name] = Lines(self.folder, name)
        return self.files[name]

    def _mark(self) -> Mark:
        """Now, on the host and, once CUDA is in use, in the current stream."""
        if self.cuda is None:
            self.cuda = _cuda()
        if self.cuda is None or self.cuda.is_current_stream_capturing():
            return time.perf_counter(), None
        event = self.pool.pop() if self.pool else self.cuda.Event(enable_timing=True)
        event.record()
        return time.perf_counter(), event

    def _row(self, number: int | None) -> dict[str, Any]:
        step = self.count if number is None else int(number)
        self.count = step + 1
        row: dict[str, Any] = {"step": step, "rank": self.rank, "ts": round(time.time(), 3)}
        for phase, seconds in self.extra.items():
            row[phase + "_ms"] = round(1000 * seconds, 3)
        self._memory(row)
        return row

    def _memory(self, row: dict[str, Any]) -> None:
        """alloc and reserved of the current device, as torch's caching allocator counts them."""
        now = time.monotonic()
        if self.cuda is None or (self.count > MEMORY_STEPS and now - self.sampled < MEMORY_S):
            return
        self.sampled = now
        row["alloc"], row["reserved"] = _allocator(self.cuda)

    def _drain(self, forced: bool) -> None:
        """Write the steps whose last event has passed; with `forced` the oldest goes without GPU times."""
        while self.queue:
            row, start, end, spans = self.queue[0]
            passed = self._passed(end)
            if not passed and not forced:
                return
            forced = False
            self.queue.popleft()
            row["step_ms"] = _between(start, end, passed)
            for phase, first, last in spans:
                name = phase + "_ms"
                row[name] = round(row.get(name, 0.0) + _between(first, last, passed), 3)
            if passed:
                self.pool.extend(m[1] for span in spans for m in span[1:] if m[1] is not None)
                self.pool.extend([start[1]] if start[1] is not None else [])
            self._write(row)

    def _passed(self, mark: Mark) -> bool:
        """Has the GPU come so far? After a fault of the GPU nobody can tell any more."""
        try:
            return mark[1] is None or bool(mark[1].query())
        except RuntimeError:
            return False

    def _write(self, row: dict[str, Any]) -> None:
        name = f"steps.rank{self.rank}.jsonl"
        new = name not in self.files
        file, now = self._file(name), time.monotonic()
        if new:
            file.add(json.dumps(self._head()), now)
        file.add(json.dumps(row), now)
        if file.trouble is not None:
            self.off = True
            self.note(f"{file.path}: {file.trouble}; recording stops")

    def _head(self) -> dict[str, Any]:
        head: dict[str, Any] = {"schema": "triage.steps/1", "host": socket.gethostname(), "pid": os.getpid()}
        head["local_rank"] = first_number(LOCAL_NAMES)
        head["world_size"] = first_number(SIZE_NAMES)
        if self.cuda is not None:
            with contextlib.suppress(Exception):  # the uuid is there from torch 2.4 on
                uuid = self.cuda.get_device_properties(self.cuda.current_device()).uuid
                head["gpu_uuid"] = f"GPU-{uuid}"
        return {key: value for key, value in head.items() if value is not None}


def _between(start: Mark, end: Mark, passed: bool) -> float:
    """Milliseconds between two marks: of the GPU when both have events that have passed, else of the host."""
    if passed and start[1] is not None and end[1] is not None:
        return round(float(start[1].elapsed_time(end[1])), 3)
    return round(1000 * (end[0] - start[0]), 3)


def _cuda() -> Any:
    """torch.cuda once the job has initialised it; the recorder never does."""
    cuda = sys.modules.get("torch.cuda")
    return cuda if cuda is not None and hasattr(cuda, "is_initialized") and cuda.is_initialized() else None


def _allocator(cuda: Any) -> tuple[int, int]:
    """Allocated and reserved bytes. The private call gives them at a tenth of the cost of memory_stats()."""
    torch: Any = sys.modules["torch"]
    try:
        stats = torch._C._cuda_memoryStats(cuda.current_device())
        return int(stats["allocated_bytes"]["all"]["current"]), int(stats["reserved_bytes"]["all"]["current"])
    except (AttributeError, KeyError, TypeError):
        return int(cuda.memory_allocated()), int(cuda.memory_reserved())


def _default_folder() -> str:
    job = os.environ.get("SLURM_JOB_ID") or time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return "triage-record-" + job


def _take_over(recorder: StepRecorder) -> None:
    """Recording by hand: the automatic recorder of this process, when there is one, steps back."""
    automatic = sys.modules.get("_triage_recorder")
    if automatic is not None:
        automatic.stand_down(recorder)
