"""Members of tar and zip archives as blobs. Nothing is extracted: names are labels here, never paths to write to."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

from triage.bundle import tar, zips
from triage.bundle.blobs import Blob, Rest, Spool
from triage.bundle.compression import Inflation
from triage.bundle.limits import Account, Gaps
from triage.bundle.naming import refusal, tidy

_ZIP_FAULTS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError, OSError,
)  # fmt: skip

Member = tuple[str, Blob, bool]


class Unpacking:
    """One archive being read: its members; then `fault`, when it ended early, and `over`, when a limit did it."""

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
                start, size, cut = self._keep(io.BufferedReader(Rest(stream, entry.size)))
                yield name, start, size, cut or size < entry.size

    def zip(self, blob: Blob) -> list[Member]:
        """Members of a zip archive: name, bytes, whether they were cut."""
        members: list[tuple[str, int, int, bool]] = []
        try:
            with blob.open() as stream, zipfile.ZipFile(stream) as archive:
                members += self._zip_entries(archive)
        except _ZIP_FAULTS as error:
            self.fault = str(error) or type(error).__name__
            members = members or self._salvaged(blob)
        self._spool.seal()
        return [(name, self._spool.part(at, size), cut) for name, at, size, cut in members]

    def _zip_entries(self, archive: zipfile.ZipFile) -> Iterator[tuple[str, int, int, bool]]:
        for info in archive.infolist():
            if not self._wanted(info.filename, zips.kind(info)):
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

    def _salvaged(self, blob: Blob) -> list[tuple[str, int, int, bool]]:
        """Members of a zip that was cut: its directory, which stood at the end, is missing."""
        members: list[tuple[str, int, int, bool]] = []
        try:
            with blob.open() as stream:
                for local, data in zips.salvaged(stream):
                    if self._wanted(local.name, "folder" if local.name.endswith("/") else "file"):
                        start, size, cut = self._keep(data, packed=blob.size)
                        if size or local.size == 0:
                            members.append((tidy(local.name), start, size, cut or size < (local.size or 0)))
                    if not self._account.admit():
                        break
        except _ZIP_FAULTS:  # the damage; what came before it is kept
            return members
        return members

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
