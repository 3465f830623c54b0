"""The records of a flight recorder dump, read with little: what is looked at once in a dump stays undecoded.

A dump of 2,000 records holds a hundred thousand small objects, most of them stack frames and sizes of operations that
are over. They are decoded when they are asked for (`Entry.rare`), and frames of what is over do not leave the child.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from triage.model.bundle import Document, Rows
from triage.parsers._documents import json_value, listing

ENTRIES = 200_000  # records read of one dump; the default buffer holds 2,000
RARE = ("input_sizes", "input_dtypes", "output_sizes", "frames")
_KEYS = frozenset({"entries", "pg_config", "pg_status", "version"})


_packed = msgspec.msgpack.Decoder(strict=False)


def _told(decode: Callable[[msgspec.Raw], Any], raw: msgspec.Raw) -> Any:
    """None where nothing stands, or nothing that can be read."""
    try:
        return decode(raw) if raw else None
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        return None


class Entry(msgspec.Struct, gc=False):
    """One record as JSON has it: absent and null are both None. Nothing in it is of a known type."""

    pg_id: Any = None
    process_group: Any = None
    record_id: Any = None
    collective_seq_id: Any = None
    p2p_seq_id: Any = None
    seq_id: Any = None
    op_id: Any = None
    profiling_name: Any = None
    time_created_ns: Any = None
    time_created_us: Any = None
    time_discovered_completed_ns: Any = None
    state: Any = None
    retired: Any = None
    is_p2p: Any = None
    input_sizes: msgspec.Raw = msgspec.Raw()
    input_dtypes: msgspec.Raw = msgspec.Raw()
    output_sizes: msgspec.Raw = msgspec.Raw()
    frames: msgspec.Raw = msgspec.Raw()

    def rare(self, name: str) -> Any:
        """The value of one of RARE."""
        return _told(msgspec.json.decode, getattr(self, name))


class Row(Entry, array_like=True, gc=False):
    """One record as the unpickling child gives it: values alone, in MessagePack, those of RARE last."""

    def rare(self, name: str) -> Any:
        """The value of one of RARE."""
        return _told(_packed.decode, getattr(self, name))


class Dump(msgspec.Struct):
    """version, pg_config, pg_status: as they stand there; UNSET is absent."""

    version: Any = msgspec.UNSET
    pg_config: Any = None
    pg_status: Any = None
    entries: list[Entry] | None = None


# Frames last: the child leaves them out of what is over, and a shorter row ends with defaults.
WANTED = Rows(of="entries", columns=Entry.__struct_fields__[:-1], rare=("frames",), unless=("state", "completed"))
_json_dump = msgspec.json.Decoder(Dump)
_json_list = msgspec.json.Decoder(list[Entry])


def load(document: Document) -> Dump:
    """The dump. Raises ValueError with the reason."""
    data = document.data
    if data[:1] != b"\x80":
        return _of_json(data)
    if document.unpickle_rows is None:
        return _of_plain(document.unpickle(data))
    rest, rows = document.unpickle_rows(data, WANTED, Row)
    return _of_parts(rest, rows)


def _of_json(data: bytes) -> Dump:
    """Typed, which skips what is not wanted; else as any JSON, which Python writes with NaN, too."""
    try:
        if data.lstrip()[:1] == b"[":
            return Dump(entries=_json_list.decode(data)[-ENTRIES:])
        dump = _json_dump.decode(data)
        if dump.entries is not None:
            return msgspec.structs.replace(dump, entries=dump.entries[-ENTRIES:])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    return _of_plain(json_value(data))


def _of_plain(raw: Any) -> Dump:
    """Of whatever stood there."""
    if isinstance(raw, (list, tuple)):  # torch 2.2 wrote the entries alone
        raw = {"entries": list(raw)}
    entries = listing(raw.get("entries")) if isinstance(raw, dict) else []
    return _of_parts(raw, [_row(item) for item in entries[-ENTRIES:] if isinstance(item, dict)])


def _of_parts(rest: Any, rows: list[Row]) -> Dump:
    if not isinstance(rest, dict) or not _KEYS & set(rest):
        raise ValueError("no flight recorder dump")
    known = {key: rest[key] for key in ("version", "pg_config", "pg_status") if key in rest}
    return Dump(entries=[*rows[-ENTRIES:]], **known)


def _row(item: dict[Any, Any]) -> Row:
    wanted = {name: item[name] for name in Entry.__struct_fields__ if name in item}
    for name in RARE:
        if name in wanted:
            wanted[name] = _raw(wanted[name])
    return Row(**wanted)


def _raw(value: Any) -> msgspec.Raw:
    try:
        return msgspec.Raw(msgspec.msgpack.encode(value))
    except (OverflowError, TypeError, RecursionError):  # a number beyond 64 bits, a list a thousand deep
        return msgspec.Raw()
