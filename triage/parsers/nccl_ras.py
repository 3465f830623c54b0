"""NCCL RAS: what `ncclras` (or a client of port 28028) answered, as text or JSON, and lines of its monitor mode.

Facts of the answer: ras.format (text | json | monitor), ras.sampled (text of its time stamp), ras.timeouts (how many)
Facts of a communicator (entity group = its hash):
ras.comm.size, ras.comm.error (MISMATCH | INCOMPLETE | ERROR | TIMEOUT | DEAD)
ras.comm.operation      the operation whose counts differ, when the text names it
Facts of a rank in a communicator (entity rank, group, node, pid, gpu): rank counts within that communicator
ras.count               collectives launched, all kinds together (JSON), or the count that the text gives
ras.count.<operation>   of one kind (JSON)
ras.group.status, ras.group.ranks   a row of the table of communicators (text): RUNNING | INIT ...; all its ranks
ras.async_error, ras.init_state, ras.aborted    as the status says
ras.missing             unresponsive | dead | absent
Facts of a process (entity pid, node, gpu): ras.process (dead | unresponsive)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from triage.model.base import Value
from triage.model.bundle import Document
from triage.model.event import Fact
from triage.parsers._documents import Entity, Teller, integer, json_value, listing, mapping, text

SOURCE = "nccl_ras"
MEMBERS = 65_536
TEXT_LIMIT = 32 << 20
_JSON = (b'"communicators_count"', b'"missing_ranks_count"', b'"collective_counts"')
_TEXT = (b"Job summary", b"Communicators...", b"NCCL version", b"Ranks  per comm", b"RAS")
SIGNS = (re.compile(rb'_count"|_counts"|Communicators\.\.\.|PEER_DEAD:'),)
_N = r"(\d{1,18})"
_HEAD = re.compile(r"^#\d{1,9}-\d{1,9}\s+\(([0-9a-fA-F]{1,40})\)\s+([A-Z_]+)")
_UP_TO = re.compile(rf"^\s*Ranks? {_N} (?:has|have) launched up to operation {_N}(.*)$")
_NONE = re.compile(rf"^\s*Ranks? {_N} (?:has|have) not launched any operations?(.*)$")
_MANY = re.compile(rf"^\s*\d{{1,9}} ranks? (?:has|have) (?:launched up to operation {_N}|not launched any operations?)")
_LISTED = re.compile(rf"^\s*Rank {_N} -- (.*)$")
_MISSING = re.compile(r"^\s*The missing ranks?: ([\d, ]+)")
_PLACE = re.compile(rf"GPU {_N}\b[^\n]{{0,200}}?process {_N} on node (\S+)")
_PROCESS = re.compile(rf"Process {_N} on node (\S+)(?: managing GPUs? (\d{{1,9}}(?:,\d{{1,9}})*))?")
_OPERATION = re.compile(r"different (\w+) operation counts")
_TIMEOUTS = re.compile(rf"Encountered {_N} communication timeout")
_ROW = re.compile(r"^\s+(\d{1,9})\s+\d{1,9}\s+[\d-]+\s+[\d-]+\s+[\d-]+\s+([\d-]{1,19})\s+([A-Z]+)\s+([A-Z]+)\s*$")
_MONITOR = re.compile(r"^\[([^\]]{5,40})\]\s+(PEER_\w+|COMM_\w+):\s+(.*)$")


def recognises(head: bytes, tail: bytes) -> int:
    """2 for a whole answer, as JSON or text."""
    if sum(mark in head or mark in tail for mark in _JSON) >= 2:
        return 2
    return 2 if b"Communicators..." in head and b"Job summary" in head else int(b"PEER_DEAD:" in head)


def facts(document: Document) -> Iterator[Fact]:
    """Counters and states of every communicator that the answer lists."""
    teller = Teller(document)
    if document.data.lstrip()[:1] != b"{":
        yield from _text_facts(teller, document.data[:TEXT_LIMIT].decode("utf-8", "replace"))
        return
    try:
        answer = mapping(json_value(document.data))
    except ValueError as error:
        yield teller.fact("ras.unreadable", str(error)[:200])
        return
    yield from _json_facts(teller, answer)


def _json_facts(teller: Teller, answer: dict[Any, Any]) -> Iterator[Fact]:
    yield teller.fact("ras.format", "json")
    yield from teller.some({
        "ras.sampled": text(answer.get("timestamp")) or None,
        "ras.timeouts": integer(mapping(answer.get("ras")).get("timeouts_count")),
    })  # fmt: skip
    budget = MEMBERS
    for item in listing(answer.get("communicators")):
        comm = mapping(item)
        name = text(comm.get("hash")).removeprefix("0x").rjust(16, "0")
        values: dict[str, Value] = {"ras.comm.size": integer(comm.get("size"))}
        if integer(comm.get("missing_ranks_count")):
            values["ras.comm.error"] = "INCOMPLETE"
        yield from teller.about({"group": name}).some(values)
        for member in listing(comm.get("ranks"))[:budget]:
            budget -= 1
            yield from _member(teller, name, mapping(member))
        for member in listing(comm.get("missing_ranks"))[:budget]:
            budget -= 1
            yield from _absent(teller, name, mapping(member))


def _who(member: dict[Any, Any], group: str) -> Entity:
    gpu = integer(member.get("nvml_dev"))
    return {
        "group": group, "rank": integer(member.get("rank")), "node": text(member.get("host")) or None,
        "pid": integer(member.get("pid")), "gpu": integer(member.get("cuda_dev")) if gpu is None else gpu,
    }  # fmt: skip


def _member(teller: Teller, name: str, member: dict[Any, Any]) -> Iterator[Fact]:
    counts = {
        str(op)[:40]: found
        for op, count in list(mapping(member.get("collective_counts")).items())[:16]
        if (found := integer(count)) is not None
    }
    status = mapping(member.get("status"))
    values: dict[str, Value] = {f"ras.count.{op}": count for op, count in counts.items() if count}
    values["ras.count"] = sum(counts.values()) if counts else None
    values["ras.async_error"] = integer(status.get("async_error")) or None
    values["ras.init_state"] = integer(status.get("init_state")) or None
    values["ras.aborted"] = status.get("abort_flag") is True or None
    yield from teller.about(_who(member, name)).some(values)


def _absent(teller: Teller, name: str, member: dict[Any, Any]) -> Iterator[Fact]:
    status = mapping(member.get("status"))
    kind = (
        "dead" if status.get("considered_dead") is True else "unresponsive" if status.get("unresponsive") else "absent"
    )
    yield teller.about(_who(member, name)).fact("ras.missing", kind)


def _text_facts(teller: Teller, answer: str) -> Iterator[Fact]:
    monitor = [found for line in answer.splitlines()[:MEMBERS] if (found := _MONITOR.match(line.strip()))]
    if monitor:
        yield teller.fact("ras.format", "monitor")
        yield from _monitored(teller, monitor)
        return
    yield teller.fact("ras.format", "text")
    yield from _paragraphs(teller, answer.splitlines()[: 4 * MEMBERS])


def _monitored(teller: Teller, lines: list[re.Match[str]]) -> Iterator[Fact]:
    for found in lines:
        if found.group(2) == "PEER_DEAD" and (process := _process(found.group(3))):
            yield teller.about(process).fact("ras.process", "dead")


def _process(words: str) -> Entity | None:
    found = _PROCESS.search(words)
    if not found:
        return None
    gpus = found.group(3) or ""
    return {"pid": int(found.group(1)), "node": found.group(2), "gpu": int(gpus) if gpus.isdigit() else None}


def _paragraphs(teller: Teller, lines: list[str]) -> Iterator[Fact]:
    """Each `#group-comm (hash) ERROR` opens a paragraph about one communicator."""
    group: str | None = None
    common: int | None = None
    dead = False
    for line in lines:
        if row := _ROW.match(line):
            about = teller.about({"group": f"#{row.group(1)}"})
            yield about.fact("ras.group.status", row.group(3))
            if row.group(2).isdigit():
                yield about.fact("ras.group.ranks", int(row.group(2)))
            if row.group(4) != "OK":
                yield about.fact("ras.comm.error", row.group(4))
            continue
        if head := _HEAD.match(line.strip()):
            group, common = head.group(1).lower().rjust(16, "0"), None
            yield teller.about({"group": group}).fact("ras.comm.error", head.group(2))
            continue
        dead = line.strip() == "DEAD" or (dead and bool(line.strip()))
        if many := _MANY.match(line):
            common = int(many.group(1) or 0)
        yield from _detail(teller.about({"group": group}), line, common, dead)


def _detail(teller: Teller, line: str, common: int | None, dead: bool) -> Iterator[Fact]:
    """A line of a paragraph. Ranks that are listed after `N ranks have launched up to operation M` are those N."""
    if operation := _OPERATION.search(line):
        yield teller.fact("ras.comm.operation", operation.group(1))
    if up_to := _UP_TO.match(line):
        yield teller.about({"rank": int(up_to.group(1))} | _place(up_to.group(3))).fact(
            "ras.count", int(up_to.group(2))
        )
    elif none := _NONE.match(line):
        yield teller.about({"rank": int(none.group(1))} | _place(none.group(2))).fact("ras.count", 0)
    elif (listed := _LISTED.match(line)) and common is not None:
        yield teller.about({"rank": int(listed.group(1))} | _place(listed.group(2))).fact("ras.count", common)
    elif missing := _MISSING.match(line):
        for rank in missing.group(1).replace(",", " ").split()[:64]:
            if len(rank) < 10:
                yield teller.about({"rank": int(rank)}).fact("ras.missing", "absent")
    elif process := _process(line):
        yield teller.about(process).fact("ras.process", "dead" if dead else "unresponsive")
    elif timeouts := _TIMEOUTS.search(line):
        yield teller.fact("ras.timeouts", int(timeouts.group(1)))


def _place(words: str) -> Entity:
    found = _PLACE.search(words)
    return {"gpu": int(found.group(1)), "pid": int(found.group(2)), "node": found.group(3)} if found else {}
