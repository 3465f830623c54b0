"""Check tools: gpu-burn, nccl-tests, `dcgmi diag` (table, JSON), bandwidthTest, p2pBandwidthLatencyTest, CUDA samples.

Facts (pass|fail|skip|warn unless said otherwise; entity {gpu} where the tool names one, gpu-burn by CUDA ordinal):
    check.gpu_burn  check.dcgm.<test> (`check.dcgm.memory`, `check.dcgm.targeted_stress` ...)
    check.result (each verdict of any tool)  check.test (name of a test that failed)
    check.dcgm.message (text of a warning or error of the table, its line breaks taken out)
    check.nccl_tests  check.nccl_tests.wrong  check.nccl_tests.bus_bandwidth (GB/s)  check.cuda_sample
    check.p2p.access (all|some|none)
    check.p2p.gain (median over pairs of GPUs: bandwidth with peer access over bandwidth without, one way)
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator

from triage.model.base import Scalar
from triage.model.bundle import Document, Window
from triage.model.event import Event, Fact, Where
from triage.parsers import _dcgm, _stamps

SOURCE = "check_tools"
BEFORE, AFTER = 0, 6
LIMIT = 32 << 20  # bytes read; gpu-burn rewrites its line, so that an hour of it is some MB

MARKS = (
    ("well", r"^\s*GPU [0-9]+: OK\s*$"),
    ("well", r"# Out of bounds values : 0 OK"),
    ("well", r"Result = PASS"),
    ("well", r"Successfully ran diagnostic for group"),
    ("well", r"\b[Aa]ll (?:health |node |GPU |gpu )?checks (?:have )?passed\b"),
    ("well", r"^\s*Physical state: LinkUp"),  # ibstat
    ("well", r"\| (?:Memory|Diagnostic|Targeted Stress|software|memory|diagnostic) +\| Pass"),
)

_KNOWN = re.compile(
    rb"Gflop/s\)[^\n]{0,400}errors: \d|^Tested \d+ GPUs:|^[ \t]{0,40}GPU \d+: (?:OK|FAULTY)[ \t\r]{0,40}$"
    rb"|# Out of bounds values :|# Avg bus bandwidth|^# nThread \d+ nGpus \d+ minBytes|^# nccl-tests version"
    rb"|^#[ \t]{1,40}size[ \t]{1,40}count[ \t]{1,40}type[ \t]{1,40}redop|\| Diagnostic +\| Result +\|"
    rb"|Successfully ran diagnostic for group|\"DCGM (?:GPU )?Diagnostic\"|\[CUDA Bandwidth Test\]"
    rb"|\[P2P \(Peer-to-Peer\) GPU Bandwidth Latency Test\]|^Result = (?:PASS|FAIL)|CUDA Device Query",
    re.MULTILINE,
)  # fmt: skip
_BURN = re.compile(r"\s*GPU (?P<gpu>\d{1,3}): (?P<word>OK|FAULTY)\s*$")
_BOUNDS = re.compile(r"# Out of bounds values : (?P<count>\d{1,18}) (?P<word>OK|FAILED)")
_BUS = re.compile(r"# Avg bus bandwidth +: (?P<rate>\d{1,9}(?:\.\d{1,9})?)")
_SAMPLE = re.compile(r"(?:Result = |Test )(?P<word>PASS|FAIL)(?:ED)?\b")
_FIGURES = re.compile(
    r"\s{0,12}(?P<row>\d{1,2})\s{1,12}(?P<cells>\d{1,6}\.\d{1,4}(?:\s{1,12}\d{1,6}\.\d{1,4}){1,63})\s*$"
)
_DISABLED, _ENABLED = "Unidirectional P2P=Disabled Bandwidth", "Unidirectional P2P=Enabled Bandwidth"
_JSON = re.compile(r"\"DCGM (?:GPU )?Diagnostic\"|\"test_categories\"")
SIGNS = (_KNOWN,)


def recognises(head: bytes, tail: bytes) -> int:
    """2: output of such a tool stands in head or tail; a single verdict line in a long file counts as 1."""
    hits = len(_KNOWN.findall(head)) + len(_KNOWN.findall(tail))
    if not hits:
        return 0
    return 2 if hits > 1 or head.count(b"\n") < 200 else 1


def parse(window: Window) -> Event:
    """A line of a tool; wrapped rows of a `dcgmi` table are joined in the body."""
    line = window.lines[window.hit]
    time, end = _stamps.find(line)
    text = line[end:].strip()
    return Event(
        where=Where(file=window.file.path, line=window.numbers[window.hit]),
        text=text[:2000],
        body="".join([text, *_wrapped(window)]) if text.startswith("|") else text,
        source=SOURCE,
        time=time,
        node=window.file.node,
        rank=window.file.rank,
    )


def _wrapped(window: Window) -> Iterator[str]:
    for line in window.lines[window.hit + 1 :]:
        cells = line.strip().split("|")
        if len(cells) < 3 or cells[1].strip():
            return
        yield cells[2].rstrip()


def facts(document: Document) -> Iterator[Fact]:
    """Verdicts and figures of every tool in the file, in order."""
    text = document.data[:LIMIT].decode("utf-8", "replace").replace("\r\n", "\n")
    file, node = document.file.path, document.file.node
    for fact in _all(text, file):
        entity: dict[str, Scalar] = {} if node is None else {"node": node}
        yield Fact(name=fact.name, value=fact.value, where=fact.where, entity={**entity, **fact.entity}, text=fact.text)


def _all(text: str, file: str) -> Iterator[Fact]:
    lines = text.split("\n")
    index, before = 0, list[float]()
    while index < len(lines):
        line = lines[index]
        if "Diagnostic" in line and _dcgm.TABLE.search(line):
            found, index = _dcgm.table(lines, index, file)
            yield from found
            continue
        if "P2P Connectivity Matrix" in line:
            yield from _access(lines, index, file)
        if _ENABLED in line and before:
            yield from _gain(before, _pairs(lines, index), Where(file=file, line=index + 1), line.strip())
        before = _pairs(lines, index) if _DISABLED in line else before
        yield from _line(line, Where(file=file, line=index + 1))
        index += 1
    if found_json := _JSON.search(text):
        start = text.rfind("{", 0, found_json.start())
        start = text.find("{") if text[found_json.start() : found_json.end()] == '"test_categories"' else start
        first = text.count("\n", 0, max(start, 0)) + 1
        yield from _dcgm.document(text[start : text.rfind("}") + 1], first, file)


def _line(line: str, where: Where) -> Iterator[Fact]:
    if len(line) > 2000:
        return
    if found := _BURN.match(line):
        word = "pass" if found["word"] == "OK" else "fail"
        entity: dict[str, Scalar] = {"gpu": int(found["gpu"])}
        yield Fact(name="check.gpu_burn", value=word, where=where, entity=entity, text=line.strip())
        yield Fact(name="check.result", value=word, where=where, entity=entity, text=line.strip())
    elif found := _BOUNDS.search(line):
        word = "pass" if found["word"] == "OK" else "fail"
        yield Fact(name="check.nccl_tests", value=word, where=where, text=line.strip())
        yield Fact(name="check.nccl_tests.wrong", value=int(found["count"]), where=where, text=line.strip())
        yield Fact(name="check.result", value=word, where=where, text=line.strip())
    elif found := _BUS.search(line):
        yield Fact(name="check.nccl_tests.bus_bandwidth", value=float(found["rate"]), where=where, text=line.strip())
    elif found := _SAMPLE.search(line):
        word = found["word"].lower()
        yield Fact(name="check.cuda_sample", value=word, where=where, text=line.strip())
        yield Fact(name="check.result", value=word, where=where, text=line.strip())


def _access(lines: list[str], start: int, file: str) -> Iterator[Fact]:
    """The matrix of ones and zeros below `P2P Connectivity Matrix`, the diagonal left out."""
    cells: list[str] = []
    for row, line in enumerate(lines[start + 2 : start + 66]):
        numbers = line.split()
        if not numbers or not all(number in {"0", "1"} or number == str(row) for number in numbers):
            break
        cells += [number for column, number in enumerate(numbers[1:]) if column != row]
    if cells:
        value = "all" if "0" not in cells else "some" if "1" in cells else "none"
        yield Fact(name="check.p2p.access", value=value, where=Where(file=file, line=start + 1))


def _pairs(lines: list[str], start: int) -> list[float]:
    """The figures of the matrix that is announced at `start`, row by row, the diagonal left out."""
    cells: list[float] = []
    for row, line in enumerate(lines[start + 2 : start + 66]):
        numbers = _FIGURES.match(line)
        if numbers is None or int(numbers["row"]) != row:
            break
        cells += [float(number) for column, number in enumerate(numbers["cells"].split()) if column != row]
    return cells


def _gain(without: list[float], with_access: list[float], where: Where, text: str) -> Iterator[Fact]:
    if len(without) == len(with_access) and all(without):
        gain = statistics.median(peer / plain for peer, plain in zip(with_access, without, strict=True))
        yield Fact(name="check.p2p.gain", value=round(gain, 3), where=where, text=text[:2000])
