"""Where a rank's main thread stands: what it is at (a collective, input, a checkpoint ...), and what it sleeps on.

What it is at is told by the innermost frame of a library that is known for one kind of work; only without such a frame
by one that says how it waits (a lock, another process). What it sleeps on is told by the kernel, when its stack is
there.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections import defaultdict
from dataclasses import dataclass

from triage.analysis._frames import SLEEP, WAYS, WORK, kind
from triage.model.base import Scalar
from triage.model.event import Fact, Where
from triage.model.incident import Incident

NEAR = 6  # innermost frames in which a native call says what the thread waits for
_LIBRARY = re.compile(r"^.{0,300}?(?:site-packages|dist-packages|python3\.\d{1,2})/(?!site-packages|dist-packages)")
_IDLE = re.compile(r"multiprocessing/(?:queues|connection|synchronize)\.py")  # an empty queue
_CALL = re.compile(r"(?P<name>.{0,300}?) \((?P<file>[^()]{1,400}?)(?::(?P<line>\d{1,8}))?\)")


@dataclass(frozen=True)
class Stand:
    """One rank in one dump. at: what it is at, or `code`; on: what it sleeps on in the kernel, or None when not known.

    frame: the frame that tells it; user: the innermost frame of the program's own, where there is one.
    """

    rank: int | None
    pid: Scalar
    where: Where
    at: str
    on: str | None
    frame: str
    user: str
    way: tuple[tuple[str, str], ...]
    worker: str = ""

    @property
    def waits(self) -> bool:
        """Does it stand where one waits for other ranks?"""
        return self.at in ("collective", "device")


def stands(incident: Incident) -> list[Stand]:
    """All main threads of all dumps, in the order of the evidence."""
    lines = {_key(fact): fact.value for fact in incident.facts if fact.name == "stack.lines"}
    kernel, workers = _kernel(incident), _workers(incident)
    ranks = _ranks(incident)
    found = []
    for fact in incident.facts:
        if fact.name == "stack.frames" and isinstance(fact.value, list) and fact.value:
            rank, numbers = _rank(fact, ranks), lines.get(_key(fact))
            on = kernel.get((rank, fact.entity.get("pid")))
            stand = _stand(fact, rank, numbers if isinstance(numbers, list) else [], on)
            worker = workers.get(stand.rank, "") if stand.at == "input" and stand.rank is not None else ""
            found.append(dataclasses.replace(stand, worker=worker))
    return found


def _workers(incident: Incident) -> dict[int, str]:
    """By rank the innermost frame of a loader worker that does not itself wait for work."""
    found: dict[int, str] = {}
    for fact in incident.facts:
        rank = fact.entity.get("rank")
        if fact.name == "stack.worker" and isinstance(rank, int) and isinstance(fact.value, list) and fact.value:
            frames = [short(str(each)) for each in fact.value]
            if not any(_IDLE.search(frame) for frame in frames[:NEAR]):
                found[rank] = f"process {fact.entity.get('pid')}, {frames[0]}"
    return found


def _key(fact: Fact) -> tuple[object, ...]:
    return (fact.where.file, fact.where.line, fact.entity.get("pid"))


def _ranks(incident: Incident) -> dict[Scalar, int | None]:
    """Rank by process; None where a number is of several."""
    found: dict[Scalar, int | None] = {}
    for rank in incident.ranks.values():
        if rank.pid is not None:
            found[rank.pid] = None if rank.pid in found else rank.rank
    return found


def _rank(fact: Fact, ranks: dict[Scalar, int | None]) -> int | None:
    rank, pid = fact.entity.get("rank"), fact.entity.get("pid")
    return rank if isinstance(rank, int) else ranks.get(pid) if pid is not None else None


def _kernel(incident: Incident) -> dict[tuple[int | None, Scalar], str]:
    """What each process sleeps on, by rank and pid; a whole stack before the one function that `ps` shows."""
    owners = {
        (fact.entity.get("node"), fact.entity.get("pid")): fact.entity.get("rank")
        for fact in incident.facts
        if fact.name == "stack.frames" and fact.entity.get("pid") is not None
    }
    found: dict[tuple[int | None, Scalar], str] = {}
    told = [fact for fact in incident.facts if fact.name == "stack.kernel" and isinstance(fact.value, list)]
    for fact in sorted(told, key=lambda fact: -len(fact.value) if isinstance(fact.value, list) else 0):
        pid = fact.entity.get("pid")
        rank = fact.entity.get("rank", owners.get((fact.entity.get("node"), pid)))
        on = _slept_on(fact)
        if on:
            known = rank if isinstance(rank, int) else None
            found.setdefault((known, pid), on)
            if known is not None:
                found.setdefault((known, None), on)  # faulthandler does not say the process
    return found


def _slept_on(fact: Fact) -> str | None:
    values = fact.value if isinstance(fact.value, list) else []
    return next(filter(None, (kind(SLEEP, str(each)) for each in values)), None)


def _stand(fact: Fact, rank: int | None, lines: list[int] | list[float] | list[str], on: str | None) -> Stand:
    frames = tuple(short(str(each)) for each in fact.value) if isinstance(fact.value, list) else ("",)
    spelled = [_CALL.sub(r"\g<name> \g<file>", frame) for frame in frames]
    index, at = _telling(spelled)
    user = _program(frames) or frames[index]
    line = lines[index] if index < len(lines) else None
    where = Where(file=fact.where.file, line=int(line)) if line else Where(file=fact.where.file, at=fact.where.at)
    return Stand(
        rank=rank,
        pid=fact.entity.get("pid"),
        where=where,
        at=at,
        on=on,
        frame=frames[index],
        user=user,
        way=_way(frames[index:]),
    )


def _telling(spelled: list[str]) -> tuple[int, str]:
    """The frame that tells what the thread is at. With nothing known in it the innermost one of a file with lines."""
    for table, depth in ((WORK, len(spelled)), (WAYS, NEAR)):
        for index, frame in enumerate(spelled[:depth]):
            if found := kind(table, frame):
                return index, found
    return next((index for index, frame in enumerate(spelled) if frame.endswith(".py")), 0), "code"


def _program(frames: tuple[str, ...]) -> str | None:
    """The innermost frame in the file of the script, or beside it: where the program left its own code.

    A rank that was spawned has no script on its stack; its own files are those that no package and no Python brings.
    """
    called = [(frame, found["file"]) for frame in frames if (found := _CALL.match(frame))]
    script = next((file for frame, file in called if frame.startswith("<module>") and file[:1] not in ("<", "")), "")
    folder = script.rpartition("/")[0]
    for frame, file in called:
        beside = file == script or bool(folder and file.rpartition("/")[0] == folder)
        if beside if script else _brought_by_nobody(file):
            return frame
    return None


def _brought_by_nobody(file: str) -> bool:
    """py-spy shows files of the script's folder by their bare names, as it does the standard library's."""
    stem = file.removesuffix(".py")
    return stem != file and "/" not in stem.removeprefix("/") and stem not in sys.stdlib_module_names


def short(frame: str) -> str:
    """A frame without the folder in which packages are installed."""
    found = _CALL.match(frame)
    if found is None:
        return frame
    file = _LIBRARY.sub("", found["file"])
    return f"{found['name']} ({file}:{found['line']})" if found["line"] else f"{found['name']} ({file})"


def moved(one: Stand, other: Stand) -> bool:
    """Did it go on between two dumps: is the frame that tells its work, or one of its callers, another?"""
    return one.way != other.way


def _way(frames: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Python frames by bare name and line: py-spy spells classes with them, faulthandler whole folders."""
    found = [match for frame in frames if (match := _CALL.match(frame)) and match["file"].endswith(".py")]
    return tuple(
        (match["name"].rpartition(".")[2], f"{match['file'].rpartition('/')[2]}:{match['line']}") for match in found
    )


def by_rank(found: list[Stand]) -> dict[int, list[Stand]]:
    """Stands of ranks that are known, in the order of the dumps."""
    grouped: dict[int, list[Stand]] = defaultdict(list)
    for stand in found:
        if stand.rank is not None:
            grouped[stand.rank].append(stand)
    return dict(grouped)
