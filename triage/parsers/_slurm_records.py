"""How Slurm's commands print: tables (sacct, squeue, sinfo), `Key=Value` records (scontrol), node lists, states.

Every reader is a generator over (line number, columns) and stops at ROWS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

ROWS = 20_000  # records read of one file; sacct of a whole cluster is longer, but an incident is one job
NODES = 16_384  # names that one node list may expand to: the largest clusters have about ten thousand
DIMENSIONS = 4  # bracket groups of one name; Slurm itself stops at the dimensions of a torus
Row = tuple[int, dict[str, str]]

# Base states and flags of `job_state_string`, with the two letters that squeue prints.
STATES = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING", "CG": "COMPLETING",
    "DL": "DEADLINE", "EX": "EXPEDITING", "F": "FAILED", "LF": "LAUNCH_FAILED", "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED", "PO": "POWER_UP_NODE", "R": "RUNNING",
    "RC": "RECONFIG_FAIL", "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD", "RQ": "REQUEUED",
    "RS": "RESIZING", "RV": "REVOKED", "S": "SUSPENDED", "SE": "SPECIAL_EXIT", "SI": "SIGNALING", "SO": "STAGE_OUT",
    "ST": "STOPPED", "TO": "TIMEOUT",
}  # fmt: skip
_JOB = re.compile(r"\d+(?:[_+](?:\d+|\[[^\]]*\]))?(?:\.(?:\d+|batch|extern|interactive)(?:\+\d+)?)?")
_KEY = re.compile(r"(?:^|(?<=\s))([A-Z][\w/:.&-]*(?:\(\w+\))?)=")
_RECORD = re.compile(r"(?:JobId|StepId|NodeName)=\S")
_BRACKET = re.compile(r"([^\[\],]*)\[([^\]]*)\](.*)")


def job_state(text: str) -> str | None:
    """`CANCELLED by 1001`, `OUT_OF_ME+`, `TO`, `node_fail` -> the full name; None when it is no job state."""
    word = text.strip().split(" ")[0].upper()
    if word in STATES:
        return STATES[word]
    if word in STATES.values():
        return word
    cut = [name for name in STATES.values() if word.endswith("+") and len(word) > 4 and name.startswith(word[:-1])]
    return cut[0] if len(set(cut)) == 1 else None


def nodes(text: str) -> list[str]:
    """`node[009-011,020],login1` -> names, at most NODES; empty for `None assigned`, `(null)` and the like."""
    if not text or text[0] in "(" or text.lower() in {"none assigned", "none", "n/a", "unknown"}:
        return []
    return list(islice((name for part in _parts(text) for name in _expand(part)), NODES))


def _parts(text: str) -> Iterator[str]:
    """Split at commas outside of brackets."""
    depth, start = 0, 0
    for index, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def _expand(part: str) -> Iterator[str]:
    found = _BRACKET.fullmatch(part.strip()) if part.count("[") <= DIMENSIONS else None
    if found is None:
        if part.strip():
            yield part.strip()
        return
    before, ranges, after = found.groups()
    for item in ranges.split(","):
        for number in _numbers(item.strip()):
            for rest in _expand(after) if after else ("",):
                yield f"{before}{number}{rest}"


def _numbers(item: str) -> Iterator[str]:
    low, dash, high = item.partition("-")
    if not dash or not (low.isdecimal() and high.isdecimal()) or len(low) > 9 or len(high) > 9:
        yield item
        return
    for number in range(int(low), int(high) + 1):
        yield str(number).zfill(len(low))


def seconds(text: str) -> int | None:
    """`1-00:00:00`, `02:30:00`, `30:00` -> seconds; None for UNLIMITED, Partition_Limit and other words."""
    days, dash, clock = text.strip().rpartition("-")
    parts = clock.split(".")[0].split(":")
    if not all(part.isdecimal() for part in parts) or not 2 <= len(parts) <= 3 or (dash and not days.isdecimal()):
        return None
    total = 0
    for part in parts:
        total = total * 60 + int(part)
    return total + (int(days) * 86_400 if dash else 0)


def exit_code(text: str) -> tuple[int, int] | None:
    """`137:0` -> (137, 0): the code and the signal; None when it is something else."""
    code, colon, signal = text.strip().partition(":")
    return (int(code), int(signal)) if colon and code.isdecimal() and signal.isdecimal() else None


def records(lines: list[str]) -> Iterator[Row]:
    """`scontrol show` records, wrapped over lines or one a line, as columns; values may hold blanks."""
    start, held = 0, ""
    count = 0
    for number, line in enumerate([*lines, ""], 1):
        begins = _RECORD.match(line.strip()) is not None
        if held and (begins or not line.strip() or len(held) > 65_536):
            yield start, _pairs(held)
            held, count = "", count + 1
        if count >= ROWS:
            return
        if begins:
            start, held = number, line.strip()
        elif held:
            held += " " + line.strip()


def _pairs(text: str) -> dict[str, str]:
    found = list(_KEY.finditer(text))
    ends = [*(match.start() for match in found), len(text)][1:]
    return {match[1]: text[match.end() : end].strip() for match, end in zip(found, ends, strict=True)}


def tables(lines: list[str]) -> Iterator[Row]:
    """Rows of every table in the file, as columns by the upper-case names of its header."""
    return islice(_tables(lines), ROWS)


def _tables(lines: list[str]) -> Iterator[Row]:
    reader: _Piped | _Fixed | _Blank | None = None
    for number, line in enumerate(lines, 1):
        header = _header(lines, number - 1)
        if header is not None:
            reader = header
            continue
        row = reader.row(line) if reader is not None else None
        row = row or _headless(line)
        if row is not None:
            yield number, row
        elif not line.strip():
            reader = reader if isinstance(reader, _Fixed) else None


def _header(lines: list[str], index: int) -> _Piped | _Fixed | _Blank | None:
    line = lines[index]
    upper = line.strip().upper()
    words = upper.split()
    if upper.startswith(("JOBID|", "JOBIDRAW|")) or ("|JOBID|" in upper and "STATE" in upper):
        return _Piped(upper.split("|"))
    if index + 1 < len(lines) and "JOBID" in words and lines[index + 1].startswith("----"):
        return _Fixed(line, lines[index + 1])
    if words[:1] == ["REASON"] and words[-1:] == ["NODELIST"]:
        return _Blank(words, lead=True)
    known = "JOBID" in words[:2] or {"NODELIST", "STATE"} <= set(words)
    return _Blank(words) if known and len(words) > 2 and "|" not in line else None


class _Piped:
    """`sacct -P` and `-p`."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def row(self, line: str) -> dict[str, str] | None:
        cells = line.rstrip("\n").split("|")
        return dict(zip(self.names, cells, strict=False)) if len(cells) == len(self.names) else None


class _Fixed:
    """Columns as wide as the dashes under their names."""

    def __init__(self, header: str, dashes: str) -> None:
        spans = [match.span() for match in re.finditer(r"-+", dashes)]
        self.columns = [(header[a:b].strip().upper(), a, b) for a, b in spans]

    def row(self, line: str) -> dict[str, str] | None:
        if not line.strip() or set(line.strip()) <= {"-", " "}:
            return None
        cells = {name: line[a:b].strip() for name, a, b in self.columns}
        return cells if _JOB.match(cells.get("JOBID", cells.get("JOBIDRAW", ""))) else None


class _Blank:
    """Columns apart by blanks: the last takes the rest, or with `lead` the first (`sinfo -R`)."""

    def __init__(self, names: list[str], lead: bool = False) -> None:
        self.names, self.lead = names, lead

    def row(self, line: str) -> dict[str, str] | None:
        words, width = line.split(), len(self.names)
        if len(words) < width:
            return None
        extra = len(words) - width + 1
        first, last = (extra, width) if self.lead else (1, width - 1)
        cells = [" ".join(words[:first]), *words[first:last], *([] if self.lead else [" ".join(words[last:])])]
        row = dict(zip(self.names, cells if not self.lead else [cells[0], *words[extra:]], strict=True))
        return row if _JOB.match(row.get("JOBID", "0")) else None


def _headless(line: str) -> dict[str, str] | None:
    """`sacct -n -P`: a job id, a state and an exit code tell themselves."""
    cells = line.split("|") if line[:1].isdigit() else []
    if len(cells) < 3 or not _JOB.fullmatch(cells[0].strip()):
        return None
    row = {"JOBID": cells[0]}
    for cell in cells[1:]:
        if "STATE" not in row and len(cell) > 3 and job_state(cell):
            row["STATE"] = cell
        elif "EXITCODE" not in row and exit_code(cell):
            row["EXITCODE"] = cell
    return row if "STATE" in row else None


def efficiency(lines: list[str]) -> Iterator[Row]:
    """Reports of `seff`: `Job ID: 4`, then `State: TIMEOUT (exit code 0)` and `Nodes: 1`."""
    identity = ""
    for number, line in enumerate(lines, 1):
        key, colon, value = line.strip().partition(": ")
        if colon and key == "Job ID":
            identity = value.strip()
        elif colon and key == "State" and identity and job_state(value):
            code = re.search(r"\(exit code (\d{1,6})\)", value)
            yield number, {"JOBID": identity, "STATE": value.split(" (")[0], "EXITCODE": f"{code[1]}:0" if code else ""}
            identity = ""
