"""Compressed streams: known by their first bytes, read with bounds, and readable up to where they are damaged."""

from __future__ import annotations

import bz2
import importlib
import io
import lzma
import struct
import zlib
from collections.abc import Callable
from typing import IO, Any, Protocol, cast

from triage.bundle.blobs import BUFFER, Blob
from triage.bundle.limits import Limits
from triage.bundle.reduced import Restored, title

REDUCED = "reduced"
WINDOW = 1 << 27  # bytes of history that a zstd or xz stream may ask for: `zstd --long=27`, and xz -9 needs 64 MiB

_INPUT = 1 << 16  # compressed bytes taken at once
_CUT = "the compressed stream ends early"


def codec(head: bytes) -> str | None:
    """Name of the compression whose magic number stands at the head; a reduced log is read like one."""
    if head[:3] == b"\x1f\x8b\x08":
        return "gzip"
    if head[:4] == b"\x28\xb5\x2f\xfd" or (head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F):
        return "zstd"
    if head[:6] == b"\xfd7zXZ\0":
        return "xz"
    if title(head) is not None:
        return REDUCED
    return "bzip2" if head[:3] == b"BZh" and head[4:10] == b"1AY&SY" else None


class Inflated(io.RawIOBase):
    """A decompressed stream that ends, without an exception, at a damage or a limit.

    fault: what ended it early, or None. over: whether a limit did. produced: bytes given out.
    """

    def __init__(self, source: IO[bytes], name: str, packed: int, limits: Limits) -> None:
        self._source, self._packed, self._limits = source, packed, limits
        self._inner = _opener(name)(source)
        self._faults = _faults()
        self.produced, self.fault, self.over = 0, cast("str | None", None), False

    def readable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Bytes given out: a buffered reader on top can then tell where it is, though it cannot seek."""
        return self.produced

    def readinto(self, buffer: object) -> int:
        """Fill the buffer; 0 at the end, at a damage and at a limit."""
        view = memoryview(cast(memoryview, buffer))[:BUFFER]
        if self.fault or self.over:
            return 0
        try:
            data = self._inner.read(len(view))
        except self._faults as error:
            self.fault = str(error) or type(error).__name__
            return 0
        return self._give(view, data)

    def _give(self, view: memoryview, data: bytes) -> int:
        limits = self._limits
        allowed = min(limits.member, max(limits.ratio_from, limits.ratio * self._packed)) - self.produced
        self.over = len(data) > allowed
        data = data[:allowed]
        view[: len(data)] = data
        self.produced += len(data)
        return len(data)

    def close(self) -> None:
        """Close the source, too."""
        if not self.closed:
            self._source.close()
        super().close()


class Inflation:
    """A blob with its layers of compression opened: read `stream`, then ask `fault` and `over`."""

    def __init__(self, blob: Blob, codecs: tuple[str, ...], limits: Limits) -> None:
        self._blob, self._codecs = blob, codecs
        self.stream = blob.open()
        self._layers: list[Inflated] = []
        for name in codecs:
            self._layers.append(Inflated(self.stream, name, blob.size, limits))
            self.stream = io.BufferedReader(self._layers[-1], BUFFER)

    @property
    def over(self) -> bool:
        """Whether a limit ended the stream."""
        return any(layer.over for layer in self._layers)

    @property
    def fault(self) -> str | None:
        """What damage ended the stream."""
        named = next((layer.fault for layer in self._layers if layer.fault), None)
        if named or not self._codecs or self._codecs[0] != "zstd" or self.over:
            return named
        return None if zstd_complete(self._blob) else _CUT

    def __enter__(self) -> Inflation:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()


class Source(Protocol):
    """Where decompressed bytes come from."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, as many as there are before a damage raises; nothing at the end."""


def _opener(name: str) -> Callable[[IO[bytes]], Source]:
    return {"gzip": _Gzip, "zstd": _zstd, "xz": _xz, "bzip2": _bzip2, REDUCED: Restored}[name]


def _zstd(source: IO[bytes]) -> Source:
    import zstandard

    engine = zstandard.ZstdDecompressor(max_window_size=WINDOW)
    return cast("Source", _ReadOnce(engine.stream_reader(source, read_across_frames=True)))


def _bzip2(source: IO[bytes]) -> Source:
    return _Streams(source, bz2.BZ2Decompressor)


def _xz(source: IO[bytes]) -> Source:
    return _Streams(source, lambda: lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=2 * WINDOW))


def _faults() -> tuple[type[Exception], ...]:
    import zstandard

    found: list[type[Exception]] = [OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, zstandard.ZstdError]
    try:
        from isal import isal_zlib
    except ImportError:
        return tuple(found)
    return (*found, cast("type[Exception]", isal_zlib.error))


class _ReadOnce:
    """A zstd reader: its read1 gives what it has before a damage raises, its read would lose it."""

    def __init__(self, reader: Any) -> None:
        self.read = reader.read1


class _Streams:
    """xz and bzip2: streams one after the other, perhaps with zeros between, with a bound on memory."""

    def __init__(self, source: IO[bytes], engine: Callable[[], Any]) -> None:
        self._source, self._rest, self._fresh, self._engine = source, b"", engine, engine()

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; nothing at the end. Raises EOFError when the stream is cut."""
        while True:
            if self._engine.eof and not self._next_stream():
                return b""
            if self._engine.needs_input and not self._rest:
                self._rest = _some(self._source)
            data, self._rest = cast(bytes, self._engine.decompress(self._rest, size)), b""
            if data:
                return data

    def _next_stream(self) -> bool:
        rest = self._engine.unused_data.lstrip(b"\0") or self._source.read(_INPUT).lstrip(b"\0")
        if rest:
            self._rest, self._engine = rest, self._fresh()
        return bool(rest)


class _Gzip:
    """gzip members one after the other. The gzip modules lose up to a buffer of good bytes where a file is cut."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source, self._rest = source, b""
        try:
            self._module = importlib.import_module("isal.isal_zlib")
        except ImportError:  # no wheel for this machine: three times slower, same bytes
            self._module = zlib
        self._engine = self._fresh()

    def _fresh(self) -> Any:
        return self._module.decompressobj(wbits=31)  # 15 bits of window, and a gzip header

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; nothing at the end. Raises EOFError when the stream is cut."""
        while True:
            if self._engine.eof and not self._next_member():
                return b""
            self._rest = self._rest or self._source.read(_INPUT)
            data = cast(bytes, self._engine.decompress(self._rest, size) if self._rest else self._engine.flush())
            ended = not self._rest and not self._engine.eof
            self._rest = self._engine.unconsumed_tail
            if data:
                return data
            if ended:
                raise EOFError(_CUT)

    def _next_member(self) -> bool:
        rest = self._engine.unused_data.lstrip(b"\0") or self._source.read(_INPUT).lstrip(b"\0")
        if rest:
            self._rest, self._engine = rest, self._fresh()
        return bool(rest)


def _some(source: IO[bytes]) -> bytes:
    data = source.read(_INPUT)
    if not data:
        raise EOFError(_CUT)
    return data


def zstd_complete(blob: Blob) -> bool:
    """Whether every frame of a zstd stream is there: the library ends silently where a stream is cut.

    Walks block headers only (RFC 8878, 3.1.1); nothing is decompressed.
    """
    with blob.open() as stream:
        while stream.tell() < blob.size:
            if not _skip_frame(stream, blob.size):
                return False
    return True


def _skip_frame(stream: IO[bytes], size: int) -> bool:
    magic, end = stream.read(4), False
    if magic[1:4] == b"\x2a\x4d\x18":
        length = stream.read(4)
        return len(length) == 4 and stream.seek(struct.unpack("<I", length)[0], io.SEEK_CUR) <= size
    if magic != b"\x28\xb5\x2f\xfd":
        return False
    descriptor = (stream.read(1) or b"\0")[0]
    single, content = descriptor >> 5 & 1, descriptor >> 6
    header = (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3] + (single, 2, 4, 8)[content]
    stream.seek(header, io.SEEK_CUR)
    while not end:
        block = stream.read(3)
        if len(block) < 3:
            return False
        word = int.from_bytes(block, "little")
        end, kind = bool(word & 1), word >> 1 & 3
        stream.seek(1 if kind == 1 else word >> 3, io.SEEK_CUR)
    return stream.seek(4 if descriptor & 4 else 0, io.SEEK_CUR) <= size
