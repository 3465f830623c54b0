"""Processes that die at the n-th step that changes the disk, for every n: what may stand there afterwards?

Run as a script, which imports once and forks for each death: `python dying.py WHAT FOLDER` prints how many deaths there
were. A profile hook sees each call of a C function just before it is made, and ends the process there as SIGKILL would:
nothing is flushed, nothing is cleaned up.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = {
    "open", "write", "writelines", "flush", "close", "fsync", "replace", "rename", "mkdir", "unlink", "remove", "rmdir",
    "truncate", "link", "mkstemp", "execute", "executemany", "executescript", "commit", "__exit__", "fdopen", "fchmod",
}  # fmt: skip
KILLED, MOST = 137, 400


def report(folder: Path) -> None:
    """A new report, and one over an old one."""
    from triage.cli._output import deliver

    deliver("new " * 50_000, str(folder / "fresh.html"))
    deliver("new " * 50_000, str(folder / "old.html"))


def bundle(folder: Path) -> None:
    """Three members, a node, the archive."""
    from triage.bundle.writing import Writer

    writer = Writer(folder / "b.tar.gz", {"tool": "test"})
    for name in ("a", "b", "c"):
        kept = writer.add_bytes(f"nodes/n1/{name}.log", b"a line of a log\n" * 2_000)
        writer.describe(kept, "logs", "n1")
    writer.node({"node": "n1"})
    writer.note([{"node": "n1", "collector": "logs", "ran": True}])
    writer.renew()
    writer.finish(True)


def cache(folder: Path) -> None:
    """An entry over an old one, and a new one."""
    from triage.matching import cache as stored

    stored.write("old", b"new" * 50_000)
    stored.write("fresh", b"new" * 50_000)


WORK: dict[str, Callable[[Path], None]] = {"report": report, "bundle": bundle, "cache": cache}


def before(what: str, folder: Path) -> None:
    """What stood there before."""
    os.environ["XDG_CACHE_HOME"] = str(folder)
    if what == "report":
        (folder / "old.html").write_text("old")
    if what == "cache":
        from triage.matching import cache as stored

        stored.write("old", b"old" * 50_000)


def deaths(what: str, root: Path) -> int:
    """One folder for each death, by number; the last work was not disturbed. Returns how many died."""
    for number in range(1, MOST):
        folder = root / f"{number:03d}"
        folder.mkdir()
        before(what, folder)
        child = os.fork()
        if child == 0:
            _die(what, folder, number)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            return number - 1
    raise AssertionError(f"still dying after {MOST} steps")


def _die(what: str, folder: Path, number: int) -> None:
    left = number

    def hook(_frame: Any, event: str, argument: Any) -> None:
        nonlocal left
        if (
            event == "c_call"
            and getattr(argument, "__name__", "") in STEPS
            and not isinstance(getattr(argument, "__self__", None), io.BytesIO)
        ):
            left -= 1
            if left == 0:
                os._exit(KILLED)

    sys.setprofile(hook)
    try:
        WORK[what](folder)
        sys.setprofile(None)
        os._exit(0)
    finally:
        os._exit(1)


if __name__ == "__main__":
    for each in WORK.values():
        scratch = Path(sys.argv[2]) / f"warm-{each.__name__}"
        scratch.mkdir()
        os.environ["XDG_CACHE_HOME"] = str(scratch)
        each(scratch)  # imports and caches, so that deaths fall on the work alone
    sys.stdout.write(str(deaths(sys.argv[1], Path(sys.argv[2]))))
