"""Bytes at rest that can be opened many times and by several threads: a file, a part of one, unpacked bytes."""

from __future__ import annotations

import io
import mmap
import os
import stat
import tempfile
from typing import IO, Protocol, cast

BUFFER = 1 << 20  # bytes asked of the system at once

# O_NONBLOCK: a FIFO that took the place of a file must not hang us. Absent on Windows, where O_BINARY is needed.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class Blob(Protocol):
    """Bytes of known size."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    def open(self) -> io.BufferedReader:
        """A reader of its own, seekable, from the first byte. Raises OSError."""

    def part(self, start: int, size: int) -> Blob:
        """A piece of it."""


class Disk:
    """A file, or a part of it. Read, not mapped: a log that is cut meanwhile would kill a process that maps it."""

    def __init__(self, path: str, size: int, start: int = 0) -> None:
        self.path, self.size, self.start = path, size, start

    def open(self) -> io.BufferedReader:
        """A reader over this part as large as it was when it was found."""
        return io.BufferedReader(_DiskReader(self), min(BUFFER, max(self.size, 1)))

    def part(self, start: int, size: int) -> Disk:
        """A piece of it."""
        return Disk(self.path, max(0, min(size, self.size - start)), self.start + start)


class Held:
    """Bytes in memory or in a sealed spool."""

    def __init__(self, data: bytes | mmap.mmap, start: int = 0, size: int | None = None) -> None:
        self.data, self.start, self.size = data, start, len(data) - start if size is None else size

    def open(self) -> io.BufferedReader:
        """A reader over the bytes."""
        return io.BufferedReader(_HeldReader(self), BUFFER)

    def part(self, start: int, size: int) -> Held:
        """A piece of it."""
        return Held(self.data, self.start + start, max(0, min(size, self.size - start)))


class _Reader(io.RawIOBase):
    """A seekable window of `size` bytes."""

    size: int

    def __init__(self) -> None:
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: object) -> int:
        view = cast(memoryview, buffer)
        wanted = min(len(view), max(0, self.size - self._at))
        got = self._fill(memoryview(view)[:wanted]) if wanted else 0
        self._at += got
        return got

    def _fill(self, view: memoryview) -> int:
        raise NotImplementedError


class _DiskReader(_Reader):
    def __init__(self, blob: Disk) -> None:
        super().__init__()
        self.size, self._start = blob.size, blob.start
        self._file = io.FileIO(regular(blob.path), "rb")

    def _fill(self, view: memoryview) -> int:
        self._file.seek(self._start + self._at)
        return self._file.readinto(view) or 0

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _HeldReader(_Reader):
    def __init__(self, blob: Held) -> None:
        super().__init__()
        self.size, self._start, self._data = blob.size, blob.start, blob.data

    def _fill(self, view: memoryview) -> int:
        begin = self._start + self._at
        with memoryview(self._data) as data:
            view[:] = data[begin : begin + len(view)]
        return len(view)


class Rest(io.RawIOBase):
    """The next `size` bytes of a stream; closing it leaves the stream open."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill the buffer; 0 at the end of either."""
        data = self._stream.read(min(len(buffer), self._left))
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)


def regular(path: str) -> int:
    """Open a regular file for reading. Raises OSError, also when something else stands there."""
    handle = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"not a regular file: {path}")
    return handle


class Spool:
    """Where unpacked bytes are kept: in memory, then in a temporary file without a name, so that nothing stays."""

    def __init__(self, memory: int) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=max(1, memory), prefix="triage-")  # noqa: SIM115 (close())
        self._memory = memory
        self._end = 0
        self._data: bytes | mmap.mmap = b""

    def add(self, stream: IO[bytes], limit: int) -> tuple[int, int, bool]:
        """Copy a stream, at most `limit` bytes of it: (start, size, whether it was cut by the limit or a full disk)."""
        start, self._end = self._end, self._end
        self._file.seek(start)
        while block := stream.read(min(BUFFER, limit + 1 - (self._end - start))):
            keep = block[: limit - (self._end - start)]
            if not self._write(keep) or len(keep) < len(block):
                return start, self._end - start, True
        return start, self._end - start, False

    def _write(self, data: bytes) -> bool:
        try:
            self._file.write(data)
        except OSError:  # the disk is full: what is already there stays readable
            return False
        self._end += len(data)
        return True

    @property
    def held(self) -> int:
        """Bytes that a sealed spool has in memory."""
        return len(self._data) if isinstance(self._data, bytes) else 0

    def seal(self) -> None:
        """Make what was added readable."""
        self._file.seek(0)
        if self._end > self._memory:
            try:
                self._file.flush()
                self._data = mmap.mmap(self._file.fileno(), self._end, access=mmap.ACCESS_READ)
            except (OSError, ValueError):
                self._end = 0
            return
        self._data = self._file.read()
        self._file.close()

    def part(self, start: int, size: int) -> Held:
        """A piece of a sealed spool."""
        return Held(self._data, start, min(size, max(0, len(self._data) - start)))

    def close(self) -> None:
        """Give memory and disk back; blobs of it are dead."""
        if isinstance(self._data, mmap.mmap):
            self._data.close()
        self._file.close()
