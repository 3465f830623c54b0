"""What launchers, schedulers and log shippers put before a line: who printed it.

Prefixes nest (`kubectl logs` over `srun -l` over torchrun over a Python logger), so they are taken off one by one until
none is left. The innermost one that names a rank wins, because the process itself knows best.
"""

from __future__ import annotations

import re
from functools import lru_cache

from triage.model.base import Record
from triage.parsers import _stamps

_DEPTH = 6  # prefixes on one line; more than four have not been seen
_HEAD = 240  # characters of a line in which all its prefixes end


class Prefix(Record, frozen=True, kw_only=True):
    """Who printed a line.

    rank: global rank, when a prefix names it. local_rank: `[default3]:` and other torchrun role prefixes.
    task: number of a launcher's task (`srun -l`): the rank, or only the node's number when each task is a torchrun.
    node: host or pod. pid: process. start: offset of `rest` in the line. rest: the line without all that.
    """

    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    node: str | None = None
    pid: int | None = None
    start: int = 0
    rest: str = ""

    @property
    def owner(self) -> tuple[int | None, int | None, int | None, str | None, int | None]:
        """Key of the process that printed the line: lines of one message share it."""
        return (self.rank, self.local_rank, self.task, self.node, self.pid)


# Words that look like a host before `: ` but are not one.
_NO_HOST = (
    r"(?!(?:rank|gpu|cuda|cpu|step|epoch|iter|stage|layer|loss|top|acc|fold|line|python|torch|https?|mlx|eth|ib|nvme|sd|xid"
    r"|test|train|val|exp|seed|param|device|block|pass|phase|shard|bucket|group|level|attempt|frame|chunk|batch|sample|expert"
    r"|head|Exit|Error|Signal|Exception|Channel|v)[-_.]?\d)"
    r"(?![\w.]{1,120}(?:Error|Exception|Warning|Interrupt|Exit): )"  # `sqlite3.OperationalError: `
)
_CONTAINERS = (
    r"(?:pytorch|tensorflow|main|worker|master|launcher|trainer|training|train|head|node|torch|app|mpi|job|container"
    r"|ray-(?:worker|head)|[a-z0-9-]+-(?:worker|trainer|container|main))"
)

# Each takes one prefix off the head; the named groups say what it names.
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("[", re.compile(r"\[rank ?(?P<rank>\d{1,6})\](?::\s?|\s)")),
    ("[a#", re.compile(r"(?:[0-9a-f]{8} )?\[rank=(?P<rank>\d{1,6})\] \|\| ?")),
    ("[", re.compile(r"\[(?:[^\]\s,]{0,80}[,@ ])?(?:\d{1,9},)?(?P<rank>\d{1,6})\]<std(?:out|err|diag)>:?\s?")),
    (
        "[",
        re.compile(r"\[\d{1,3},mpirank:(?P<rank>\d{1,6}),(?P<node>algo-\d{1,4})\]<std(?:out|err|diag)>:?\s?"),
    ),  # SageMaker
    ("[", re.compile(r"\[pod/(?P<node>[\w.-]{1,120})/[\w.-]{1,80}\]\s?")),
    ("[", re.compile(r"\[(?:node|host)[-_ ]?(?:[\w.-]*?)(?P<task>\d{1,5})\]:\s?")),
    ("[", re.compile(r"\[[A-Za-z][\w-]{0,40}?(?P<local_rank>\d{1,3})(?:\|(?P<rank>\d{1,6}))?\]:\s?")),
    ("(", re.compile(r"\((?P<inside>[^()\n]{0,160}?\b(?:pid|rank)=\d+[^()\n]{0,120})\)\s?")),
    ("(", re.compile(r"\((?:raylet|autoscaler|gcs_server|dashboard|scheduler [^()]{0,60})\)\s")),
    (
        ">",
        re.compile(r"> (?=Traceback \(| {2,}\S|(?:\w{1,60}\.){0,6}\w{0,60}(?:Error|Exception)\b)"),
    ),  # quoted traceback
    ("s", re.compile(r"std(?:out|err) [FP] ")),
    ("#", re.compile(r"(?P<task>\d{1,5}): ?(?=\D|\d{4}-|$)")),
    ("#", re.compile(r"(?P<node>\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}): ")),
    ("a", re.compile(r"[Rr]ank[ _]?(?P<rank>\d{1,6}): (?=\[|Traceback|\s+File )")),
    ("a", re.compile(rf"{_NO_HOST}(?P<node>[A-Za-z][\w-]{{0,62}}\d[\w-]{{0,40}}(?:\.[A-Za-z][\w-]{{0,40}}){{0,6}}): ")),
    ("a", re.compile(rf"{_NO_HOST}(?P<node>[a-z][a-z0-9-]{{1,80}}\d[a-z0-9-]{{0,30}})\s+\|\s")),
    ("a", re.compile(rf"(?P<node>[a-z][a-z0-9]*-[a-z0-9-]{{0,90}}\d[a-z0-9-]{{0,20}}) {_CONTAINERS} (?=\S)")),
    ("a", re.compile(r"(?P<node>[A-Za-z][\w.-]{1,80}) (?!kernel)[\w./-]{1,60}\[(?P<pid>\d{1,9})\]: ")),
)
_NUMBERS = ("rank", "local_rank", "task", "pid")
_INSIDE = re.compile(r"\b(?P<key>rank|local_rank|pid|ip|host|node)=(?P<value>[\w.:-]+)")
_BLANKS = re.compile(r"(?:> ?){0,3} {0,8}(?=[\d\[(])")  # `> `: a log quoted in a mail or an issue


@lru_cache(maxsize=8192)
def split(line: str) -> Prefix:
    """Take the prefixes off a line. A stamp before a prefix goes too; one that belongs to the message stays."""
    found: dict[str, int | str] = {}
    at = 0
    for _ in range(_DEPTH):
        step = _take(line, at, found)
        if step == at:
            break
        at = step
    return Prefix(start=at, rest=line[at:], **found)  # type: ignore[arg-type]


def _take(line: str, at: int, found: dict[str, int | str]) -> int:
    """Offset behind the next prefix (and a stamp before it), or `at` when there is none."""
    match = _match(line, at)
    if match is None:
        _, used = _stamps.find(line[at : at + _HEAD])
        if not used:
            return at
        behind = at + used
        behind += line.startswith(": ", behind)  # some shippers write `2021-03-10T13:22:37.443Z: `
        behind += len(line[behind:]) - len(line[behind:].lstrip(" \t"))
        match = _match(line, behind)
    if match is None:
        return at
    _note(match, found)
    return match.end()


def _match(line: str, at: int) -> re.Match[str] | None:
    blanks = _BLANKS.match(line, at)
    begin = blanks.end() if blanks else at
    first = line[begin : begin + 1]
    kind = "#" if first.isdigit() else first if first in "[(>" else "a"
    for key, form in _FORMS:
        if (kind in key or (key == "s" and first == "s")) and (match := form.match(line, begin, at + _HEAD)):
            return match
    return None


def _note(match: re.Match[str], found: dict[str, int | str]) -> None:
    groups = {key: text for key, text in match.groupdict().items() if text}
    for inner in _INSIDE.finditer(groups.pop("inside", "")):
        key = {"ip": "node", "host": "node"}.get(inner["key"], inner["key"])
        groups.setdefault(key, inner["value"])
    for key, text in groups.items():
        if key not in _NUMBERS:
            found[key] = text
        elif text.isdigit():
            found[key] = int(text)
