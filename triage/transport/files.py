"""Files that this machine can read for all nodes: outputs of the job, and what --include names on shared storage."""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from triage.bundle.writing import Redacts, Tail, Writer, member
from triage.transport.reducing import Reducing

CAP = 64 << 20  # bytes kept of one file: its first mebibyte and its end
MOST = 2000  # files of one pattern
PLACE = "{node}"  # in a pattern: the node's name

_SHARED = frozenset({
    "nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "9p", "virtiofs", "wekafs", "glusterfs", "pvfs2",
    "orangefs", "panfs", "afs", "fuse.juicefs", "fuse.s3fs", "fuse.gcsfuse", "fuse.ceph-fuse", "fuse.glusterfs",
    "fuse.sshfs", "fuse.goofys", "fuse.mount-s3", "fuse.weka", "fuse.quobyte", "quobyte",
})  # fmt: skip


def split(patterns: Iterable[str], alone: bool) -> tuple[list[str], list[str]]:
    """Patterns to read here, and those for the nodes: with a place for the node's name, or on local disks.

    alone: this machine is the only node, so that it reads nothing for others.
    """
    here: list[str] = []
    there: list[str] = []
    shared = () if alone else _mounts()
    for pattern in patterns:
        path = str(Path.cwd() / Path(pattern).expanduser())
        on_shared = any(path.startswith(mount.rstrip("/") + "/") for mount in shared)
        (here if on_shared and PLACE not in pattern else there).append(path)
    return here, there


def _mounts() -> tuple[str, ...]:
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    fields = [line.split(" ") for line in lines]
    return tuple(field[1].replace("\\040", " ") for field in fields if len(field) > 2 and field[2] in _SHARED)


def outputs(patterns: Iterable[str]) -> tuple[list[Path], list[str]]:
    """Files that are readable here, and patterns that name nothing here, for the nodes to look."""
    found: dict[Path, None] = {}
    missing = []
    for pattern in patterns:
        paths = [path for path in _named(pattern) if os.access(path, os.R_OK)]
        if not paths:
            missing.append(pattern)
        found |= dict.fromkeys(paths[:MOST])
    return list(found), missing


def _named(pattern: str) -> list[Path]:
    if Path(pattern).is_file():
        return [Path(pattern)]
    return [Path(name) for name in sorted(glob.glob(pattern, recursive=True)) if Path(name).is_file()]  # noqa: PTH207


def below(pattern: str) -> Iterator[tuple[Path, str]]:
    """Files that a pattern, a folder or a path names, each with its name below what is fixed of the pattern."""
    pattern = f"{pattern}/**" if Path(pattern).is_dir() else pattern
    marks = [at for mark in "*?[" if (at := pattern.find(mark)) >= 0]
    base = Path(pattern[: min(marks)]).parent if marks else Path(pattern).parent
    base = Path(pattern[: min(marks)]) if marks and pattern[: min(marks)].endswith("/") else base
    for path in _named(pattern)[:MOST]:
        yield path, path.relative_to(base).as_posix()


def add(
    writer: Writer, redactor: Redacts, path: Path, name: str, collector: str, reducing: Reducing | None = None
) -> dict[str, object]:
    """Copy a file's beginning and end below job/<collector>/, redacted. A ledger row's keys for what went wrong.

    reducing: of logs only the lines that matter.
    """
    target = "/".join(["job", collector, *map(member, name.split("/"))])
    if reducing is not None and (found := reducing.lines(path)):
        kept = writer.add_bytes(target, found[0])
        writer.describe(kept, collector, **found[1])
        return {"bytes": kept.size, "truncated": [name]} if found[1]["truncated"] else {"bytes": kept.size}
    try:
        with Tail(path, CAP) as tail, io.BufferedReader(tail, 1 << 20) as source:
            kept = writer.add(target, cast("IO[bytes]", source), redactor)
            writer.describe(kept, collector, truncated=tail.truncated)
            return {"bytes": kept.size, "truncated": [name]} if tail.truncated else {"bytes": kept.size}
    except PermissionError:
        return {"denied": [name]}
    except OSError as error:
        return {"failed": [f"{name}: {error.strerror or error}"]}
