"""`ps` with the kernel function in which each process sleeps (`wchan`), as collected from a node without root.

Facts, entity {pid, node}: stack.kernel, a list with that one function, of Python processes that sleep. `kernel_stack`
tells more of the same, where it could be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.model.base import Scalar
from triage.model.bundle import Document
from triage.model.event import Fact, Where

SOURCE = "process_list"
LINES = 200_000
MOST = 4096  # processes told
_HEAD = re.compile(rb"^\s{0,20}PID\s[^\n]{0,200}\sSTAT\s+WCHAN\s", re.MULTILINE)
SIGNS = (_HEAD,)
_PYTHON = re.compile(r"(?:^|[ /])(?:python[\d.]{0,6}|pt_main_thread|torchrun)(?:\s|$)")
_NOWHERE = frozenset({"-", "0", "*"})  # it runs, or the name may not be read


def recognises(head: bytes, tail: bytes) -> int:
    """2 for a table that has the columns."""
    return 2 if _HEAD.search(head[:4096]) else 0


def facts(document: Document) -> Iterator[Fact]:
    """Where the Python processes of the node sleep."""
    lines = document.data.decode("utf-8", "replace").split("\n", LINES)
    at = next((index for index, line in enumerate(lines[:50]) if _HEAD.match(line.encode())), None)
    if at is None:
        return
    columns, told = lines[at].split(), 0
    pid, wchan = columns.index("PID"), columns.index("WCHAN")
    for number, line in enumerate(lines[at + 1 :], start=at + 2):
        cells = line[:4000].split(None, len(columns) + 4)  # the time of the start has five words
        if len(cells) <= max(pid, wchan) or not cells[pid].isdigit() or cells[wchan] in _NOWHERE:
            continue
        if _PYTHON.search(line[:4000]) and told < MOST:
            told += 1
            node = document.file.node
            entity: dict[str, Scalar] = {"pid": int(cells[pid][:12])} | ({"node": node} if node else {})
            where = Where(file=document.file.path, line=number)
            yield Fact(name="stack.kernel", value=[cells[wchan]], where=where, entity=entity, text=line.strip()[:300])
