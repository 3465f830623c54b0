"""Members of tar and zip archives as blobs. Nothing is extracted: names are labels here, never paths to write to."""

from __future__ import annotations

import io
import lzma
import stat
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

from triage.bundle import tar
from triage.bundle.blobs import Blob, Spool
from triage.bundle.compression import Inflation
from triage.bundle.limits import Account, Gaps
from triage.bundle.naming import refusal, tidy

_ZIP_DIRECTORY = 64 << 20  # bytes of a central directory that are worth holding as Python objects
_ZIP_FAULTS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError, OSError,
)  # fmt: skip

# Zip files that are no archives of evidence: checkpoints and arrays, office documents, Python and Java packages.
_NO_EVIDENCE = ("/data.pkl", ".npy", "[Content_Types].xml", "META-INF/MANIFEST.MF", ".dist-info/RECORD")

Member = tuple[str, Blob, bool]


class Unpacking:
    """One archive being read: its members, then `fault` when it ended early. `held` is the memory that it took."""

    def __init__(self, name: str, account: Account, gaps: Gaps, spool: Spool) -> None:
        self.name, self._account, self._gaps, self._spool = name, account, gaps, spool
        self.fault: str | None = None
        self.over = False

    def tar(self, blob: Blob, codecs: tuple[str, ...]) -> list[Member]:
        """Members of a tar archive: name, bytes, whether they were cut."""
        members: list[tuple[str, int, int, bool]] = []
        with Inflation(blob, codecs, self._account.limits.whole()) as inflation:
            try:
                for member in self._tar_entries(inflation.stream, plain=not codecs):
                    members.append(member)  # one by one: what came before a damage is kept
            except tar.TarDamageError as error:
                self.fault = inflation.fault or str(error)
            self.over = inflation.over
        self._spool.seal()
        return [(name, (blob if not codecs else self._spool).part(at, size), cut) for name, at, size, cut in members]

    def _tar_entries(self, stream: IO[bytes], plain: bool) -> Iterator[tuple[str, int, int, bool]]:
        for entry in tar.entries(stream):
            if not self._wanted(entry.name, entry.kind):
                continue
            if not self._account.admit():
                self._too_many()
                return
            name = tidy(entry.name)
            if plain:
                present = min(entry.size, stream.seek(0, io.SEEK_END) - entry.offset)
                yield name, entry.offset, present, present < entry.size
            else:
                start, size, cut = self._keep(io.BufferedReader(_Rest(stream, entry.size)))
                yield name, start, size, cut or size < entry.size

    def zip(self, blob: Blob) -> list[Member]:
        """Members of a zip archive: name, bytes, whether they were cut."""
        members: list[tuple[str, int, int, bool]] = []
        try:
            with blob.open() as stream, zipfile.ZipFile(stream) as archive:
                members += self._zip_entries(archive)
        except _ZIP_FAULTS as error:
            self.fault = str(error) or type(error).__name__
        self._spool.seal()
        return [(name, self._spool.part(at, size), cut) for name, at, size, cut in members]

    def _zip_entries(self, archive: zipfile.ZipFile) -> Iterator[tuple[str, int, int, bool]]:
        for info in archive.infolist():
            if not self._wanted(info.filename, _zip_kind(info)):
                continue
            if not self._account.admit():
                self._too_many()
                return
            name = tidy(info.filename)
            try:
                with archive.open(info) as stream:
                    start, size, cut = self._keep(stream, packed=info.compress_size)
                yield name, start, size, cut
            except _ZIP_FAULTS as error:
                self._gaps.add(f"an archive member could not be read: {error}", "unparsable", self._label(name))

    def _keep(self, stream: IO[bytes], packed: int | None = None) -> tuple[int, int, bool]:
        limits = self._account.limits
        bound = self._account.room()
        if packed is not None:
            bound = min(bound, max(limits.ratio_from, packed * limits.ratio))
        start, size, cut = self._spool.add(stream, bound)
        self._account.unpacked(size)
        return start, size, cut

    def _wanted(self, name: str, kind: str) -> bool:
        reason = refusal(name) or (None if kind in {"file", "folder"} else f"a {kind}")
        if reason:
            how = "unpack the archive yourself and open the folder" if kind != "device" else None
            self._gaps.add(f"archive members that are not read: {reason}", "denied", self._label(tidy(name)), how)
        return reason is None and kind == "file"

    def _too_many(self) -> None:
        limit = self._account.limits.members
        self._gaps.add(f"files beyond the first {limit} of an archive", "truncated", self.name or None)

    def _label(self, name: str) -> str:
        return f"{self.name}/{name}" if self.name else name


class _Rest(io.RawIOBase):
    """The next `size` bytes of a stream that cannot seek; closing it leaves the stream open."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(min(len(buffer), self._left))
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)


def _zip_kind(info: zipfile.ZipInfo) -> str:
    mode = info.external_attr >> 16
    if info.is_dir() or stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISLNK(mode):
        return "link"
    if info.flag_bits & 1:
        return "member under a password"
    return "file" if not stat.S_IFMT(mode) or stat.S_ISREG(mode) else "device"


def zip_of_evidence(blob: Blob) -> bool:
    """Whether a zip holds files to look at; checkpoints, arrays and office documents are zips as well.

    Looks at the names in the last mebibyte, which is where a zip lists them, without reading the directory as such.
    """
    with blob.open() as stream:
        stream.seek(max(0, blob.size - (1 << 20)))
        listing = stream.read()
    end = listing.rfind(b"PK\5\6")
    if end >= 0 and _directory_size(listing, end) > _ZIP_DIRECTORY:
        return False
    directory = listing[listing.find(b"PK\1\2") :] if b"PK\1\2" in listing else b""
    return not any(name.encode() in directory for name in _NO_EVIDENCE)


def _directory_size(listing: bytes, end: int) -> int:
    size = int.from_bytes(listing[end + 12 : end + 16], "little")
    wide = listing.rfind(b"PK\6\6", 0, end)
    return size if size != 0xFFFFFFFF or wide < 0 else int.from_bytes(listing[wide + 40 : wide + 48], "little")
