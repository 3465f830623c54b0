"""How much evidence may ask of this machine, and the account of what it has asked."""

from __future__ import annotations

import msgspec

from triage.model.base import Record
from triage.model.bundle import Gap
from triage.vocabulary import GapReason

MIB = 1 << 20
GIB = 1 << 30


class Limits(Record, frozen=True, kw_only=True):
    """Bounds on archives and compressed files; what is over one becomes a gap, what fits is still read.

    total: bytes unpacked from all archives and compressed files together. member: bytes of one unpacked file.
    members: files in all: ten thousand nodes send forty each. depth: archives inside archives.
    memory: bytes unpacked in memory before a spool goes to disk.
    ratio: unpacked to packed bytes, looked at beyond `ratio_from` unpacked bytes: a log of few different lines
    compresses as well as any bomb, and up to there does no harm.
    """

    total: int = 16 * GIB
    member: int = 4 * GIB
    members: int = 600_000
    depth: int = 3
    memory: int = 64 * MIB
    ratio: int = 1000
    ratio_from: int = GIB

    def whole(self) -> Limits:
        """The same for an archive as one stream, which may have the size of all its members."""
        return msgspec.structs.replace(self, member=self.total)


class Account:
    """What has been unpacked so far, against the limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._bytes = self._files = 0

    def room(self) -> int:
        """Bytes that the next unpacked file may have."""
        return max(0, min(self.limits.member, self.limits.total - self._bytes))

    def unpacked(self, size: int) -> None:
        """Count the bytes of an unpacked file."""
        self._bytes += size

    def admit(self) -> bool:
        """Count one more file; False when there are too many."""
        self._files += 1
        return self._files <= self.limits.members


class Gaps:
    """Collects gaps; of many of one kind the first are listed and the rest counted in one line."""

    LISTED = 100  # of each kind: a report that lists thousands of links is read by nobody

    def __init__(self) -> None:
        self.found: list[Gap] = []
        self._seen: dict[str, int] = {}

    def add(self, kind: str, why: GapReason, file: str | None = None, how: str | None = None) -> None:
        """Note a gap; `kind` says what is missing, in words that are the same for all of the kind."""
        self._seen[kind] = self._seen.get(kind, 0) + 1
        if self._seen[kind] <= self.LISTED:
            self.found.append(Gap(what=kind, why=why, file=file, how=how))
        elif self._seen[kind] == self.LISTED + 1:
            self.found.append(Gap(what=f"{kind}, and more of this kind", why=why, how=how))
