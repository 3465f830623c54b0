"""From what the user names to the files below it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from triage.bundle.blobs import Disk
from triage.bundle.limits import Gaps
from triage.bundle.naming import safe
from triage.errors import BundleError

_NEAR = 3  # parts of a path below the folder that several paths share: beyond, the shared folder says nothing


def named(paths: Sequence[str]) -> list[tuple[str, Path]]:
    """A prefix for the files of each path, and the path resolved. One path has no prefix of its own.

    Several keep the shortest names under which they are unique. Raises BundleError for a path that is not there.
    """
    if not paths:
        raise BundleError("nothing to open: name a folder, a file, an archive, or - for standard input")
    found = sorted({_resolved(path): None for path in paths})
    found = [path for path in found if not any(other != path and other in path.parents for other in found)]
    if len(found) == 1:
        return [("", found[0])]
    return list(zip(_labels(found), found, strict=True))


def _resolved(path: str) -> Path:
    if path == "-":
        return Path("-")
    if not path:
        raise BundleError("an empty name: is a variable of the shell unset?")
    try:
        if stat.S_ISFIFO(Path(path).stat().st_mode):
            return Path(path).absolute()  # a shell's <(command) leads to a name that is no file
        return Path(path).resolve(strict=True)
    except FileNotFoundError:
        raise BundleError(f"{safe(path)}: no such file or folder") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise BundleError(f"{safe(path)}: {_reason(error)}") from None


def _labels(paths: list[Path]) -> list[str]:
    """The part below the shared folder when that is short, else as many last parts as make them unique."""
    real = [path for path in paths if path != Path("-")]
    shared = Path(os.path.commonpath([path.parent for path in real])) if _one_drive(real) else None
    below = [path.relative_to(shared).parts if shared and path in real else path.parts[-1:] for path in paths]
    if shared != shared_root(shared) and all(len(parts) <= _NEAR for parts in below):
        return ["/".join(parts) for parts in below]
    for length in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-length:]).lstrip("/") for path in paths]
        if len(set(names)) == len(names):
            break
    return names


def shared_root(path: Path | None) -> Path | None:
    """The root of the file system that the path is on."""
    return Path(path.anchor) if path else None


def _one_drive(paths: list[Path]) -> bool:
    return bool(paths) and len({path.anchor for path in paths}) == 1


def walk(root: Path, gaps: Gaps, prefix: str = "") -> Iterator[tuple[str, Disk]]:
    """Regular files below a folder with their relative names, sorted; what is no regular file becomes a gap.

    Links are not followed: one to a file below the root would show it twice, one out of it is noted.
    """
    pending = [(prefix, root)]
    while pending:
        name, folder = pending.pop()
        folders = []
        for entry in _entries(folder, name, gaps):
            label = f"{name}/{entry.name}" if name else entry.name
            if entry.is_dir(follow_symlinks=False):
                folders.append((label, Path(entry.path)))
            elif (disk := _file(entry, label, root, gaps)) is not None:
                yield label, disk
        pending += reversed(folders)


def _entries(folder: Path, name: str, gaps: Gaps) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        note_unreadable(error, name or ".", gaps, "folder")
        return []


def _file(entry: os.DirEntry[str], label: str, root: Path, gaps: Gaps) -> Disk | None:
    if entry.is_symlink():
        target = Path(os.path.realpath(entry.path))
        if root not in target.parents and target != root:
            kind = "links that lead out of the folder are not followed"
            gaps.add(kind, "denied", safe(label), "name the target as well")
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        note_unreadable(error, label, gaps, "file")
        return None
    if not stat.S_ISREG(status.st_mode):
        gaps.add("pipes, sockets and devices are not read", "denied", safe(label))
        return None
    return Disk(entry.path, status.st_size)


def note_unreadable(error: OSError, label: str, gaps: Gaps, what: str) -> None:
    """Note a file or folder that the system does not let us read."""
    if isinstance(error, PermissionError):
        gaps.add(f"a {what} that may not be read", "denied", safe(label), "run triage as a user who may read it")
    elif isinstance(error, FileNotFoundError):
        gaps.add(f"a {what} that went away while it was read", "absent", safe(label))
    else:
        gaps.add(f"a {what} that cannot be read: {_reason(error)}", "not collected", safe(label))


def _reason(error: Exception) -> str:
    code = getattr(error, "errno", None)
    if code in (errno.EACCES, errno.EPERM):
        return "permission denied; run as a user who may read it, or copy it first"
    return os.strerror(code) if code else str(error) or type(error).__name__
