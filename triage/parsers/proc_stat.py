"""/proc/stat as collected from a node: when it booted, which gives kernel lines that count from boot a date.

Facts: host.boot_time (Unix seconds on the node's own clock, entity {node}).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.model.bundle import Document
from triage.model.event import Fact, Where

SOURCE = "proc_stat"
_BOOT = re.compile(rb"^btime (\d{9,11})$", re.MULTILINE)
_SHAPE = re.compile(rb"^(?:ctxt|cpu|cpu0|processes|procs_running) +\d+", re.MULTILINE)
SIGNS = (_BOOT,)


def recognises(head: bytes, tail: bytes) -> int:
    """2 for a file with a boot time among other counters of /proc/stat."""
    return 2 if _BOOT.search(head) and _SHAPE.search(head) else 0


def facts(document: Document) -> Iterator[Fact]:
    """The boot time, or nothing."""
    found = _BOOT.search(document.data)
    if found is None:
        return
    line = document.data[: found.start()].count(b"\n") + 1
    entity = {"node": document.file.node} if document.file.node else {}
    where = Where(file=document.file.path, line=line)
    yield Fact(name="host.boot_time", value=int(found[1]), where=where, entity=dict(entity), text=found[0].decode())
