"""Reading whole documents of evidence without trusting them: JSON with a size cap, numbers, ranks from file names."""

from __future__ import annotations

import copy
import re
import zlib
from collections.abc import Iterator
from typing import Any

from triage.model import json_text
from triage.model.base import Scalar, Value, number
from triage.model.bundle import Document, File
from triage.model.event import Fact, Where

JSON_LIMIT = 512 << 20  # bytes; json.loads needs about eight times its input
INFLATE_LIMIT = 512 << 20  # bytes out of one gzip member: a bomb stops here
Entity = dict[str, Scalar]
_RANK = re.compile(r"(?:rank|dump|trace)[_.\-]?0*(\d{1,7})(?:\.[A-Za-z]\w*)*$|[_.\-]0*(\d{1,7})$", re.IGNORECASE)


def rank_of(file: File) -> int | None:
    """The rank that the file is of: what the bundle found, else the last number of its name."""
    if file.rank is not None:
        return file.rank
    found = _RANK.search(file.path.rsplit("/", 1)[-1])
    return int(found.group(1) or found.group(2)) if found else None


def inflated(data: bytes) -> bytes:
    """The data, decompressed when it is still gzip; what was got so far when it is cut or too large."""
    if data[:2] != b"\x1f\x8b":
        return data
    stream = zlib.decompressobj(wbits=31)
    try:
        return stream.decompress(data, INFLATE_LIMIT)
    except zlib.error:
        return b""


def json_value(data: bytes) -> Any:
    """The JSON document. Raises ValueError with the reason (cut, too large, too deep, no JSON)."""
    if len(data) > JSON_LIMIT:
        raise ValueError(f"larger than {JSON_LIMIT >> 20} MiB")
    try:
        return json_text.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except MemoryError as error:
        raise ValueError("too large for memory") from error
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error


def integer(value: Any) -> int | None:
    """A whole number below 2**63 in size, given as one or as text; None for everything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 1 << 63 else None
    found = number(value)
    return int(found) if found is not None and abs(found) < 1 << 63 else None


def mapping(value: Any) -> dict[Any, Any]:
    """The value when it is a dictionary, else an empty one."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """The value as a list when it is a list or tuple, else an empty one."""
    return list(value) if isinstance(value, (list, tuple)) else []


def text(value: Any, limit: int = 200) -> str:
    """A short string of a string; empty for everything else."""
    return value[:limit] if isinstance(value, str) else ""


class Teller:
    """Makes the facts of one document."""

    def __init__(self, document: Document, entity: Entity | None = None, at: str | None = None) -> None:
        self.where = Where(file=document.file.path, at=at)
        self.entity: Entity = {key: value for key, value in (entity or {}).items() if value is not None}

    def about(self, entity: Entity, at: str | None = None) -> Teller:
        """A teller for something within the document: its entity widened by `entity`."""
        narrower = copy.copy(self)
        narrower.entity = self.entity | {key: value for key, value in entity.items() if value is not None}
        narrower.where = Where(file=self.where.file, at=at or self.where.at)
        return narrower

    def fact(self, name: str, value: Value) -> Fact:
        """One fact."""
        return Fact(name=name, value=value, where=self.where, entity=self.entity)

    def some(self, values: dict[str, Value]) -> Iterator[Fact]:
        """One fact for each value that is known."""
        for name, value in values.items():
            if value is not None:
                yield self.fact(name, value)
