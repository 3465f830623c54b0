"""Who scans: this machine, or a Dask cluster that reaches the same files. Both give the same answer, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from triage import __version__, content
from triage.bundle.gathering import Item
from triage.bundle.opening import Evidence, lent
from triage.bundle.workers import beside, can_fork
from triage.errors import TriageError, UsageError
from triage.matching import sampling
from triage.matching.loading import catalogue
from triage.matching.matcher import Matched, cores, markers, match
from triage.matching.scanner import Scanner
from triage.model.base import Record, Scalar
from triage.model.bundle import File, Gap
from triage.model.event import Event, Mark, Signal
from triage.model.signature import Signature
from triage.model.summary import Summary
from triage.parsers import parser, parsers

PART = 64 << 20  # bytes that a worker gets at once: half a second of scanning beside some milliseconds of asking
MANY = 500  # files that a worker gets at once
FILES = 64  # from here on reading what was found takes longer than scanning, and threads do not help
PROCESSES = 8  # at most: what they find comes together in one
MARKS, FEWEST = 60_000, 12  # of all files together about, of one of ten thousand: first, last, and a course between
PIECE = 64  # files whose findings another process packs at once: as bytes they take a third
PATIENCE = 30  # seconds in which a scheduler must answer
_DASK = re.compile(r"dask://(?P<place>[\w.-]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5})")


class Engine(Protocol):
    """Maps the text files of the evidence to what stands in them."""

    def scan(self, evidence: Evidence) -> Matched:
        """Signals, marks, gaps and summaries, sorted by file and line."""


class Local:
    """All cores of this machine: threads for large files, processes where there are many files."""

    def scan(self, evidence: Evidence) -> Matched:
        """See Engine. Raises ContentError when a signature is at fault."""
        files, limit = [file for file in evidence.files if file.text], quota(evidence)
        if len(files) < FILES or (count := processes()) < 2:
            return scanned(evidence, files, limit)
        parts = [files[at::count] for at in range(count)]
        own = partial(_scanned_here, evidence, parts[0], limit)
        first, packed = beside(own, [partial(_packed, evidence, part, limit) for part in parts[1:]])
        answers = [answer for data in packed for answer in _unpacked(data)]
        for gap in (gap for answer in answers for gap in answer.gaps):
            evidence.note(gap)
        return joined([*first, *(answer.found for answer in answers)])


LOCAL = Local()


class Dask:
    """The workers of a Dask cluster. What they cannot read at the same path (archives, local disks) is scanned here.

    address: of the scheduler, `HOST:PORT`. Who may submit to it may run code on it: it must be one that you trust.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def scan(self, evidence: Evidence) -> Matched:
        """See Engine. Raises UsageError without the package, TriageError when the cluster fails."""
        items = evidence.lendable()
        with _connected(self.address) as client:
            asked = {"limit": quota(evidence), "known": _known()}
            parts = _gathered(client, client.map(scan_part, list(_parts(items)), **asked, pure=False))
        for gap in (gap for part in parts for gap in part.gaps):
            evidence.note(gap)
        sent = {item.file.path for item in items} - {path for part in parts for path in part.absent}
        rest = [file for file in evidence.files if file.path not in sent]
        return joined([scanned(evidence, rest, quota(evidence)), *(part.matched for part in parts if part.matched)])


def engine(name: str) -> Engine:
    """`local`, or `dask://HOST:PORT`. Raises UsageError."""
    if name == "local":
        return LOCAL
    if found := _DASK.fullmatch(name):
        return Dask(found["place"])
    raise UsageError(f"no engine {name!r}: say local, or dask://HOST:PORT of a scheduler")


def processes() -> int:
    """Copies of this process that may work side by side, itself among them."""
    return min(cores(), PROCESSES) if can_fork() else 1


def quota(evidence: Evidence) -> int:
    """Marks of one file: what it is depends on how many files there are, wherever each is scanned."""
    files = sum(file.text for file in evidence.files)
    return min(sampling.quota(files), max(FEWEST, MARKS // max(files, 1)))


def scanned(
    evidence: Evidence, files: Iterable[File], limit: int, threads: int | None = None, scanner: Scanner | None = None
) -> Matched:
    """What stands in some of the files. scanner: one of all signatures and marks, for who scans more than once."""
    return match(files, evidence.chunks, catalogue(), parser, parsers(), threads, scanner, limit)


def _scanner() -> Scanner:
    return Scanner([each for each in catalogue().values() if each.match], markers(parser, parsers()))


class _Found(Record, frozen=True, kw_only=True):
    """A signal without its signature, which every process has."""

    name: str
    event: Event
    fields: dict[str, Scalar]
    entity: dict[str, Scalar]
    count: int
    last_line: int | None
    lines: tuple[int, ...]


class _Answer(Record, frozen=True, kw_only=True):
    """What another process found in some files. gaps: of the evidence, met on the way."""

    signals: tuple[_Found, ...]
    marks: tuple[Mark, ...]
    missing: tuple[Gap, ...]
    summaries: tuple[Summary, ...]
    gaps: tuple[Gap, ...]


class _Opened(Record, frozen=True, kw_only=True):
    """An answer with the signatures of this process."""

    found: Matched
    gaps: tuple[Gap, ...]


_NAMES = tuple(name for name in _Found.__struct_fields__ if name != "name")
_pieces, _piece = msgspec.msgpack.Decoder(list[msgspec.Raw]), msgspec.msgpack.Decoder(_Answer)


def _unpacked(data: bytes) -> Iterator[_Opened]:
    """One answer after the other, so that what is not yet made smaller is never much."""
    known = catalogue()
    for piece in _pieces.decode(data):
        answer, shared = _piece.decode(piece), _Shared()
        signals = tuple(_whole(one, known[one.name]) for one in answer.signals)
        for event in (*(one.event for one in signals), *(one.event for one in answer.marks)):
            shared.settle(event)
        found = Matched(signals=signals, marks=answer.marks, gaps=answer.missing, summaries=answer.summaries)
        yield _Opened(found=found, gaps=answer.gaps)


def _whole(one: _Found, signature: Signature) -> Signal:
    return Signal(signature=signature, **{name: getattr(one, name) for name in _NAMES})


class _Shared:
    """Decoding makes a string anew each time it stands somewhere; here each is one, as it was where it was found."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def settle(self, event: Event) -> None:
        """Replace equal strings of an event by the same string: its value does not change."""
        put = msgspec.structs.force_setattr
        put(event.where, "file", self._known.setdefault(event.where.file, event.where.file))
        put(event, "source", self._known.setdefault(event.source, event.source))
        if event.node is not None:
            put(event, "node", self._known.setdefault(event.node, event.node))
        if event.body == event.text:
            put(event, "body", event.text)


def _packed(evidence: Evidence, files: Sequence[File], limit: int) -> bytes:
    """Runs in a process of its own; its threads would have no core to run on."""
    scanner = _scanner()
    parts = [msgspec.Raw(_piece_of(evidence, part, limit, scanner)) for part in _few_by_few(files)]
    return msgspec.msgpack.encode(parts)


def _scanned_here(evidence: Evidence, files: Sequence[File], limit: int) -> list[Matched]:
    """The same for this process's own share: what reading a file took is given back after some files."""
    scanner = _scanner()
    return [scanned(evidence, part, limit, threads=1, scanner=scanner) for part in _few_by_few(files)]


def _few_by_few(files: Sequence[File]) -> Iterator[Sequence[File]]:
    return (files[at : at + PIECE] for at in range(0, len(files), PIECE))


def _piece_of(evidence: Evidence, files: Sequence[File], limit: int, scanner: Scanner) -> bytes:
    before = set(evidence.gaps)
    found = scanned(evidence, files, limit, threads=1, scanner=scanner)
    signals = (_Found(name=one.signature.id, **{name: getattr(one, name) for name in _NAMES}) for one in found.signals)
    gaps = tuple(gap for gap in evidence.gaps if gap not in before)
    return msgspec.msgpack.encode(
        _Answer(signals=tuple(signals), marks=found.marks, missing=found.gaps, summaries=found.summaries, gaps=gaps)
    )


class Part(Record, frozen=True, kw_only=True):
    """A worker's answer. absent: files that it does not have. other: its version and catalogue, if it has others."""

    matched: Matched | None = None
    gaps: tuple[Gap, ...] = ()
    absent: tuple[str, ...] = ()
    other: str | None = None


def scan_part(items: Sequence[Item], limit: int, known: str) -> Part:
    """Runs on a worker, in one thread: its cores are the cluster's to share out."""
    if (own := _known()) != known:
        return Part(other=own)
    here = [item for item in items if _is_here(item)]
    with lent(here) as evidence:
        matched = scanned(evidence, evidence.files, limit, threads=1)
        gaps = tuple(evidence.gaps)
    absent = {item.file.path for item in items} - {item.file.path for item in here}
    return Part(matched=matched, gaps=gaps, absent=tuple(sorted(absent)))


def _known() -> str:
    """What must be the same on workers for the answer to be the same."""
    return f"{__version__} {content.digest()}"


def _is_here(item: Item) -> bool:
    try:
        return Path(getattr(item.blob, "path", "")).stat().st_size >= item.blob.size
    except OSError:
        return False


def _parts(items: Iterable[Item]) -> Iterator[list[Item]]:
    """The largest first, so that the end is not waited for by all; small files together."""
    part: list[Item] = []
    for item in sorted(items, key=lambda item: (-item.blob.size, item.file.path)):
        part.append(item)
        if len(part) == MANY or sum(each.blob.size for each in part) >= PART:
            yield part
            part = []
    if part:
        yield part


def joined(parts: Iterable[Matched]) -> Matched:
    """Answers for different files as one, in the order of the files; signatures are those of this process."""
    parts, known = list(parts), catalogue()
    replaced = msgspec.structs.replace
    signals = [replaced(each, signature=known[each.signature.id]) for part in parts for each in part.signals]
    return Matched(
        signals=tuple(sorted(signals, key=lambda signal: signal.event.where.file)),
        marks=tuple(sorted((mark for part in parts for mark in part.marks), key=lambda mark: mark.event.where.file)),
        gaps=tuple(sorted({gap: None for part in parts for gap in part.gaps}, key=lambda gap: gap.file or "")),
        summaries=tuple(sorted((each for part in parts for each in part.summaries), key=lambda each: each.file)),
    )


def _connected(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError("--engine dask://… needs: pip install 'gpu-triage[dask]'") from error
    connect: Any = Client  # it has no types of its own
    try:
        return connect(f"tcp://{address}", timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise TriageError(f"dask://{address}: no scheduler answers there; is it running? ({error})") from None


def _gathered(client: Any, futures: list[Any]) -> list[Part]:
    """All answers. Raises TriageError when workers die, UsageError when their signatures are not those of here."""
    from distributed import KilledWorker

    try:
        parts: list[Part] = client.gather(futures)
    except (KilledWorker, CancelledError, RuntimeError, OSError, ImportError, AttributeError, TypeError) as error:
        what = str(error).split("\n")[0][:200] or type(error).__name__
        raise TriageError(f"the Dask cluster failed: {what}; do its workers have the same gpu-triage?") from None
    if any(part.other for part in parts):
        what = "workers of the Dask cluster have another version or other signatures"
        raise UsageError(f"{what}; install the same gpu-triage there")
    return parts
