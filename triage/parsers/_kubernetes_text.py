"""What kubectl prints for people: `describe`, and the tables of `get pods`, `get events`, `get nodes`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.model.base import Value
from triage.model.event import Fact, Where
from triage.parsers import _kubernetes_facts
from triage.parsers._kubernetes_facts import Ended, Finder, Pod

_PHASES = {"Running", "Pending", "Succeeded", "Failed", "Unknown", "Completed", "Terminating"}
_NAME = re.compile(r"Name:\s+(?P<name>[a-z0-9][a-z0-9.-]{0,252})\s*$")
_PAIR = re.compile(r"(?P<indent> *)(?P<key>[A-Z][A-Za-z ]{1,30}):(?:\s+(?P<value>.*))?$")
_COLUMN = re.compile(r"\S+(?: \S+)*")
_HEADERS = {
    "pods": ({"NAME", "READY", "STATUS", "RESTARTS"}, "pods"),
    "events": ({"TYPE", "REASON", "MESSAGE"}, "events"),
    "nodes": ({"NAME", "STATUS", "ROLES"}, "nodes"),
}


def facts(file: str, lines: list[str]) -> Iterator[Fact]:
    """Facts of all tables and descriptions in the file."""
    yield from _tables(file, lines)
    for begin, end in _blocks(lines):
        yield from _described(file, lines, begin, end)


def _blocks(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Spans of `kubectl describe` objects: from a `Name:` at the margin to the next."""
    begins = [index for index, line in enumerate(lines) if line.startswith("Name:") and _NAME.match(line)]
    yield from zip(begins, [*begins, len(lines)][1:], strict=True)


def _here(file: str, lines: list[str], index: int) -> Finder:
    """A finder for text that was read by line: the place is known."""
    return lambda *_words: (Where(file=file, line=index + 1), lines[index].strip()[:300])


def _tables(file: str, lines: list[str]) -> Iterator[Fact]:
    columns: list[tuple[str, int]] = []
    kind = ""
    for index, line in enumerate(lines):
        header = _columns(line)
        found = next((name for need, name in _HEADERS.values() if need <= {title for title, _ in header}), "")
        if found:
            kind, columns = found, header
        elif not line.strip() or (line.strip() and not line.startswith(" ") and line.rstrip().endswith(":")):
            kind = ""
        elif kind and set(line.strip()) - {"-", " "}:
            yield from _row(kind, _cells(line, columns), _here(file, lines, index))


def _columns(line: str) -> list[tuple[str, int]]:
    """Titles and offsets of a header; kubectl aligns all rows under them."""
    if len(line) > 1000 or not re.search(r"\b(?:STATUS|REASON|Reason)\b", line):
        return []
    return [(match[0].upper(), match.start()) for match in _COLUMN.finditer(line)]


def _cells(line: str, columns: list[tuple[str, int]]) -> dict[str, str]:
    ends = [start for _, start in columns[1:]] + [len(line)]
    return {name: line[start:end].strip() for (name, start), end in zip(columns, ends, strict=True)}


def _row(kind: str, cells: dict[str, str], here: Finder) -> Iterator[Fact]:
    if kind == "events":
        yield from _event(cells, here)
    elif kind == "pods":
        status = cells["STATUS"]
        restarts = cells["RESTARTS"].split(" ")[0]
        host = cells.get("NODE", "")
        yield from _kubernetes_facts.pod(
            Pod(
                name=cells["NAME"], node=host if host not in {"", "<none>"} else None,
                phase=status if status in _PHASES else "", reason="" if status in _PHASES else status,
                restarts=int(restarts) if restarts.isdecimal() and len(restarts) < 7 else None,
            ), here,
        )  # fmt: skip
    elif kind == "nodes" and cells["STATUS"].startswith(("Ready", "NotReady")):
        ready = "True" if cells["STATUS"].startswith("Ready") else "False"
        yield from _kubernetes_facts.node(cells["NAME"], {"ready": ready}, here)


def _event(cells: dict[str, str], here: Finder) -> Iterator[Fact]:
    if cells["TYPE"] not in {"Normal", "Warning"}:
        return
    about = cells.get("OBJECT", "")
    node = about.split("/", 1)[1] if about.lower().startswith("node/") else None
    yield from _kubernetes_facts.event("", cells["REASON"], cells["MESSAGE"], node, "", here)


def _described(file: str, lines: list[str], begin: int, end: int) -> Iterator[Fact]:
    pairs = [(index, match) for index in range(begin, min(end, begin + 4000)) if (match := _PAIR.match(lines[index]))]
    top = {match["key"]: (match["value"] or "").strip() for _, match in pairs if not match["indent"]}
    name = top["Name"]
    if "Node" in top or "Service Account" in top:
        yield from _pod(file, lines, name, top, pairs)
    elif not {"Allocatable", "Taints", "Conditions"}.isdisjoint(top):
        yield from _node(file, lines, name, top, begin, end)


def _pod(
    file: str, lines: list[str], name: str, top: dict[str, str], pairs: list[tuple[int, re.Match[str]]]
) -> Iterator[Fact]:
    node = top.get("Node", "").split("/")[0]
    known = {match["key"]: index for index, match in pairs if not match["indent"]}
    found = Pod(
        name=name, node=node if node not in {"", "<none>"} else None, phase=top.get("Status", "").split(" ")[0],
        reason=top.get("Reason", ""), message=top.get("Message", ""),
    )  # fmt: skip
    place = known.get("Reason", known.get("Status", known["Name"]))
    yield from _kubernetes_facts.pod(found, _here(file, lines, place))
    for index, ended, restarts in _containers(pairs):
        bare = Pod(name="", node=found.node, restarts=restarts, containers=(ended,) if ended else ())
        yield from _kubernetes_facts.pod(bare, _here(file, lines, index))


def _containers(pairs: list[tuple[int, re.Match[str]]]) -> Iterator[tuple[int, Ended | None, int | None]]:
    """State blocks of containers, and restart counts, each with the line that is cited."""
    at, held, depth = 0, dict[str, str](), 0
    for index, match in [*pairs, (0, None)]:
        key, indent = (match["key"], len(match["indent"])) if match else ("", 0)
        value = (match["value"] or "").strip() if match else ""
        if held and indent <= depth:
            if held["State"] in {"Terminated", "Waiting"}:
                yield at, _ended(held), None
            held = {}
        if key in {"State", "Last State"} and indent:
            at, held, depth = index, {"State": value, "Last": "yes" if key == "Last State" else ""}, indent
        elif held:
            held[key] = value
            at = index if key == "Reason" else at
        elif key == "Restart Count" and value.isdecimal() and len(value) < 7:
            yield index, None, int(value)


def _ended(held: dict[str, str]) -> Ended:
    code, signal = held.get("Exit Code", ""), held.get("Signal", "")
    return Ended(
        reason=held.get("Reason", ""), exit_code=int(code) if code.isdecimal() and len(code) < 7 else None,
        signal=int(signal) if signal.isdecimal() and len(signal) < 4 else None, last=bool(held["Last"]),
    )  # fmt: skip


def _node(file: str, lines: list[str], name: str, top: dict[str, str], begin: int, end: int) -> Iterator[Fact]:
    for index in range(begin, end):
        words = lines[index].split()
        here = _here(file, lines, index)
        if words[:1] == ["Ready"] and len(words) > 2 and words[1] in {"True", "False", "Unknown"}:
            yield from _kubernetes_facts.node(name, {"ready": words[1]}, here)
        elif words[:1] and words[0].endswith("Pressure") and words[1:2] == ["True"]:
            yield from _kubernetes_facts.node(name, {"pressure": words[0]}, here)
    taint = top.get("Taints", "")
    if taint and taint != "<none>":
        values: dict[str, Value] = {"taints": [taint.split("=")[0].split(":")[0]]}
        yield from _kubernetes_facts.node(name, values, _here(file, lines, begin))
