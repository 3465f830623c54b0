"""Evidence, opened: its files, their bytes, and what could not be seen."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import msgspec

from triage.bundle import manifest as manifests
from triage.bundle.blobs import Disk
from triage.bundle.compression import REDUCED, Inflation
from triage.bundle.gathering import Gathering, Item, Recognise
from triage.bundle.limits import Limits
from triage.bundle.reading import chunks, recoded
from triage.bundle.reduced import reduced_chunks
from triage.bundle.workers import Unpicklers
from triage.model.bundle import Chunk, File, Gap, Rows

DOCUMENT = 1 << 30  # bytes of a whole document that are read when the caller names no bound

__all__ = ["Evidence", "Limits", "open_evidence"]


def open_evidence(
    paths: list[str],
    stdin: BinaryIO | None = None,
    limits: Limits | None = None,
    recognise: Recognise = lambda head, tail: (),
    processes: int = 1,
) -> Evidence:
    """Open folders, files, archives and `-` for standard input as one piece of evidence.

    recognise: names of the sources that a file holds, best first, from its first and last 64 KiB.
    processes: copies of this process that look at many files side by side; more than 1 only where it may be copied.
    Raises BundleError when a path is missing or unreadable, or an archive gives nothing; lesser trouble is in `gaps`.
    """
    gathering = Gathering(limits or Limits(), recognise, processes)
    try:
        gathering.gather(paths, stdin if stdin is not None or "-" not in paths else sys.stdin.buffer)
        return Evidence(gathering)
    except BaseException:
        gathering.close()
        raise


def lent(items: Iterable[Item]) -> Evidence:
    """Files that another process opened and found on a disk that this one has, too."""
    gathering = Gathering(Limits(), lambda head, tail: ())
    gathering.items = list(items)
    return Evidence(gathering, bundle=False)


class Evidence:
    """Files with their gaps; a context manager. Its methods may be called by several threads at once.

    files: sorted by path. gaps: what could not be seen. manifest: of a bundle made by `triage collect`, else None.
    """

    def __init__(self, gathering: Gathering, bundle: bool = True) -> None:
        self._gathering = gathering
        self._items = {item.file.path: item for item in gathering.items}
        self._unpicklers, self._lock = Unpicklers(), threading.Lock()
        self._gaps = gathering.gaps.found
        self.manifest = self._take_manifest() if bundle else None
        self.files: tuple[File, ...] = tuple(item.file for item in self._items.values())

    def __enter__(self) -> Evidence:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def gaps(self) -> list[Gap]:
        """Sorted, for reading may add to them from several threads."""
        with self._lock:
            return sorted(self._gaps, key=lambda gap: (gap.file or "", gap.node or "", gap.what))

    def lendable(self) -> list[Item]:
        """How to read each text file that lies on a disk as it is: who has the same disk may read it, too."""
        return [item for item in self._items.values() if item.file.text and isinstance(item.blob, Disk)]

    def close(self) -> None:
        """End the unpickling child and give back all that was unpacked."""
        self._unpicklers.close()
        self._gathering.close()

    def chunks(self, file: File) -> Iterator[Chunk]:
        """The lines of a text file, in pieces of some MiB; nothing for a binary file."""
        item = self._items[file.path]
        if not file.text or not item.blob.size:
            return
        if item.reduced:
            with self.raw(file) as numbered:
                yield from reduced_chunks(numbered, item.file)
            return
        with self._noted(item), self._open(item) as inflation:
            stream = recoded(inflation.stream, item.encoding) if item.encoding else inflation.stream
            yield from chunks(stream, item.file)

    def read(self, file: File, limit: int = DOCUMENT) -> bytes:
        """A whole file, decompressed, text in UTF-8; what is over the limit is left out and becomes a gap."""
        item = self._items[file.path]
        data = b""
        with self._noted(item), self._open(item) as inflation:
            stream = recoded(inflation.stream, item.encoding) if item.encoding else inflation.stream
            data = stream.read(limit)
            if stream.read(1):
                self.note(Gap(what="documents over the limit are read up to there", why="truncated", file=file.path))
        return data

    def head(self, file: File, size: int) -> bytes:
        """The first bytes of a file as `read` gives them."""
        item = self._items[file.path]
        blob = item.blob if item.codecs else item.blob.part(0, 4 * size)  # four bytes a character at most
        found: list[bytes] = []
        with self._noted(item), Inflation(blob, item.codecs, item.limits) as inflation:
            found.append((recoded(inflation.stream, item.encoding) if item.encoding else inflation.stream).read(size))
        return b"".join(found)

    @contextlib.contextmanager
    def raw(self, file: File) -> Iterator[io.BufferedReader]:
        """The bytes of a file, decompressed and otherwise as they are; ends early where it cannot be read."""
        item = self._items[file.path]
        layers = item.codecs[: item.codecs.index(REDUCED)] if item.reduced else item.codecs
        with self._noted(item), Inflation(item.blob, layers, item.limits) as inflation:
            yield inflation.stream

    def unpickle(self, data: bytes) -> Any:
        """The plain data of a pickle, loaded in a limited child. Raises ValueError with the reason."""
        return self._unpicklers.load(data)

    def unpickle_rows(self, data: bytes, rows: Rows, kind: type) -> tuple[Any, list[Any]]:
        """As `unpickle`, of the records only what is wanted (see `Unpickler.rows`)."""
        return self._unpicklers.rows(data, rows, kind)

    def _open(self, item: Item) -> Inflation:
        return Inflation(item.blob, item.codecs, item.limits)

    @contextlib.contextmanager
    def _noted(self, item: Item) -> Iterator[None]:
        """A file that was readable when it was found and is no longer: a gap, not an error."""
        try:
            yield
        except OSError as error:
            what = f"a file that cannot be read: {error.strerror or error}"
            self.note(Gap(what=what, why="not collected", file=item.file.path))

    def note(self, gap: Gap) -> None:
        """Add a gap, once."""
        with self._lock:
            if gap not in self._gaps:
                self._gaps.append(gap)

    def _take_manifest(self) -> dict[str, Any] | None:
        for path in sorted(self._items, key=lambda path: (path.count("/"), path)):
            if path.count("/") > 1 or path.rsplit("/", 1)[-1] != "manifest.json":
                continue
            found = manifests.parse(self.read(self._items[path].file, manifests.LONGEST))
            if found is not None:
                del self._items[path]
                self._apply(found, path.removesuffix("manifest.json"))
                return found
        return None

    def _apply(self, manifest: dict[str, Any], base: str) -> None:
        for row in manifests.rows(manifest, "files"):
            path = base + str(row.get("path"))
            if item := self._items.get(path):
                known = manifests.described(item.file, row)
                self._items[path] = msgspec.structs.replace(item, file=msgspec.structs.replace(item.file, **known))
        self._gaps += manifests.gaps(manifest)
