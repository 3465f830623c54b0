"""/proc/PID/stack: where a process sleeps in the kernel. Root's reading of it; other users see it empty.

Facts, entity {rank, pid, node} as the file's name says: stack.kernel, list of functions, innermost first, each with its
module when it is in one, as `rpc_wait_bit_killable [sunrpc]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.model.base import Scalar
from triage.model.bundle import Document
from triage.model.event import Fact, Where

SOURCE = "kernel_stack"
DEPTH = 64  # the kernel prints no more
_LINE = re.compile(
    rb"^\[<[0-9a-f]{1,16}>\] (?P<name>[\w.]{1,120})\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}(?: (?P<module>\[\w{1,60}\]))?\s*$",
    re.MULTILINE,
)


def recognises(head: bytes, tail: bytes) -> int:
    """2 for a file whose first line is a frame of the kernel without a stamp; a kernel log has one."""
    return 2 if _LINE.match(head) else 0


def facts(document: Document) -> Iterator[Fact]:
    """The one stack of the file."""
    found = list(_LINE.finditer(document.data[:65536]))[:DEPTH]
    frames = [b" ".join(part for part in (each["name"], each["module"]) if part).decode() for each in found]
    if not frames:
        return
    file = document.file
    known = {"rank": file.rank, "pid": file.pid, "node": file.node}
    entity: dict[str, Scalar] = {key: value for key, value in known.items() if value is not None}
    first = found[0].group().decode().strip()
    yield Fact(name="stack.kernel", value=frames, where=Where(file=file.path, line=1), entity=entity, text=first)
