"""Compressed streams: known by their first bytes, read with bounds, and readable up to where they are damaged."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import struct
import zlib
from collections.abc import Callable
from typing import IO, Any, cast

from triage.bundle.blobs import BUFFER, Blob
from triage.bundle.limits import Limits

WINDOW = 1 << 27  # bytes of history that a zstd or xz stream may ask for: `zstd --long=27`, and xz -9 needs 64 MiB


def codec(head: bytes) -> str | None:
    """Name of the compression whose magic number stands at the head."""
    if head[:3] == b"\x1f\x8b\x08":
        return "gzip"
    if head[:4] == b"\x28\xb5\x2f\xfd" or (head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F):
        return "zstd"
    if head[:6] == b"\xfd7zXZ\0":
        return "xz"
    return "bzip2" if head[:3] == b"BZh" and head[4:10] == b"1AY&SY" else None


class Inflated(io.RawIOBase):
    """A decompressed stream that ends, without an exception, at a damage or a limit.

    fault: what ended it early, or None. over: whether a limit did. produced: bytes given out.
    """

    def __init__(self, source: IO[bytes], name: str, packed: int, limits: Limits) -> None:
        self._source, self._packed, self._limits = source, packed, limits
        inner = _opener(name)(source)
        # read1 gives what it has before a damage raises; read would lose it
        self._read: Callable[[int], bytes] = getattr(inner, "read1", inner.read)
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
            data = self._read(len(view))
        except self._faults as error:
            self.fault = str(error) or type(error).__name__
            return 0
        return self._give(view, data)

    def _give(self, view: memoryview, data: bytes) -> int:
        limits, total = self._limits, self.produced + len(data)
        bomb = total > limits.ratio_from and total > limits.ratio * self._packed
        if total > limits.member or bomb:
            self.over = True
            return 0
        view[: len(data)] = data
        self.produced = total
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
        return None if zstd_complete(self._blob) else "the compressed stream ends early"

    def __enter__(self) -> Inflation:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()


def _opener(name: str) -> Callable[[IO[bytes]], IO[bytes]]:
    return {"gzip": _gzip, "zstd": _zstd, "xz": _xz, "bzip2": _bzip2}[name]


def _gzip(source: IO[bytes]) -> IO[bytes]:
    try:
        engine: Any = importlib.import_module("isal.igzip").IGzipFile
    except ImportError:  # no wheel for this machine: three times slower, same bytes
        engine = gzip.GzipFile
    return cast("IO[bytes]", engine(fileobj=source, mode="rb"))


def _zstd(source: IO[bytes]) -> IO[bytes]:
    import zstandard

    engine = zstandard.ZstdDecompressor(max_window_size=WINDOW)
    return cast("IO[bytes]", engine.stream_reader(source, read_across_frames=True))


def _bzip2(source: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", bz2.BZ2File(source))


def _xz(source: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", _Xz(source))


def _faults() -> tuple[type[Exception], ...]:
    import zstandard

    found: list[type[Exception]] = [OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, zstandard.ZstdError]
    try:
        from isal import isal_zlib
    except ImportError:
        return tuple(found)
    return (*found, cast("type[Exception]", isal_zlib.error))


class _Xz:
    """lzma.LZMAFile with a bound on memory, which that one does not offer."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source, self._rest, self._engine = source, b"", self._fresh()

    @staticmethod
    def _fresh() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=2 * WINDOW)

    def read(self, size: int) -> bytes:
        """At most `size` bytes; nothing at the end. Raises EOFError when the stream is cut."""
        while True:
            if self._engine.eof and not self._next_stream():
                return b""
            if self._engine.needs_input and not self._rest:
                self._rest = self._source.read(1 << 16)
                if not self._rest:
                    raise EOFError("the compressed stream ends early")
            data = self._engine.decompress(self._rest, size)
            self._rest = b""
            if data:
                return data

    def _next_stream(self) -> bool:
        rest = self._engine.unused_data.lstrip(b"\0") or self._source.read(1 << 16).lstrip(b"\0")
        if not rest:
            return False
        self._rest, self._engine = rest, self._fresh()
        return True


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
