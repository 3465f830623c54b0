"""What the automatic recorder hooks into: torch's optimizers, backward, DataLoader, save, allocator; Python's gc.

Runs in the training process: Python 3.8, standard library, torch as it is found there. `install` gets the recorder
from sitecustomize, so that this file imports nothing of triage. Nothing here may raise into the training or wait for
the GPU.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import gc
import importlib.abc
import importlib.machinery
import os
import pickle
import sys
import threading
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Python 3.8 cannot subscript these when it runs
    from collections.abc import Callable

STALL_S = 60.0  # no step for so long, and for STALL_STEPS of the usual ones: dump what the collectives are doing
STALL_STEPS = 20
GOES_ON = 3  # looks that find something moved before a stall counts as over: a failing collective moves once
HISTORY = 100_000  # allocator events kept for the snapshot of an out-of-memory error, without call stacks
_ACTIVE: list[Hooks] = []


def install(recorder: Any, steps: ModuleType) -> None:
    """Wait for torch; then hook in. Called once, at the start of the process."""
    hooks = Hooks(recorder, steps.guarded)
    _ACTIVE.append(hooks)
    sys.meta_path.insert(0, _AfterImport({"torch": hooks.torch, "torch.utils.data.dataloader": hooks.loader}))


def stand_down(by: Any) -> None:
    """A StepRecorder of the user's own records the steps from now on; snapshots and dumps go on here."""
    for hooks in _ACTIVE:
        hooks.recorder.off = hooks.recorder is not by
        hooks.counting = by


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function once a module has been executed."""

    def __init__(self, wanted: dict[str, Callable[[ModuleType], None]]) -> None:
        self.wanted = wanted

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """The spec that the others give, with a loader that calls back."""
        call = self.wanted.pop(fullname, None)
        if call is None:
            return None
        for finder in sys.meta_path:
            found = finder.find_spec(fullname, path, target) if finder is not self else None
            if found is not None:
                if found.loader is not None:
                    _call_after(found.loader, call)
                return found
        return None


def _call_after(loader: Any, call: Callable[[ModuleType], None]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        call(module)

    with contextlib.suppress(AttributeError):  # a loader with slots: then nothing is recorded
        loader.exec_module = exec_module


class Hooks:
    """The hooks of one process around one recorder."""

    def __init__(self, recorder: Any, guarded: Callable[[Any], Any]) -> None:
        self.recorder = self.counting = recorder  # whose steps say that the training moves
        self.faults = 0
        self.leader: int | None = None
        self.backward_seen = self.backward_ever = False
        self.collecting = 0.0
        self.waited: int | None = None
        self.schedstat = -1
        self.snapshots = 0
        self.main = threading.main_thread()
        for name in ("torch", "loader", "stepped", "stepping", "got_batch", "collected", "out_of_memory"):
            setattr(self, name, functools.partial(guarded(getattr(type(self), name)), self))

    @property
    def off(self) -> bool:
        """Never off by itself: snapshots are still wanted when somebody else records the steps."""
        return self.faults >= 5

    def fault(self, where: str, error: BaseException) -> None:
        """Told in the recorder's log."""
        self.faults += 1
        self.recorder.note(f"{where}: {type(error).__name__}: {error}")

    # -- hooking in --

    def torch(self, torch: Any) -> None:
        """After `import torch`."""
        optimizer = sys.modules.get("torch.optim.optimizer")
        if optimizer is None or not hasattr(optimizer, "register_optimizer_step_post_hook"):
            self.recorder.note(f"torch {getattr(torch, '__version__', '?')} has no optimizer hooks: no steps recorded")
        else:
            optimizer.register_optimizer_step_pre_hook(self.stepping)
            optimizer.register_optimizer_step_post_hook(self.stepped)
        torch.autograd.backward = self._timed(torch.autograd.backward, "bwd")
        torch.save = self._saved(torch.save)
        gc.callbacks.append(self.collected)
        self._memory(torch)
        threading.Thread(target=self._watch, name="triage-recorder", daemon=True).start()
        self._on_exception()
        atexit.register(self.recorder.close)

    def loader(self, module: Any) -> None:
        """After `torch.utils.data.dataloader`: every way to iterate goes through this method."""
        kind = module._BaseDataLoaderIter
        take = kind.__next__
        hooks = self

        def timed(self: Any) -> Any:
            start = time.perf_counter()
            batch = take(self)
            hooks.got_batch(time.perf_counter() - start)
            return batch

        kind.__next__ = functools.wraps(take)(timed)

    def _memory(self, torch: Any) -> None:
        """A history of allocations, and a call when memory runs out, as soon as the job initialises CUDA."""
        if os.environ.get("TRIAGE_RECORD_SNAPSHOT", "1") == "0":
            return

        def ready() -> None:
            try:
                with contextlib.suppress(TypeError):  # before 2.1 it took other arguments
                    torch.cuda.memory._record_memory_history("all", context=None, max_entries=HISTORY)
                torch._C._cuda_attach_out_of_memory_observer(self.out_of_memory)
            except Exception as error:  # the recorder's hooks may: private calls differ between releases
                self.fault("memory", error)

        lazy = getattr(torch.cuda, "_lazy_call", None)
        if lazy is not None and torch.version.cuda is not None:
            lazy(ready)

    def _on_exception(self) -> None:
        """An uncaught error ends the rank: keep what its collectives were doing."""
        before = sys.excepthook

        def hook(kind: Any, value: Any, trace: Any) -> None:
            try:
                if os.getpid() == self.recorder.pid:
                    if not os.path.exists(self._path("fr", "pkl")):  # that of the stall shows more
                        self._dump_collectives()
                    self.recorder.close()
            except Exception as error:  # the recorder's hooks may
                self.fault("excepthook", error)
            before(kind, value, trace)

        sys.excepthook = hook

    # -- what the hooks do --

    def stepping(self, optimizer: Any, args: Any = None, kwargs: Any = None) -> None:
        """The optimizer starts."""
        self.recorder.begin("opt")

    def stepped(self, optimizer: Any, args: Any = None, kwargs: Any = None) -> None:
        """An optimizer has stepped. The step ends with the first one's, and only after a backward pass."""
        self.recorder.end("opt")
        self.leader = id(optimizer) if self.leader is None else self.leader
        if self.backward_ever and (not self.backward_seen or id(optimizer) != self.leader):
            return
        self.backward_seen = False
        waited = self._run_queue()
        if waited is not None:
            self.recorder.add("host", waited)
        self.recorder.step()
        self.recorder.begin("fwd")

    def got_batch(self, seconds: float) -> None:
        """A batch came: the forward pass starts here."""
        self.recorder.add("data", seconds)
        self.recorder.begin("fwd")

    def collected(self, stage: str, info: Any = None) -> None:
        """Python's garbage collector starts or stops; in the training thread the training waits for it."""
        if threading.current_thread() is not self.main or self.recorder.since is None:
            return  # not the training's, or not yet: imports collect for a second
        if stage == "start":
            self.collecting = time.perf_counter()
        elif self.collecting:
            self.recorder.add("gc", time.perf_counter() - self.collecting)
            self.collecting = 0.0

    def out_of_memory(self, device: int, wanted: int, total: int, free: int) -> None:
        """The allocator is about to raise: the state that it is in, once."""
        if self.snapshots:
            return
        self.snapshots += 1
        torch: Any = sys.modules["torch"]
        snapshot = torch.cuda.memory._snapshot()
        path = self._path("snapshot", "pickle")
        with open(path, "wb") as file:
            pickle.dump(snapshot, file)
        self.recorder.note(f"out of memory on device {device}: {wanted} bytes wanted, {free} free; wrote {path}")

    def _timed(self, function: Callable[..., Any], phase: str) -> Callable[..., Any]:
        recorder = self.recorder

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self.backward_seen = self.backward_ever = True
            recorder.end("fwd")
            recorder.begin(phase)
            try:
                return function(*args, **kwargs)
            finally:
                recorder.end(phase)
                if "opt" in recorder.open:  # step(closure), as in Lightning: the update begins after the last backward
                    recorder.begin("opt")

        return timed

    def _saved(self, function: Callable[..., Any]) -> Callable[..., Any]:
        recorder = self.recorder

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                recorder.add("ckpt", time.perf_counter() - start)

        return timed

    def _run_queue(self) -> float | None:
        """Seconds since the last call that the main thread could have run and got no CPU (Linux's schedstat)."""
        if self.schedstat == -1:
            try:
                self.schedstat = os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                self.schedstat = -2  # not Linux, or not told in this sandbox
        if self.schedstat < 0:
            return None
        fields = os.pread(self.schedstat, 128, 0).split()
        total = int(fields[1]) if len(fields) > 1 else 0
        before, self.waited = self.waited, total
        return None if before is None or not total else (total - before) / 1e9

    # -- stalls --

    def _watch(self) -> None:
        """A thread: when nothing moves for long, keep dumps and stacks; when it goes on after all, drop them.

        Each stall that was none doubles the patience.
        """
        limit, stalled, moves = float(os.environ.get("TRIAGE_STALL_S") or STALL_S), False, 0
        last, since = self._progress(), time.monotonic()
        while True:
            time.sleep(min(limit / 4, 5.0))
            try:
                now = self._progress()
                if now != last:
                    last, since, moves = now, time.monotonic(), moves + 1
                    if stalled and moves >= GOES_ON:
                        self._drop()
                        stalled, limit = False, 2 * limit
                if not stalled and _grouped() and time.monotonic() - since > self._patience(limit):
                    stalled, moves = True, 0
                    self._keep(time.monotonic() - since)
            except Exception as error:  # the recorder's hooks may
                self.fault("watch", error)
                return

    def _progress(self) -> tuple[int, bytes]:
        """Changes while training goes on: steps, and what the collectives count."""
        return self.counting.count, self._trace(False) if _grouped() else b""

    def _patience(self, limit: float) -> float:
        return max(limit, STALL_STEPS * self.counting.pace) if self.counting.count else limit

    def _keep(self, seconds: float) -> None:
        self.recorder.note(f"nothing has moved for {seconds:.0f} s: dumping collectives and stacks")
        self._dump_collectives()
        with open(self._path("stacks", "txt"), "w", encoding="utf-8") as file:
            faulthandler.dump_traceback(file, all_threads=True)

    def _drop(self) -> None:
        self.recorder.note("steps go on: the dumps are removed")
        for stem, suffix in (("fr", "pkl"), ("stacks", "txt")):
            with contextlib.suppress(OSError):
                os.unlink(self._path(stem, suffix))

    def _dump_collectives(self) -> None:
        data = self._trace(True) if _grouped() else b""
        if data:
            with open(self._path("fr", "pkl"), "wb") as file:
                file.write(data)

    def _trace(self, whole: bool) -> bytes:
        """The flight recorder of this rank, or its counters alone, by whichever call this torch has."""
        inner = getattr(getattr(sys.modules.get("torch"), "_C", None), "_distributed_c10d", None)
        dump = getattr(inner, "_dump_fr_trace", None) if _backend() != "nccl" else None
        dump = dump or getattr(inner, "_dump_nccl_trace", None)
        if dump is None:
            return b""
        try:
            return bytes(dump(includeCollectives=whole))
        except TypeError:  # before 2.4 it took no arguments
            return bytes(dump())

    def _path(self, stem: str, suffix: str) -> str:
        os.makedirs(self.recorder.folder, exist_ok=True)
        return os.path.join(self.recorder.folder, f"{stem}.rank{self.recorder.rank}.{suffix}")


def _grouped() -> bool:
    distributed = sys.modules.get("torch.distributed")
    return bool(distributed is not None and distributed.is_available() and distributed.is_initialized())


def _backend() -> str:
    distributed: Any = sys.modules["torch.distributed"]
    return str(distributed.get_backend())
