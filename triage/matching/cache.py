"""Compiled scanner databases on disk. Never needed: whatever goes wrong here, the database is compiled again.

Files lie in $XDG_CACHE_HOME/triage (else ~/.cache/triage). TRIAGE_CACHE=off turns it off.
A file is a digest followed by the payload, so a torn or altered one is told apart and ignored. So is one that another
user wrote or may write: a digest is quickly made, and what the scanner loads must be what this user compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

_DIGEST = 32  # bytes of SHA-256
_KEPT = 16  # files; older ones go when a new one is written


def read(key: str) -> bytes | None:
    """The payload stored under a key, or None when there is none or it is damaged."""
    path = _path(key)
    if path is None:
        return None
    try:
        blob = _own(path)
    except OSError:
        return None
    digest, payload = blob[:_DIGEST], blob[_DIGEST:]
    return payload if payload and hashlib.sha256(payload).digest() == digest else None


def _own(path: Path) -> bytes:
    """The bytes of a regular file that nobody but this user (or root) can have written. Raises OSError for others."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        foreign = hasattr(os, "geteuid") and (status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o022)
        if foreign or not stat.S_ISREG(status.st_mode):
            raise PermissionError(f"{path} is not this user's alone")
        return file.read()


def write(key: str, payload: bytes) -> None:
    """Store a payload; readers and other writers see the whole of it or nothing."""
    path = _path(key)
    if path is None:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(path, hashlib.sha256(payload).digest() + payload)
        _prune(path.parent)


def _replace(path: Path, blob: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(blob)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def _prune(folder: Path) -> None:
    stored = sorted(folder.glob("*.hsdb"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in stored[_KEPT:]:
        path.unlink(missing_ok=True)


def _path(key: str) -> Path | None:
    if os.environ.get("TRIAGE_CACHE", "").lower() in {"off", "0", "no"}:
        return None
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # no home folder is known
        return None
    return root / "triage" / f"{key}.hsdb"


def source(name: str) -> bytes:
    """The text of a module that what is stored depends on, too; nothing when it has none."""
    loader: Any = getattr(sys.modules[name].__spec__, "loader", None)
    path = sys.modules[name].__file__
    return bytes(loader.get_data(path)) if path and hasattr(loader, "get_data") else b""


@cache
def machine() -> bytes:
    """What a compiled database depends on besides its expressions: the processor and its features."""
    parts = [platform.system(), platform.machine(), platform.processor()]
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("flags", "Features", "model name")):
                parts.append(line)
            if not line.strip():
                break
    return "\n".join(parts).encode()
