"""Bandwidth between pairs: nvbandwidth and p2pBandwidthLatencyTest matrices, nccl-tests on two, `triage check`'s JSON.

Facts: pair.gbs (GB/s), entity {gpu, peer} for two GPUs of a host (with {node} when the file says it), or {node, peer}
for two nodes; `group` is the measurement that makes them comparable. A direction each, from the first to the peer;
where a tool measures both together the two have the same figure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from triage.model.base import Scalar, number
from triage.model.bundle import Document
from triage.model.event import Fact, Where
from triage.parsers._documents import json_value, listing, mapping, text

SOURCE = "pair_bandwidth"
LIMIT = 32 << 20  # bytes read of one file
WIDEST = 1024  # columns of a matrix
MOST = 600_000  # pairs of one file: 768 endpoints with each other
_TITLE = re.compile(
    r"^(?P<what>[^\n]{0,80}GPU\(row\) (?P<way>->|<-|<->) GPU\(column\) (?:total )?bandwidth"
    r"|[^\n]{0,60}P2P=Enabled[^\n]{0,60} Matrix) \(GB/s\)"
)
_ROW = re.compile(r"^\s*(?P<row>\d{1,4})\s+(?P<cells>(?:(?:N/A|\d{1,7}(?:\.\d{1,6})?)\s*){2,})$")
_RUNNING = re.compile(r"^Running (?P<test>\w{1,80})\.\s*$")
_DEVICE = re.compile(r"^#\s+Rank\s+\d{1,6} .{0,60}? on\s+(?P<host>\S{1,120}) device\s+(?P<gpu>\d{1,3}) ")
_AVERAGE = re.compile(r"# Avg bus bandwidth +: (?P<rate>\d{1,9}(?:\.\d{1,9})?)")
_SET = re.compile(r"^\s{0,8}(?P<rate>\d{1,7}\.\d\d) GB/s  (?P<hosts>\S{1,120} \S{1,120})\s*$")
_ON = re.compile(r"(?P<kind>gpu )?(?P<one>\S{1,120}) (?:>|\+) (?:gpu )?(?P<two>\S{1,120})")
_CHECK = re.compile(rb'\s*\{\s*"schema":\s*"triage\.check/')
_KNOWN = re.compile(
    rb"GPU\(row\) (?:->|<-|<->) GPU\(column\) |P2P=Enabled[^\n]{0,60} Matrix \(GB/s\)"
    rb"|^\s{0,8}\d{1,7}\.\d\d GB/s  \S+ \S+\s*$",
    re.MULTILINE,
)
SIGNS = (_CHECK, _KNOWN, re.compile(rb"# Avg bus bandwidth"))


class Pair(NamedTuple):
    """One figure: the measurement, from whom to whom, GB/s, the line."""

    group: str
    one: Scalar
    two: Scalar
    rate: float
    line: int


def recognises(head: bytes, tail: bytes) -> int:
    """2 for a matrix, a listing of pairs or the JSON of `triage check`; 1 for nccl-tests, which may be of two."""
    if _CHECK.match(head) or _KNOWN.search(head):
        return 2
    return 1 if b"# Avg bus bandwidth" in tail and b" on " in head and b" device " in head else 0


def facts(document: Document) -> Iterator[Fact]:
    """All pairs of the file."""
    data = document.data[:LIMIT]
    pairs = _of_check(data) if _CHECK.match(data) else _of_text(data.decode("utf-8", "replace").splitlines())
    for count, pair in enumerate(pairs):
        if count >= MOST:
            return
        key = "gpu" if isinstance(pair.one, int) else "node"
        own = document.file.node if key == "gpu" else None
        entity: dict[str, Scalar] = {key: pair.one, "peer": pair.two, "group": pair.group} | (
            {"node": own} if own else {}
        )
        where = (
            Where(file=document.file.path, line=pair.line)
            if pair.line
            else Where(file=document.file.path, at=pair.group)
        )
        yield Fact(name="pair.gbs", value=pair.rate, where=where, entity=entity)


def _of_check(data: bytes) -> Iterator[Pair]:
    """Figures on two things. A measurement over both directions counts for both. Raises ValueError when it is cut."""
    for stage in map(mapping, listing(mapping(json_value(data)).get("stages"))):
        for figure in map(mapping, listing(stage.get("figures"))):
            found, rate = _ON.fullmatch(text(figure.get("on"))), number(figure.get("value"))
            if found and rate is not None and figure.get("unit") == "GB/s":
                name = text(figure.get("name"))
                ends: list[Scalar] = [
                    int(each) if found["kind"] and each.isdigit() else each for each in found.group("one", "two")
                ]
                yield Pair(name, ends[0], ends[1], rate, 0)
                if "+" in text(figure.get("on")):
                    yield Pair(name, ends[1], ends[0], rate, 0)


def _of_text(lines: Sequence[str]) -> Iterator[Pair]:
    test = ""
    devices: list[tuple[str, int]] = []
    for index, line in enumerate(lines):
        if len(line) > 1000:
            continue
        if found := _RUNNING.match(line):
            test = found["test"]
        elif found := _TITLE.match(line):
            yield from _matrix(lines, index, test or found["what"].strip(), found["way"] == "<-")
        elif found := _DEVICE.match(line):
            devices.append((found["host"], int(found["gpu"])))
        elif (found := _AVERAGE.match(line)) and len(devices) == 2:
            yield from _both("nccl-tests", devices, float(found["rate"]), index + 1)
            devices = []
        elif found := _SET.match(line):
            one, two = found["hosts"].split()
            yield from _both("pairs of nodes", [(one, 0), (two, 0)], float(found["rate"]), index + 1)


def _both(group: str, ends: list[tuple[str, int]], rate: float, line: int) -> Iterator[Pair]:
    """What was measured with both ends at work counts for both directions."""
    (one, first), (two, second) = ends
    names: tuple[Scalar, Scalar] = (first, second) if one == two else (one, two)
    if names[0] != names[1]:
        group = f"{group} on {one}" if one == two else group
        yield Pair(group, names[0], names[1], rate, line)
        yield Pair(group, names[1], names[0], rate, line)


def _matrix(lines: Sequence[str], title: int, test: str, reversed_: bool) -> Iterator[Pair]:
    """The rows below a title; the first line between has the columns' numbers."""
    for row, line in enumerate(lines[title + 2 : title + 2 + WIDEST]):
        found = _ROW.match(line[: 16 * WIDEST])
        if found is None or int(found["row"]) != row:
            return
        for column, cell in enumerate(found["cells"].split()):
            rate = number(cell)
            if column != row and rate is not None and rate > 0:
                yield Pair(test, *((column, row) if reversed_ else (row, column)), rate, title + 3 + row)
