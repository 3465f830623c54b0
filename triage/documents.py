"""Structured evidence: every file that a parser reads as a whole becomes facts; what cannot be read is a gap."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import msgspec

from triage.bundle.opening import Evidence
from triage.model.bundle import Document, File, Gap
from triage.model.event import Fact
from triage.parsers import parser

LISTING_BYTES = 64 << 20  # a table of jobs, pods or GPUs is smaller; a log that looks like one may be far larger
HEAD = 4096  # bytes in which a document of a source that is also read by line shows itself
SIDE_BY_SIDE = 3  # documents in memory at once
_TURN = threading.Lock()  # of files larger than memory one is read at a time
DOCUMENT_BYTES = 512 << 20  # a structured file is read whole up to this size


def structured(evidence: Evidence) -> tuple[list[Fact], list[Gap]]:
    """Facts of all documents, in the order of the files, and the gaps of those that cannot be read."""
    whole = ((file, source) for file in evidence.files for source in file.sources if _read_whole(file, source))
    documents = [(file, source) for file, source in whole if _begins(evidence, file, source)]
    facts: list[Fact] = []
    gaps: list[Gap] = []
    with uncollected(), ThreadPoolExecutor(SIDE_BY_SIDE) as pool:  # while pickles load in children the last is read
        for told, gap in pool.map(lambda item: _told(evidence, *item), documents):
            facts += told
            gaps += [*gap, *(unread for fact in told if (unread := _unread(fact)))]
    return facts, gaps


def _unread(fact: Fact) -> Gap | None:
    """What a parser could not read of its file: it says so as `<source>.unreadable` (why) or `.unread` (how many)."""
    source, _, kind = fact.name.rpartition(".")
    if kind == "unreadable":
        return Gap(what=f"{source}: {fact.value}", why="unparsable", file=fact.where.file)
    if kind == "unread" and isinstance(fact.value, int) and fact.value > 0:
        return Gap(
            what=f"{source}: {fact.value} records of a kind that is not read", why="unparsable", file=fact.where.file
        )
    return None


@contextmanager
def uncollected() -> Iterator[None]:
    """Millions of small objects without cycles: to look for some among them takes as long as reading them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _read_whole(file: File, source: str) -> bool:
    """Documents are; of a source that is read by line, only what is no larger than a listing or a status can be."""
    module = parser(source)
    return hasattr(module, "facts") and (file.size <= LISTING_BYTES or not hasattr(module, "parse"))


def _begins(evidence: Evidence, file: File, source: str) -> bool:
    """Of a log whose parser also reads a document, told by its first bytes: ten thousand need not be read twice."""
    begins = getattr(parser(source), "BEGINS", None)
    return begins is None or begins.match(evidence.head(file, HEAD)) is not None


def _told(evidence: Evidence, file: File, source: str) -> tuple[list[Fact], list[Gap]]:
    try:
        with _document(evidence, file, source) as document:
            return list(parser(source).facts(document)), []
    except Exception as error:  # the parser loop, one of the four places that may: one file must not end the analysis
        return [], [Gap(what=f"{source} in {file.path}", why="unparsable", file=file.path, how=str(error)[:200])]


@contextmanager
def _document(evidence: Evidence, file: File, source: str) -> Iterator[Document]:
    """The whole file, or a stream of it for a parser that asks for one."""
    made = Document(file=file, data=b"", unpickle=evidence.unpickle, unpickle_rows=evidence.unpickle_rows)
    if getattr(parser(source), "STREAMED", False):
        with _TURN, evidence.raw(file) as stream:
            yield msgspec.structs.replace(made, stream=stream)
    else:
        yield msgspec.structs.replace(made, data=evidence.read(file, DOCUMENT_BYTES))
