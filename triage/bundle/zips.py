"""What the zip module leaves open: which zips hold evidence, and the members of one whose directory was cut off."""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

from triage.bundle.blobs import Blob, Rest
from triage.model.base import Record

_DIRECTORY = 64 << 20  # bytes of a central directory that are worth holding as Python objects
_INPUT = 1 << 16  # compressed bytes taken at once
_LOCAL = b"PK\3\4"
_UNKNOWN = 8  # flag: sizes stand behind the data

# Zip files that are no archives of evidence: checkpoints and arrays, office documents, Python and Java packages.
_NO_EVIDENCE = ("/data.pkl", ".npy", "[Content_Types].xml", "META-INF/MANIFEST.MF", ".dist-info/RECORD")


def holds_evidence(blob: Blob) -> bool:
    """Whether a zip holds files to look at, by the names in its last mebibyte, where its directory is.

    Also false when the directory alone would fill memory. A zip that was cut has none, and its first names count.
    """
    with blob.open() as stream:
        first = stream.read(_INPUT)
        stream.seek(max(0, blob.size - (1 << 20)))
        listing = stream.read()
    end = listing.rfind(b"PK\5\6")
    if end >= 0 and _directory_size(listing, end) > _DIRECTORY:
        return False
    at = listing.find(b"PK\1\2")
    names = listing[at:] if end >= 0 and at >= 0 else first[:1024]
    return not any(name.encode() in names for name in _NO_EVIDENCE)


def _directory_size(listing: bytes, end: int) -> int:
    size = int.from_bytes(listing[end + 12 : end + 16], "little")
    wide = listing.rfind(b"PK\6\6", 0, end)
    return size if size != 0xFFFFFFFF or wide < 0 else int.from_bytes(listing[wide + 40 : wide + 48], "little")


def kind(info: zipfile.ZipInfo) -> str:
    """What a member is, by the Unix mode that it may carry."""
    mode = info.external_attr >> 16
    if info.is_dir() or stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISLNK(mode):
        return "link"
    if info.flag_bits & 1:
        return "member under a password"
    return "file" if not stat.S_IFMT(mode) or stat.S_ISREG(mode) else "device"


class Local(Record, frozen=True, kw_only=True):
    """A member as the header in front of it says. packed: None when the size stands behind the data."""

    name: str
    method: int
    packed: int | None
    size: int | None


def salvaged(stream: io.BufferedReader) -> Iterator[tuple[Local, io.BufferedReader]]:
    """Members one after the other, with their bytes, which must be read before the next; ends at the damage."""
    while (local := _local(stream)) is not None:
        if local.method == zipfile.ZIP_DEFLATED:
            inflating = _Inflating(stream)
            yield local, io.BufferedReader(inflating)
            inflating.finish()
        elif local.method == zipfile.ZIP_STORED and local.packed is not None:
            end = stream.tell() + local.packed
            yield local, io.BufferedReader(Rest(stream, local.packed))
            stream.seek(end)
        else:
            return
        _to_next(stream)


def _local(stream: IO[bytes]) -> Local | None:
    head = stream.read(30)
    if len(head) < 30 or not head.startswith(_LOCAL):
        return None
    flags, method, packed, size, name, extra = (
        int.from_bytes(head[at:to], "little") for at, to in ((6, 8), (8, 10), (18, 22), (22, 26), (26, 28), (28, 30))
    )
    if flags & 1 or 0xFFFFFFFF in (packed, size):  # under a password, or larger than 4 GiB
        return None
    text = stream.read(name).decode("utf-8" if flags & 0x800 else "cp437", "replace")
    stream.read(extra)
    known = not flags & _UNKNOWN
    return Local(name=text, method=method, packed=packed if known else None, size=size if known else None)


def _to_next(stream: io.BufferedReader) -> None:
    """Past the sizes that may stand behind the data."""
    at = stream.tell()
    found = stream.read(28).find(_LOCAL)
    stream.seek(at + max(found, 0))


class _Inflating(io.RawIOBase):
    """A deflated member of unknown length; leaves the stream right behind it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._engine, self._rest = stream, zlib.decompressobj(-15), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._engine.eof:
            self._rest = self._rest or self._stream.read(_INPUT)
            if not self._rest:
                return 0
            data = self._engine.decompress(self._rest, len(buffer))
            self._rest = self._engine.unconsumed_tail
            if data:
                buffer[: len(data)] = data
                return len(data)
        return 0

    def finish(self) -> None:
        """Go to the end of the member, at the cost of what was not read of it."""
        scratch = memoryview(bytearray(_INPUT))
        while self.readinto(scratch):
            continue
        self._stream.seek(-len(self._engine.unused_data), io.SEEK_CUR)
