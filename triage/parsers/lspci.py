"""`lspci -vv`: what a device's link can do and what it runs at, for GPUs and network adapters.

Facts (entity pci, and node when the file says it):
    pcie.width pcie.width_cap (lanes)  pcie.speed pcie.speed_cap (GT/s)
    pcie.width_state (full; halved: half of the lanes, which a slot may be wired for; reduced: fewer than that)
A bridge's links are left out: its other end shows the same, and ports without a card show nothing of note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from triage.model.base import Value
from triage.model.bundle import Document, Window
from triage.model.event import Event, Fact, Where
from triage.model.signature import pci_address

SOURCE = "lspci"
BEFORE = AFTER = 0
LIMIT = 16 << 20  # bytes read; a node with hundreds of functions prints about one
DEVICES = 4096

_HEAD = re.compile(
    r"(?P<pci>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<kind>[A-Z0-9][^:\n\[]{2,60})(?: \[[0-9a-f]{4}\])?:"
)
_KINDS = re.compile(
    r"3D controller|VGA compatible controller|Display controller|Processing accelerators|Infiniband controller"
    r"|Ethernet controller|Network controller|Fabric controller"
)
_LINK = re.compile(
    r"\s{1,40}Lnk(?P<which>Cap|Sta):.{0,200}?Speed (?P<speed>\d{1,4}(?:\.\d{1,4})?)GT/s[^,]{0,40}, "
    r"Width x(?P<width>\d{1,2})\b"
)
_SHAPE = re.compile(rb"^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] [A-Z0-9][^\n]{5,200}\n(?:\t| {4,})", re.M)
_STATUS = re.compile(rb"^\s+Lnk(?:Cap|Sta):\s", re.M)


class Link(NamedTuple):
    """Lanes and speed, and the line that says so."""

    width: int
    speed: float
    line: int


SIGNS = (_SHAPE,)


def recognises(head: bytes, tail: bytes) -> int:
    """2 for a listing with links, 1 for one without."""
    if not _SHAPE.search(head):
        return 0
    return 2 if _STATUS.search(head) or _STATUS.search(tail) else 1


def parse(window: Window) -> Event:
    """The line at the hit: a device's head stands for itself."""
    text = window.lines[window.hit].strip()[:2000]
    where = Where(file=window.file.path, line=window.numbers[window.hit])
    return Event(where=where, text=text, body=text, source=SOURCE, node=window.file.node)


def facts(document: Document) -> Iterator[Fact]:
    """Links of all GPUs and adapters of the listing, in order."""
    lines = document.data[:LIMIT].decode("utf-8", "replace").splitlines()
    for pci, links in _devices(lines):
        able, now = links.get("Cap"), links.get("Sta")
        if able is None or now is None or not 0 < now.width <= 32:
            continue
        entity = {"pci": pci} | ({"node": document.file.node} if document.file.node else {})
        where, text = Where(file=document.file.path, line=now.line), lines[now.line - 1].strip()[:300]
        values: dict[str, Value] = {
            "width": now.width, "width_cap": able.width, "speed": now.speed, "speed_cap": able.speed,
            "width_state": _state(now.width, able.width),
        }  # fmt: skip
        for name, value in values.items():
            yield Fact(name=f"pcie.{name}", value=value, where=where, entity=dict(entity), text=text)


def _state(now: int, able: int) -> str:
    if now >= able:
        return "full"
    return "halved" if now * 2 == able else "reduced"


def _devices(lines: list[str]) -> Iterator[tuple[str, dict[str, Link]]]:
    pci, links, seen = "", dict[str, Link](), 0
    for number, line in enumerate(lines, 1):
        if found := _HEAD.match(line):
            if pci:
                yield pci, links
            seen += 1
            if seen > DEVICES:
                return
            pci, links = (pci_address(found["pci"]) if _KINDS.match(found["kind"]) else ""), {}
        elif pci and (link := _LINK.match(line)):
            links.setdefault(link["which"], Link(int(link["width"]), float(link["speed"]), number))
    if pci:
        yield pci, links
