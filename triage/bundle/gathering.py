"""All files of the evidence and what is known of each: archives opened, compression looked through, kinds told."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec

from triage.bundle import kinds, zips
from triage.bundle.archives import Member, Unpacking
from triage.bundle.blobs import BUFFER, Blob, Disk, Held, Spool
from triage.bundle.compression import REDUCED, Inflation, codec
from triage.bundle.limits import Account, Gaps, Limits
from triage.bundle.naming import identities, safe, trailing_rank, unique
from triage.bundle.reduced import Title, title
from triage.bundle.walking import named, note_unreadable, walk
from triage.bundle.workers import forked
from triage.errors import BundleError
from triage.model.base import Record
from triage.model.bundle import File

Recognise = Callable[[bytes, bytes], tuple[str, ...]]

SAMPLE = 64 << 10  # bytes of head and of tail that recognition sees
MANY = 64  # files from which on several processes look at them: each takes two milliseconds or three
STDIN = "<stdin>"
_LAYERS = 2  # of compression around one file
_ARCHIVE_NAMES = (".tar", ".tgz", ".zip", ".tar.gz", ".tar.zst", ".tar.xz", ".tar.bz2", ".tzst", ".txz", ".tbz2")


class Item(Record, frozen=True, kw_only=True):
    """A file and how to read it, as far as `limits` let it."""

    file: File
    blob: Blob
    codecs: tuple[str, ...] = ()
    encoding: str | None = None
    limits: Limits = Limits()

    @property
    def reduced(self) -> bool:
        """Whether it holds chosen lines of a log, each with its number."""
        return REDUCED in self.codecs


class Look(Record, frozen=True, kw_only=True):
    """What the two ends of a file say of it."""

    sources: tuple[str, ...]
    text: bool
    encoding: str | None = None


_LOOKS = msgspec.msgpack.Decoder(list[Look | None])


class Gathering:
    """One opening of evidence. `close` gives back what was unpacked. processes: that look at many files."""

    def __init__(self, limits: Limits, recognise: Recognise, processes: int = 1) -> None:
        self.items: list[Item] = []
        self.gaps = Gaps()
        self.limits, self._recognise, self._processes = limits, recognise, processes
        self._looks: dict[str, Look] = {}
        self._account, self._memory = Account(limits), limits.memory
        self._taken: set[str] = set()
        self._titles: list[Title] = []
        self._stack = contextlib.ExitStack()

    def close(self) -> None:
        """Close all spools."""
        self._stack.close()

    def gather(self, paths: Sequence[str], stdin: BinaryIO | None) -> None:
        """Everything below the paths. Raises BundleError when one cannot be opened at all."""
        places = named(paths)
        self._look_ahead([disk for _, path in places if (disk := _regular(path))])
        for prefix, path in places:
            if path == Path("-"):
                self._stream(stdin, prefix, STDIN)
            else:
                self._path(path, prefix)
        self._tell_reduced()
        self._identify()
        self.items.sort(key=lambda item: item.file.path)

    def _path(self, path: Path, prefix: str) -> None:
        try:
            status = path.stat()
            if stat.S_ISDIR(status.st_mode):
                self._folder(path, prefix)
            elif stat.S_ISREG(status.st_mode):
                self._top(prefix or path.name, Disk(str(path), status.st_size), prefix)
            elif stat.S_ISFIFO(status.st_mode):
                with path.open("rb") as stream:
                    self._stream(stream, prefix, safe(path.name))
            else:
                raise BundleError(f"{safe(str(path))}: neither a file nor a folder")
        except PermissionError:
            what = "permission denied; run as a user who may read it, or copy it first"
            raise BundleError(f"{safe(str(path))}: {what}") from None
        except OSError as error:
            raise BundleError(f"{safe(str(path))}: {error.strerror or error}") from None

    def _folder(self, path: Path, prefix: str) -> None:
        next(path.iterdir(), None)  # raises when it may not be listed
        told = len(self.gaps.found)
        found = list(islice(walk(path, self.gaps, prefix), self.limits.members + 1))
        if not found and told == len(self.gaps.found):
            self.gaps.add("a folder without a file", "absent", prefix or None)
        self._look_ahead([disk for _, disk in found])
        for name, disk in found:
            if not self._account.admit():
                self.gaps.add(f"files beyond the first {self.limits.members}", "truncated")
                return
            try:
                self._add(name, disk, 0, name)
            except OSError as error:
                note_unreadable(error, name, self.gaps, "file")

    def _stream(self, stream: BinaryIO | None, prefix: str, name: str) -> None:
        if stream is None:
            raise BundleError("standard input was asked for, and there is none")
        spool = self._spool()
        start, size, cut = spool.add(stream, self.limits.member)
        spool.seal()
        self._memory = max(0, self._memory - spool.held)
        if cut:
            self.gaps.add("input beyond the limit is not read", "truncated", name)
        self._top(name, spool.part(start, size), prefix, cut)

    def _spool(self) -> Spool:
        spool = Spool(self._memory)
        self._stack.callback(spool.close)
        return spool

    def _top(self, name: str, blob: Blob, prefix: str, cut: bool = False) -> None:
        """What the user named himself: if that is nothing, it is an error and no gap."""
        opened = self._add(name, blob, 0, prefix, cut)
        if not opened and name.lower().endswith(_ARCHIVE_NAMES):
            raise BundleError(f"{safe(name)}: {'empty' if not blob.size else 'not an archive'}")
        if isinstance(opened, str):
            raise BundleError(f"{safe(name)}: {opened}")

    def _add(self, name: str, blob: Blob, depth: int, prefix: str, cut: bool = False) -> bool | str:
        """Add a file, or the members of an archive under a prefix: True or the damage for an archive, else False."""
        if not blob.size:
            self._empty(name)
            return False
        if isinstance(blob, Disk) and (look := self._looks.pop(blob.path, None)):
            self._keep(unique(safe(name), self._taken), blob, look)
            return False
        codecs, head = self._look(blob)
        if kinds.is_tar(head) or (kinds.is_zip(head) and not codecs and zips.holds_evidence(blob)):
            return self._archive(name, blob, codecs, depth, prefix, not codecs and kinds.is_zip(head))
        return self._single(name, blob, codecs, head, cut)

    def _look(self, blob: Blob) -> tuple[tuple[str, ...], bytes]:
        """Layers of compression, and the first bytes below them."""
        codecs: tuple[str, ...] = ()
        while True:
            with Inflation(blob, codecs, self.limits.whole()) as inflation:
                head = inflation.stream.read(SAMPLE)
            found = codec(head)
            if found is None or len(codecs) == _LAYERS or REDUCED in codecs:
                return codecs, head
            if found == REDUCED and (told := title(head)):
                self._titles.append(told)
            codecs = (*codecs, found)

    # ---- archives ----

    def _archive(
        self, name: str, blob: Blob, codecs: tuple[str, ...], depth: int, prefix: str, zipped: bool
    ) -> bool | str:
        if depth >= self.limits.depth:
            how = "unpack it and open the folder"
            self.gaps.add("archives nested too deeply are not opened", "truncated", safe(name), how)
            return True
        spool = self._spool()
        unpacking = Unpacking(prefix, self._account, self.gaps, spool)
        members = unpacking.zip(blob) if zipped else unpacking.tar(blob, codecs)
        self._memory = max(0, self._memory - spool.held)
        if unpacking.over:
            self.gaps.add("an archive is larger than the limits and is read up to there", "truncated", safe(name))
        elif unpacking.fault and members:
            self.gaps.add("an archive ends early and is read up to there", "truncated", safe(name), "copy it again")
        elif unpacking.fault:
            return self._no_member(name, unpacking.fault, depth)
        self._members(members, prefix, depth)
        return True

    def _no_member(self, name: str, fault: str, depth: int) -> str:
        self.gaps.add("an archive that cannot be opened", "unparsable", safe(name), "copy it again")
        return f"the archive is damaged before its first file ({fault})"

    def _members(self, members: list[Member], prefix: str, depth: int) -> None:
        for member, blob, cut in members:
            path = f"{prefix}/{member}" if prefix else member
            if cut:
                self.gaps.add("files over the limits or cut are read up to there", "truncated", safe(path))
            self._add(path, blob, depth + 1, path, cut)

    # ---- files ----

    def _empty(self, name: str) -> None:
        path = unique(safe(name), self._taken)
        self.items.append(Item(file=File(path=path, size=0), blob=Held(b"")))
        self.gaps.add("empty files", "absent", path)

    def _single(self, name: str, blob: Blob, codecs: tuple[str, ...], head: bytes, cut: bool) -> bool | str:
        limits = msgspec.structs.replace(self.limits, member=self._account.room())
        tail, fault, over = self._survey(blob, codecs, limits)
        path = unique(safe(name), self._taken)
        if over:
            self.gaps.add("files over the limits or cut are read up to there", "truncated", path)
        elif fault:
            self.gaps.add("compressed files that are damaged are read up to there", "truncated", path, "copy it again")
        self._keep(path, blob, self._told(head, tail, bool(codecs)), codecs, limits, bool(cut or fault or over))
        return "nothing in it can be read" if fault and not head else False

    def _told(self, head: bytes, tail: bytes, packed: bool = False) -> Look:
        encoding = kinds.encoding(head) if packed or not kinds.is_pickle(head) else None
        sources = self._recognise(*(_as_utf8(part, encoding) for part in (head, tail)))
        return Look(sources=sources, text=kinds.is_text(head, tail), encoding=encoding)

    def _keep(
        self,
        path: str,
        blob: Blob,
        look: Look,
        codecs: tuple[str, ...] = (),
        limits: Limits | None = None,
        cut: bool = False,
    ) -> None:
        if not look.sources and not look.text:
            self.gaps.add("binary files of no known kind", "unparsable", path)
        limits = limits or msgspec.structs.replace(self.limits, member=self._account.room())
        file = File(path=path, size=blob.size, sources=look.sources, text=look.text, truncated=cut)
        self.items.append(Item(file=file, blob=blob, codecs=codecs, encoding=look.encoding, limits=limits))

    # ---- many files ----

    def _look_ahead(self, disks: Sequence[Disk]) -> None:
        """Let several processes look at many files. What they leave out is looked at when its turn comes."""
        if self._processes < 2 or len(disks) < MANY:
            return
        parts = [disks[at :: self._processes] for at in range(self._processes)]
        answers = forked([partial(self._packed_looks, part) for part in parts])
        for part, data in zip(parts, answers, strict=True):
            looks = zip(part, _LOOKS.decode(data), strict=True)
            self._looks |= {disk.path: look for disk, look in looks if look}

    def _packed_looks(self, disks: Iterable[Disk]) -> bytes:
        return msgspec.msgpack.encode([self._plain(disk) for disk in disks])

    def _plain(self, disk: Disk) -> Look | None:
        """Of a file that is as it is; None for archives, what is compressed and what cannot be read: these have more
        to tell than a look at their ends.
        """
        try:
            with disk.part(0, SAMPLE).open() as stream:
                head = stream.read(SAMPLE)
            tail = head if disk.size <= SAMPLE else self._survey(disk, (), self.limits)[0]
        except OSError:
            return None
        if not head or codec(head) or kinds.is_tar(head) or kinds.is_zip(head):
            return None
        return self._told(head, tail)

    def _survey(self, blob: Blob, codecs: tuple[str, ...], limits: Limits) -> tuple[bytes, str | None, bool]:
        """The tail, and for a compressed file what ends it early: damage, or a limit."""
        if not codecs:
            start = max(0, blob.size - SAMPLE) // 4 * 4  # at the start of a character of UTF-16 or UTF-32, too
            with blob.part(start, SAMPLE + 4).open() as stream:
                return stream.read(SAMPLE + 4), None, False  # without a size it would ask for 8 KiB at a time
        tail = b""
        with Inflation(blob, codecs, limits) as inflation:
            while block := inflation.stream.read(BUFFER):
                tail = (tail + block)[-SAMPLE:]
                self._account.unpacked(len(block))
            return tail, inflation.fault, inflation.over

    def _tell_reduced(self) -> None:
        """One gap for all that the nodes left out, however many files it stood in."""
        if not self._titles:
            return
        lines, size, kept, _ = (sum(numbers) for numbers in zip(*self._titles, strict=True))
        what = (
            f"{max(lines - kept, 0)} of {lines} lines ({size / 1e6:.1f} MB) of {len(self._titles)} logs: lines that no "
            "signature speaks of stayed on the nodes, so a fault that triage does not know cannot be seen here"
        )
        self.gaps.add(what, "truncated", how="triage collect without --reduce, or read the log on its node")

    def _identify(self) -> None:
        known = identities([item.file.path for item in self.items])
        self.items = [_identified(item, known[item.file.path]._asdict()) for item in self.items]


def _regular(path: Path) -> Disk | None:
    """A file that was named itself; what else a path may be is told when its turn comes."""
    try:
        status = path.stat()
    except OSError:
        return None
    return Disk(str(path), status.st_size) if stat.S_ISREG(status.st_mode) else None


def _identified(item: Item, known: dict[str, object]) -> Item:
    if known["rank"] is None and item.file.sources[:1] == ("flight_recorder",):
        known["rank"] = trailing_rank(item.file.path)
    return msgspec.structs.replace(item, file=msgspec.structs.replace(item.file, **known))


def _as_utf8(sample: bytes, encoding: str | None) -> bytes:
    """A sample of a file in a wide encoding; a tail may begin within a character of two bytes only when cut oddly."""
    return sample.decode(encoding, "replace").encode("utf-8", "replace") if encoding else sample
