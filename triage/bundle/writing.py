"""A bundle being made: OUTPUT.partial/ grows, and at the end becomes one archive whose first member is the manifest.

Whatever ends the work early, the folder is readable as it stands: its manifest is renewed as nodes come in. The archive
appears under its own name complete or not at all.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol, cast

from triage.bundle.naming import refusal, tidy
from triage.errors import BundleError, TriageError
from triage.model.base import Record

SCHEMA = "triage.bundle/1"
SUFFIXES = (".tar.zst", ".tar.gz", ".tgz")
BLOCK = 1 << 20
RENEW = 2.0  # seconds at least between two writings of the manifest while nodes come in
SHARE = 20  # and so many times what the last writing took: with ten thousand nodes that is seconds
HEAD = 1 << 20  # bytes kept of the beginning of a file that is longer than its cap
SPARE = 1 << 20  # bytes held back on the disk, so that on a full one the manifest can still say what is there
SPARE_NODE = 64 << 10  # further bytes of it for each node: twice what its ledger and its files table take
_NAMES = "._@%+=,~-"


class DiskFullError(TriageError):
    """No room for the bundle. What was written stays in a folder, and the message names it."""


class Redacts(Protocol):
    """Something that redacts a stream into another."""

    def copy(self, source: IO[bytes], sink: IO[bytes]) -> None:
        """Redact a whole file."""


class Kept(Record, frozen=True, kw_only=True):
    """A member that was written: bytes and SHA-256 as written, and whether it is all that there was."""

    path: str
    size: int
    sha256: str
    truncated: bool = False


class Writer:
    """One bundle in the making. Its methods may be called by several threads at once.

    output: the archive's path, `.tar.zst` or `.tar.gz`. nodes: how many will send something. Raises BundleError when
    its folder cannot be made, DiskFullError when nothing would fit; nothing is left then.
    """

    def __init__(self, output: Path, facts: Mapping[str, Any], force: bool = False, nodes: int = 0) -> None:
        self.output, self.folder = output, output.with_name(output.name + ".partial")
        self.rows: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.files: list[dict[str, Any]] = []
        self._facts, self._lock, self._renewed = dict(facts), threading.RLock(), time.monotonic()
        self._pause = RENEW
        self.full = self._complete = False
        if force:
            shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.folder.mkdir(mode=0o700, parents=False)
        except FileExistsError:
            raise BundleError(f"{self.folder} exists: explain it, remove it, or name another output") from None
        except OSError as error:
            raise BundleError(f"{self.folder}: {error.strerror or error}") from None
        try:
            self._spare = weakref.finalize(self, os.close, _held(self.folder, SPARE + SPARE_NODE * nodes))
            self.renew()
        except (OSError, DiskFullError) as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            said = error.strerror if isinstance(error, OSError) else "No space left on device"
            raise DiskFullError(f"{output.parent}: {said}: name another place with -o") from None

    # ---- what comes in ----

    def add(self, path: str, source: IO[bytes], redactor: Redacts | None = None, limit: int | None = None) -> Kept:
        """Write a member, redacted when a redactor is given, at most `limit` bytes of it. Raises DiskFullError."""
        if refusal(path):
            raise ValueError(f"{path}: {refusal(path)}")
        target = self.folder / tidy(path)
        with self._room(tidy(path)):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb", buffering=0) as file:
                sink = _Hashing(file, lambda: self.full)
                bounded = _Bounded(source, limit) if limit is not None else source
                if redactor is not None:
                    redactor.copy(cast("IO[bytes]", bounded), cast("IO[bytes]", sink))
                else:
                    shutil.copyfileobj(cast("IO[bytes]", bounded), sink, BLOCK)
            cut = isinstance(bounded, _Bounded) and bounded.cut
            return Kept(path=tidy(path), size=sink.size, sha256=sink.digest.hexdigest(), truncated=cut)
        raise AssertionError("unreachable")

    def add_bytes(self, path: str, data: bytes, redactor: Redacts | None = None) -> Kept:
        """Write a member that is in memory."""
        return self.add(path, io.BytesIO(data), redactor)

    def describe(self, kept: Kept, collector: str, node: str | None = None, **more: Any) -> None:
        """A row of the files table."""
        known = {"path": kept.path, "collector": collector, "node": node, "bytes": kept.size, "sha256": kept.sha256}
        known |= {"truncated": kept.truncated or more.pop("truncated", False)}
        with self._lock:
            self.files.append(known | {key: value for key, value in more.items() if value is not None})

    def note(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Rows of the ledger."""
        with self._lock:
            self.rows += [dict(row) for row in rows]

    def node(self, about: Mapping[str, Any]) -> None:
        """What is known of a node; the manifest on disk is renewed, not more often than every few seconds."""
        with self._lock:
            self.nodes.append(dict(about))
            if time.monotonic() - self._renewed > self._pause:
                self.renew()

    # ---- the manifest ----

    def manifest(self, complete: bool) -> dict[str, Any]:
        """Everything known of the bundle so far, in an order that does not depend on who answered first."""
        with self._lock:
            return {
                "schema": SCHEMA,
                **self._facts,
                "complete": complete,
                "nodes": sorted(self.nodes, key=lambda one: str(one.get("node"))),
                "ledger": sorted(self.rows, key=lambda row: (str(row.get("node")), str(row.get("collector")))),
                "files": sorted(self.files, key=lambda row: str(row["path"])),
            }

    def renew(self, complete: bool = False) -> None:
        """Write the manifest into the folder, whole or not at all."""
        with self._lock, self._room():
            self._complete = complete
            self._write_manifest(complete)

    def _write_manifest(self, complete: bool) -> None:
        part, started = self.folder / ".manifest.json", time.monotonic()
        try:
            text = json.dumps(self.manifest(complete), indent=1, sort_keys=True) + "\n"
            part.write_text(text, encoding="utf-8")
            part.replace(self.folder / "manifest.json")
        finally:
            part.unlink(missing_ok=True)
        self._renewed = time.monotonic()
        self._pause = max(RENEW, SHARE * (self._renewed - started))

    # ---- the end ----

    def finish(self, complete: bool) -> Path:
        """Pack, flush to disk, rename, remove the folder. Raises DiskFullError; the folder then stays."""
        self.renew(complete)
        part = self.output.with_name(f".{self.output.name}.writing")
        try:
            with self._room(), part.open("wb") as file:
                _pack(self.folder, file, self.output.name)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.output)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        _flush_folder(self.output.parent)
        self.discard()
        return self.output

    def discard(self) -> None:
        """Remove the folder."""
        self._spare()
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def _room(self, path: str | None = None) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                self._stop(path)
                raise DiskFullError(
                    f"no space left; what was collected is in {self.folder}: triage explain reads it"
                ) from None
            raise BundleError(f"{self.folder}: {error.strerror or error}") from None

    def _stop(self, path: str | None) -> None:
        """The disk is full: nothing more is written but the manifest, into the space that was held back for it."""
        self.full = True
        with self._lock:
            if path is not None:
                self._unfinished(path)
            self._spare()
        self.settle()

    def settle(self) -> None:
        """The manifest once more, after the disk was found full. One that does not fit leaves that of before."""
        with self._lock, suppress(OSError):
            self._write_manifest(self._complete)

    def _unfinished(self, path: str) -> None:
        """A row for the member that was being written: its beginning is there."""
        target, parts, digest = self.folder / path, path.split("/"), hashlib.sha256()
        if not target.is_file():
            return
        with target.open("rb") as file:
            while data := file.read(BLOCK):
                digest.update(data)
        kept = Kept(path=path, size=target.stat().st_size, sha256=digest.hexdigest(), truncated=True)
        on_node = parts[0] == "nodes" and len(parts) > 2
        self.describe(kept, parts[2] if on_node else parts[min(1, len(parts) - 1)], parts[1] if on_node else None)


def _held(folder: Path, size: int) -> int:
    """A file without a name that takes up so many bytes until it is closed: its number. Raises OSError."""
    with tempfile.TemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, size)
        return os.dup(file.fileno())


def suffix_of(name: str) -> str | None:
    """The suffix that says how to pack, or None."""
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


def member(name: str) -> str:
    """A host's or a file's name as one part of a member's path: no colon, no slash."""
    kept = "".join(letter if letter.isalnum() or letter in _NAMES else "-" for letter in name)
    return kept.strip(".")[:150] or "unnamed"


def _pack(folder: Path, file: IO[bytes], name: str) -> None:
    with _compressor(file, name) as sink, tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path in [folder / "manifest.json", *_members(folder)]:
            info = archive.gettarinfo(path, path.relative_to(folder).as_posix())
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mode = 0o600
            with path.open("rb") as source:
                archive.addfile(info, source)


def _members(folder: Path) -> list[Path]:
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return sorted(path for path in found if path.parent != folder or not path.name.endswith("manifest.json"))


@contextmanager
def _compressor(file: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    if name.endswith(".tar.zst"):
        import zstandard

        with zstandard.ZstdCompressor(level=3).stream_writer(file, closefd=False) as packed:
            yield cast("IO[bytes]", packed)
        return
    with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as zipped:
        yield cast("IO[bytes]", zipped)


def _flush_folder(folder: Path) -> None:
    """The rename itself reaches the disk, where the file system can do that."""
    try:
        number = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(number)
    except OSError:
        pass
    finally:
        os.close(number)


class _Hashing:
    """A sink that counts and digests what goes through it, until another thread has found the disk full."""

    def __init__(self, file: io.RawIOBase, stopped: Callable[[], bool]) -> None:
        self._file, self._stopped, self.size, self.digest = file, stopped, 0, hashlib.sha256()

    def write(self, data: bytes) -> int:
        if self._stopped():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.digest.update(data)
        rest = memoryview(data)
        while rest:
            written = self._file.write(rest) or 0
            self.size, rest = self.size + written, rest[written:]
        return len(data)


class _Bounded:
    """Reads at most so many bytes and remembers whether there were more."""

    def __init__(self, source: IO[bytes], limit: int) -> None:
        self._source, self._left, self.cut = source, limit, False

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        if not self._left and not self.cut:
            self.cut = bool(self._source.read(1))
        return data

    def readline(self, size: int = -1) -> bytes:
        data = self._source.readline(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


class Tail(io.RawIOBase):
    """The beginning and the end of a file that is longer than a cap, whole lines, as one stream.

    truncated: whether anything was left out.
    """

    def __init__(self, path: Path, cap: int, head: int = HEAD) -> None:
        self._file = path.open("rb")
        size = os.fstat(self._file.fileno()).st_size
        self.truncated = size > cap
        self._head = min(head, cap // 2) if self.truncated else size
        self._jump = size - (cap - self._head)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; after the head comes the tail, from the start of a line."""
        view = memoryview(buffer)
        if self._head > 0:
            data = self._file.read(min(len(view), self._head))
            self._head -= len(data)
            if self.truncated and self._head <= 0:
                data = data[: data.rfind(b"\n") + 1] or data
                self._file.seek(self._jump)
                self._file.readline(1 << 16)
        else:
            data = self._file.read(len(view)) if self.truncated else b""
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
