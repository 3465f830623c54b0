"""Nsight Systems exports (`nsys export --type sqlite`), read without trusting them; the report itself is a gap.

Facts of a device (entity gpu; rank when the file's name says): those of kineto, `profile.*`. A step is an NVTX range
whose text says so (`step 12`, `iteration 12`, `ProfilerStep#12`); without any the profiled time is one window.
profile.source     nsys
profile.unreadable why nothing was read
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from triage.model.bundle import Document
from triage.model.event import Fact
from triage.parsers._documents import Teller, rank_of
from triage.parsers._profile import Profile

SOURCE = "nsys"
MAGIC = (b"SQLite format 3\0",)
STREAMED = True
EVENTS = 8_000_000  # rows of one table; each takes up to 56 bytes
BLOCK = 1 << 20  # bytes copied at once
OPERATIONS = 20_000_000  # units of SQLite's work between two looks, times LOOKS: a crafted file ends here
LOOKS = 200
DEVICES = 16
_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_MAGIC = b"SQLite format 3\0"
_TABLES = (b"CUPTI_ACTIVITY_KIND_", b"TARGET_INFO_", b"META_DATA_EXPORT", b"NVTX_EVENTS", b"StringIds")
_STEP = re.compile(
    r"^(?:train(?:ing)?[ _])?(?:step|iter(?:ation)?|ProfilerStep)\s{0,2}[#:_ ]?\s{0,2}(\d{1,9})$", re.IGNORECASE
)
_LOADER = re.compile(
    r"data[ _-]?load|DataLoader|next[ _]batch|get[ _]batch|data[ _]wait|batch[ _-]generator", re.IGNORECASE
)
_RANGES = (59, 60, 75, 34, 33)  # NVTX push-pop, start-end and their extended kinds


def recognises(head: bytes, tail: bytes) -> int:
    """2 for an SQLite file with the tables of an export, and for a report that was not exported."""
    if head.startswith(_MAGIC):
        return 2 if any(table in head or table in tail for table in _TABLES) else 0
    return 2 if head.startswith(b"QDSTRM") or b"nsys-rep" in head[:512] else 0


def facts(document: Document) -> Iterator[Fact]:
    """The profile of each device. Raises ValueError for a report that was not exported: that is a gap."""
    stream = document.stream or io.BytesIO(document.data)
    if (head := stream.read(len(_MAGIC))) != _MAGIC:
        raise ValueError("a report of Nsight Systems: nsys export --type sqlite makes a file that can be read")
    teller = Teller(document, {"rank": rank_of(document.file)})
    try:
        with _opened(head, stream) as base:
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
def _opened(head: bytes, stream: IO[bytes]) -> Iterator[sqlite3.Connection]:
    """A connection that can neither write nor run for ever."""
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
        file.write(head)
        shutil.copyfileobj(stream, file, BLOCK)
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
    """A profile of each device that ran kernels, or, when none did, copied; what the host did is in all of them."""
    names = _names(base)
    host = _host(base, names)
    found = {device: Profile() for device in _devices(base)}
    for table, kind in (("KERNEL", "kernel"), ("MEMCPY", "gpu_memcpy"), ("MEMSET", "gpu_memset")):
        named = ("demangledName", "shortName") if kind == "kernel" else ()
        for start, end, device, *keys in _timed(base, _ACTIVITY + table, ("start", "end", "deviceId", *named)):
            if device in found:
                name = next((names[key] for key in keys if key in names), "")
                found[device].add(kind, name, start / 1e3, end / 1e3)
    for profile in found.values():
        profile.share(host)
    return found


def _devices(base: sqlite3.Connection) -> list[int]:
    for table in ("KERNEL", "MEMCPY"):
        rows = _rows(base, _ACTIVITY + table, ("deviceId",), distinct=True)
        if devices := sorted(device for (device,) in rows if isinstance(device, int)):
            return devices[:DEVICES]
    return []


def _names(base: sqlite3.Connection) -> dict[int, str]:
    return {int(key): str(value) for key, value in _rows(base, "StringIds", ("id", "value")) if isinstance(key, int)}


def _host(base: sqlite3.Connection, names: dict[int, str]) -> Profile:
    found = Profile()
    for start, end, key in _timed(base, _ACTIVITY + "RUNTIME", ("start", "end", "nameId")):
        found.add("cuda_runtime", names.get(key, ""), start / 1e3, end / 1e3)
    for start, end, told, key, kind in _timed(base, "NVTX_EVENTS", ("start", "end", "text", "textId", "eventType")):
        if kind in _RANGES:
            name = told if isinstance(told, str) else names.get(key, "")
            found.add("user_annotation", _annotated(name), start / 1e3, end / 1e3)
    return found


def _annotated(text: str) -> str:
    """A range of the program, as Kineto would name it: a step, the wait for input, or anything else."""
    if step := _STEP.match(text.strip().lstrip(":")):
        return f"ProfilerStep#{step.group(1)}"
    return "enumerate(DataLoader)" if _LOADER.search(text) else text


def _timed(base: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """Rows whose first two values are a start and an end."""
    for row in _rows(base, table, columns):
        if isinstance(row[0], int) and isinstance(row[1], int) and row[1] >= row[0]:
            yield row


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
