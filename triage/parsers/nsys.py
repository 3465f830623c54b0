"""Nsight Systems exports (`nsys export --type sqlite`), read without trusting them; the report itself is a gap.

Facts of a device (entity gpu; rank when the file's name says): those of kineto, `profile.*`. A step is an NVTX range
whose text says so (`step 12`, `iteration 12`, `ProfilerStep#12`); without any the profiled time is one window.
profile.source     nsys
profile.unreadable why nothing was read
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from typing import Any

from triage.model.bundle import Document
from triage.model.event import Fact
from triage.parsers._documents import Teller, rank_of
from triage.parsers._profile import Profile

SOURCE = "nsys"
MAGIC = (b"SQLite format 3\0",)
EVENTS = 4_000_000
OPERATIONS = 20_000_000  # units of SQLite's work between two looks, times LOOKS: a crafted file ends here
LOOKS = 200
DEVICES = 16
_MAGIC = b"SQLite format 3\0"
_TABLES = (b"CUPTI_ACTIVITY_KIND_", b"TARGET_INFO_", b"META_DATA_EXPORT", b"NVTX_EVENTS", b"StringIds")
_STEP = re.compile(
    r"^(?:train(?:ing)?[ _])?(?:step|iter(?:ation)?|ProfilerStep)\s{0,2}[#:_ ]?\s{0,2}(\d{1,9})$", re.IGNORECASE
)
_LOADER = re.compile(
    r"data[ _-]?load|DataLoader|next[ _]batch|get[ _]batch|data[ _]wait|batch[ _-]generator", re.IGNORECASE
)
_RANGES = (59, 60, 75, 34, 33)  # NVTX push-pop, start-end and their extended kinds
Event = dict[str, Any]


def recognises(head: bytes, tail: bytes) -> int:
    """2 for an SQLite file with the tables of an export, and for a report that was not exported."""
    if head.startswith(_MAGIC):
        return 2 if any(table in head or table in tail for table in _TABLES) else 0
    return 2 if head.startswith(b"QDSTRM") or b"nsys-rep" in head[:512] else 0


def facts(document: Document) -> Iterator[Fact]:
    """The profile of each device. Raises ValueError for a report that was not exported: that is a gap."""
    if not document.data.startswith(_MAGIC):
        raise ValueError("a report of Nsight Systems: nsys export --type sqlite makes a file that can be read")
    teller = Teller(document, {"rank": rank_of(document.file)})
    try:
        with _opened(document.data) as base:
            found = _profiles(base)
    except (sqlite3.Error, ValueError, OverflowError) as error:
        yield teller.fact("profile.unreadable", str(error)[:200])
        return
    if not found:
        yield teller.fact("profile.unreadable", "no kernel or copy in it")
    for device, profile in found.items():
        told = teller.about({"gpu": device}) if len(found) > 1 else teller
        yield told.fact("profile.source", "nsys")
        yield from told.some(profile.values())


@contextlib.contextmanager
def _opened(data: bytes) -> Iterator[sqlite3.Connection]:
    """A connection that can neither write nor run for ever."""
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
        file.write(data)
        file.flush()
        base = sqlite3.connect(f"file:{file.name}?mode=ro&immutable=1", uri=True)
        looks = iter(range(LOOKS))
        try:
            base.set_progress_handler(lambda: 0 if next(looks, None) is not None else 1, OPERATIONS)
            base.text_factory = lambda raw: raw[:400].decode("utf-8", "replace")
            for pragma in ("query_only = 1", "trusted_schema = 0", "cell_size_check = 1"):
                base.execute(f"PRAGMA {pragma}")
            yield base
        finally:
            base.close()


def _profiles(base: sqlite3.Connection) -> dict[int, Profile]:
    names = _names(base)
    devices = [int(row[0]) for row in _rows(base, "CUPTI_ACTIVITY_KIND_KERNEL", ("deviceId",), distinct=True)]
    if not devices:
        devices = [int(row[0]) for row in _rows(base, "CUPTI_ACTIVITY_KIND_MEMCPY", ("deviceId",), distinct=True)]
    host = list(_host(base, names))
    return {device: Profile([*host, *_device(base, device, names)]) for device in sorted(devices)[:DEVICES]}


def _names(base: sqlite3.Connection) -> dict[int, str]:
    return {int(key): str(value) for key, value in _rows(base, "StringIds", ("id", "value")) if isinstance(key, int)}


def _device(base: sqlite3.Connection, device: int, names: dict[int, str]) -> Iterator[Event]:
    for row in _rows(base, "CUPTI_ACTIVITY_KIND_KERNEL", ("start", "end", "deviceId", "demangledName", "shortName")):
        if row[2] == device:
            yield _event("kernel", names.get(row[3]) or names.get(row[4], ""), row)
    for table, kind in (("MEMCPY", "gpu_memcpy"), ("MEMSET", "gpu_memset")):
        for row in _rows(base, f"CUPTI_ACTIVITY_KIND_{table}", ("start", "end", "deviceId")):
            if row[2] == device:
                yield _event(kind, table, row)


def _host(base: sqlite3.Connection, names: dict[int, str]) -> Iterator[Event]:
    for row in _rows(base, "CUPTI_ACTIVITY_KIND_RUNTIME", ("start", "end", "nameId")):
        yield _event("cuda_runtime", names.get(row[2], ""), row)
    for row in _rows(base, "NVTX_EVENTS", ("start", "end", "text", "textId", "eventType")):
        text = row[2] if isinstance(row[2], str) else names.get(row[3], "")
        if row[4] in _RANGES and row[1] is not None:
            yield _annotated(text, row)


def _annotated(text: str, row: tuple[Any, ...]) -> Event:
    """A range of the program: a step, the wait for input, or anything else that the host does."""
    if step := _STEP.match(text.strip().lstrip(":")):
        return _event("user_annotation", f"ProfilerStep#{step.group(1)}", row)
    return _event("user_annotation", "enumerate(DataLoader)" if _LOADER.search(text) else text, row)


def _event(kind: str, name: str, row: tuple[Any, ...]) -> Event:
    start, end = row[0], row[1]
    known = isinstance(start, int) and isinstance(end, int)
    return {"ph": "X", "cat": kind, "name": name, "ts": start / 1e3, "dur": (end - start) / 1e3} if known else {}


def _rows(
    base: sqlite3.Connection, table: str, columns: tuple[str, ...], distinct: bool = False
) -> Iterator[tuple[Any, ...]]:
    """Rows of a plain table, NULL for columns that this version lacks; nothing for views and what is not there."""
    plain = base.execute(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ? AND sql LIKE 'CREATE TABLE%'", (table,)
    ).fetchone()
    if not plain or not plain[0]:
        return
    present = {row[1] for row in base.execute(f'PRAGMA table_info("{table}")')}
    if columns[0] not in present:
        return
    wanted = ", ".join(f'"{column}"' if column in present else "NULL" for column in columns)
    kind = "DISTINCT " if distinct else ""
    yield from base.execute(f'SELECT {kind}{wanted} FROM "{table}" LIMIT {EVENTS}')  # noqa: S608 (names stand in this file)
