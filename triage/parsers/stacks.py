"""Python stacks of live or dying processes: `py-spy dump` (text, `--json`, `--native`), and what faulthandler prints.

Facts, one set a process and dump, entity {rank, pid, node} as far as known:
    stack.frames   list: where its main thread stood, innermost first, as `function (file:line)` or `function (library)`
    stack.lines    list: the line of the evidence on which each frame stands; absent for JSON
    stack.worker   list, in place of stack.frames: a loader worker or other child of the rank's process
    stack.fatal    list, in place of stack.frames: where a process crashed, which is not where it waited; an abort is
                   no crash here, since the watchdog of a hung collective ends processes so
The main thread is the one that py-spy names so, else the one whose outermost frame is the program's own `<module>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from triage.model.base import Scalar
from triage.model.bundle import Document, File, Window
from triage.model.event import Event, Fact, Where
from triage.parsers import _process
from triage.parsers._documents import integer, json_value, listing, mapping, text
from triage.parsers._prefix import split

SOURCE = "stacks"
PROCESSES = 20_000  # dumps of one file
DEPTH = 80  # frames kept of a stack; recursion repeats itself
LINE = 700  # characters of a line that can be a frame
_SPY = re.compile(rb"^.{0,200}?Thread (?:0x)?[0-9A-Fa-f]{1,16} \((?:active|idle)(?:\+gil)?\)", re.MULTILINE)
_FAULT = re.compile(
    rb"^.{0,200}?(?:Current thread|Thread) 0x[0-9a-f]{4,16}[^\n]{0,60} \(most recent call first\)", re.M
)
_JSON = re.compile(rb'\s*\[\s*\{\s*"pid":\s*\d+,\s*"thread_id"')
_PROCESS = re.compile(r"Process (?P<pid>\d{1,10})(?: \([^)]{0,80}\))?: ")
_PARENT = re.compile(r"Parent Process \d{1,10}: ")
_THREAD = re.compile(
    r"\s{0,8}(?:Current thread|Thread) (?P<id>(?:0x)?[0-9A-Fa-f]{1,16})(?: \[[^\]]{0,60}\])? "
    r"\((?P<state>active|idle|active\+gil|idle\+gil|most recent call first)\)(?::(?: \"(?P<name>[^\"]{0,80})\")?)?\s*$"
)
_BEGINS = re.compile(
    r"\s{0,8}(?:Fatal Python error: (?!Aborted)(?P<fatal>\w)|Fatal Python error|Timeout \(\d+:\d\d:\d\d)"
)
_FRAME = re.compile(r"\s{1,7}(?P<name>\S.{0,300}?) \((?P<file>[^()]{1,300})\)\s*$")
_FILE = re.compile(r'\s{1,7}File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,8}) in (?P<name>.{1,200}?)\s*$')
_WORDS = ("hread ", "(", "rocess ", "File ", "Fatal Python")
_WORKERS = ("_worker_loop (", "torch/utils/data/_utils/worker.py", "torch/_inductor/compile_worker/")
Frames = list[tuple[str, int]]  # (frame, line of the evidence)


@dataclass
class Dump:
    """One process in one dump: the stacks of its threads, each with whether it is named as the main one.

    pids: several when equal stacks were put together below the heads of all their threads.
    """

    owner: tuple[object, ...] = ()
    rank: int | None = None
    node: str | None = None
    pids: list[int] = field(default_factory=list)
    child: bool = False
    bare: bool = True
    fatal: bool = False
    framed: bool = False  # a frame was seen: not asked of all threads again at each line
    threads: list[tuple[bool, Frames]] = field(default_factory=list)


SIGNS = (_SPY, _FAULT, _JSON)


def recognises(head: bytes, tail: bytes) -> int:
    """2 for a file that is a dump; 1 for a log at whose end or beginning one stands."""
    if _JSON.match(head):
        return 2
    if not any(form.search(part) for form in (_SPY, _FAULT) for part in (head, tail)):
        return 0
    first = b"\n".join(head.split(b"\n", 6)[:6])
    return 2 if _SPY.search(first) or _FAULT.search(first) or first.startswith(b"Process ") else 1


def parse(window: Window) -> Event:
    """A line of a dump by itself."""
    return _process.event(window, SOURCE)


def facts(document: Document) -> Iterator[Fact]:
    """The stacks of every process in the file."""
    if _JSON.match(document.data):
        dumps = _of_json(document.data)
    else:
        dumps = _of_text(document.data.decode("utf-8", "replace"))
    for count, dump in enumerate(dumps):
        if count >= PROCESSES:
            return
        yield from _told(document.file, dump)


def _of_json(data: bytes) -> Iterator[Dump]:
    """`py-spy dump --json`: threads of a process, and of its children. Raises ValueError when it is cut."""
    found: dict[int, Dump] = {}
    for entry in map(mapping, listing(json_value(data))):
        pid = integer(entry.get("pid"))
        if pid is None:
            continue
        parent = integer(mapping(entry.get("process_info")).get("parent"))
        dump = found.setdefault(pid, Dump(pids=[pid]))
        dump.child = dump.child or parent in found
        frames = [(_json_frame(each), 0) for each in listing(entry.get("frames"))[:DEPTH]]
        dump.threads.append((entry.get("thread_name") == "MainThread", frames))
    for dump in found.values():
        yield from _finished(dump)


def _json_frame(value: object) -> str:
    frame = mapping(value)
    file = text(frame.get("short_filename"), 300) or text(frame.get("filename"), 300) or text(frame.get("module"), 300)
    line = integer(frame.get("line"))
    return f"{text(frame.get('name'))} ({file}:{line})" if line else f"{text(frame.get('name'))} ({file})"


def _of_text(whole: str) -> Iterator[Dump]:
    """Line by line; ranks that print into one log are told apart by their prefixes."""
    open_dumps: dict[tuple[object, ...], Dump] = {}
    for number, line in enumerate(whole.split("\n"), start=1):
        if len(line) > LINE or not any(word in line for word in _WORDS):
            continue
        prefix = split(line)
        key = prefix.owner
        dump = open_dumps.get(key)
        if (process := _PROCESS.match(prefix.rest)) and not _PARENT.match(prefix.rest):
            yield from _finished(dump)
            open_dumps[key] = Dump(key, prefix.rank, prefix.node, [int(process["pid"])], bare=False)
        elif begins := _BEGINS.match(prefix.rest):
            yield from _finished(dump)
            open_dumps[key] = Dump(key, prefix.rank, prefix.node, fatal=begins["fatal"] is not None)
        elif thread := _THREAD.match(prefix.rest):
            if dump is None or _another(dump, thread):
                yield from _finished(dump)
                dump = open_dumps[key] = Dump(key, prefix.rank, prefix.node)
            _begin(dump, thread)
        elif dump is not None:
            _continue(dump, prefix.rest, number)
    for dump in open_dumps.values():
        yield from _finished(dump)


def _another(dump: Dump, thread: re.Match[str]) -> bool:
    """Without a line that names the process, a second main thread is that of another; a dump of signals starts anew."""
    if not dump.bare or not dump.framed:
        return False
    main = thread["name"] == "MainThread"
    last, frames = dump.threads[-1]
    nameless = not thread["state"].startswith("most") and thread["name"] is None  # py-spy before 0.3
    done = nameless or (last and thread["state"].startswith("most"))  # the current thread stands last
    return (main and any(named for named, _ in dump.threads)) or (done and _is_program(frames))


def _begin(dump: Dump, thread: re.Match[str]) -> None:
    main = thread["name"] == "MainThread" or thread[0].lstrip().startswith("Current")
    dump.threads.append((main, []))
    if dump.bare and main and thread["id"].isdigit():
        dump.pids.append(int(thread["id"]))  # on Linux the main thread has the number of its process


def _continue(dump: Dump, rest: str, number: int) -> None:
    if _PARENT.match(rest):
        dump.child = True
    elif dump.threads and len(dump.threads[-1][1]) < DEPTH:
        if found := _FILE.match(rest):
            dump.framed = True
            dump.threads[-1][1].append((f"{found['name']} ({found['file']}:{found['line']})", number))
        elif found := _FRAME.match(rest):
            dump.framed = True
            dump.threads[-1][1].append((f"{found['name']} ({found['file']})", number))


def _finished(dump: Dump | None) -> Iterator[Dump]:
    if dump is not None and any(frames for _, frames in dump.threads):
        yield dump


def _main(threads: Sequence[tuple[bool, Frames]]) -> Frames | None:
    """The main thread's stack; None when no thread is known to be it."""
    full = [(named, frames) for named, frames in threads if frames]
    program = [frames for _, frames in full if _is_program(frames)]
    return next((frames for named, frames in full if named), None) or (program[-1] if program else None)


def _is_program(frames: Frames) -> bool:
    """Does it begin in a script? Threads begin in `threading`; native frames may stand below both."""
    return any(frame.startswith(("<module> (", "_run_module_as_main (")) for frame, _ in frames[-4:])


def _told(file: File, dump: Dump) -> Iterator[Fact]:
    frames = _main(dump.threads)
    if frames is None:
        return
    child = dump.child and file.rank is not None  # of a rank; the ranks themselves are children of their launcher
    worker = child or any(mark in frame for frame, _ in frames for mark in _WORKERS)
    first = frames[0][1]
    name = "stack.fatal" if dump.fatal else "stack.worker" if worker else "stack.frames"
    pids: list[int | None] = [*dump.pids] or [file.pid]
    for pid in pids:
        at = "main thread" if pid is None else f"main thread of process {pid}"
        where = Where(file=file.path, line=first) if first else Where(file=file.path, at=at)
        entity = _entity(file, dump, pid)
        yield Fact(name=name, value=[frame for frame, _ in frames], where=where, entity=entity, text=frames[0][0])
        if first and name == "stack.frames":
            yield Fact(name="stack.lines", value=[line for _, line in frames], where=where, entity=entity)


def _entity(file: File, dump: Dump, pid: int | None) -> dict[str, Scalar]:
    known: dict[str, Scalar] = {
        "rank": dump.rank if dump.rank is not None else file.rank, "pid": pid, "node": dump.node or file.node,
    }  # fmt: skip
    return {key: value for key, value in known.items() if value is not None}
