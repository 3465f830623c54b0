"""NCCL Inspector: JSON objects, one an operation, that the profiler plugin of NCCL 2.28 and later writes.

Facts, one set a communicator and rank in it, entity {group (the communicator), rank_in_group, node, pid}:
    inspector.sn      list: sequence numbers of the collectives
    inspector.us      list: how long each took on this rank, microseconds, waiting for the others included
    inspector.busbw   list: bus bandwidth of each, GB/s as the plugin reckons it
    inspector.ranks   ranks of the communicator
    inspector.coll    the operation that took most of the time
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from triage.model.base import Scalar, number
from triage.model.bundle import Document
from triage.model.event import Fact, Where
from triage.parsers._documents import inflated, integer, mapping, text

SOURCE = "nccl_inspector"
OPERATIONS = 200_000  # of one communicator and rank
OBJECTS = 5_000_000  # of one file
_FORM = re.compile(rb'"inspector_output_format_version"|"coll_exec_time_us"')
_SPACE = re.compile(r"[\s,]*")


@dataclass
class Member:
    """One rank of one communicator in one process."""

    ranks: int | None
    line: int
    rows: list[tuple[int, float, float]] = field(default_factory=list)
    spent: Counter[str] = field(default_factory=Counter)


def recognises(head: bytes, tail: bytes) -> int:
    """2 for objects of the plugin."""
    return 2 if head.lstrip()[:1] in (b"{", b"[") and _FORM.search(head) else 0


def facts(document: Document) -> Iterator[Fact]:
    """The collectives of the process, by communicator."""
    members: dict[tuple[Scalar, ...], Member] = {}
    for tree, line in _objects(inflated(document.data).decode("utf-8", "replace")):
        _take(members, tree, line, document.file.node)
    for (group, rank, node, pid), member in members.items():
        known: dict[str, Scalar] = {"group": group, "rank_in_group": rank, "node": node, "pid": pid}
        entity: dict[str, Scalar] = {key: value for key, value in known.items() if value is not None}
        where = Where(file=document.file.path, line=member.line)
        rows = sorted(member.rows)
        values: dict[str, Any] = {
            "inspector.sn": [row[0] for row in rows], "inspector.us": [row[1] for row in rows],
            "inspector.busbw": [row[2] for row in rows], "inspector.ranks": member.ranks,
            "inspector.coll": member.spent.most_common(1)[0][0],
        }  # fmt: skip
        yield from (Fact(name=n, value=v, where=where, entity=entity) for n, v in values.items() if v is not None)


def _objects(whole: str) -> Iterator[tuple[dict[Any, Any], int]]:
    """Objects one after the other, on a line each or on several; what is cut at the end is left out."""
    decoder, at, line, seen = json.JSONDecoder(), 0, 1, 0
    for _ in range(OBJECTS):
        start = whole.find("{", at)
        if start < 0:
            return
        line, seen = line + whole.count("\n", seen, start), start
        try:
            tree, at = decoder.raw_decode(whole, start)
        except (ValueError, RecursionError):
            end = whole.find("\n", start)
            if end < 0:
                return
            at = end
            continue
        yield mapping(tree), line


def _take(members: dict[tuple[Scalar, ...], Member], tree: dict[Any, Any], line: int, node: str | None) -> None:
    header, meta, done = (mapping(tree.get(key)) for key in ("header", "metadata", "coll_perf"))
    sn, took = integer(done.get("coll_sn")), number(done.get("coll_exec_time_us"))
    group, rank = text(header.get("id"), 64), integer(header.get("rank"))
    if sn is None or took is None or took <= 0 or rank is None or not group:
        return
    key = (group, rank, text(meta.get("hostname"), 120) or node, integer(meta.get("pid")))
    member = members.setdefault(key, Member(integer(header.get("n_ranks")), line))
    if len(member.rows) < OPERATIONS:
        member.rows.append((sn, took, number(done.get("coll_busbw_gbs")) or 0.0))
        member.spent[text(done.get("coll"), 40) or "collective"] += int(took)
