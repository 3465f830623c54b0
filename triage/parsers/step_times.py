"""Step times of ranks: `triage.steps/1` JSON lines; JSON lines or CSV of other tools whose columns say what they are.

Facts of a rank (entity rank; node when the file says):
steps.count, steps.first, steps.last     records read, lowest and highest step number
steps.stage                              pipeline stage, when a column names it: ranks are compared within a stage only
steps.<phase>                            median in ms without the first WARMUP steps; phases: PHASES
steps.series.step, steps.series.<phase>  at most 2 BINS values in order; with more steps each is the median of a bin,
                                         and bins start at the same steps on all ranks
steps.series.alloc, steps.series.loss    allocated device memory in bytes, loss
steps.world_size                         as the first line says
steps.unreadable                         why nothing was read
"""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from triage.model import json_text
from triage.model.base import number
from triage.model.bundle import Document
from triage.model.event import Fact
from triage.parsers._documents import Teller, inflated, integer, mapping, rank_of, text

SOURCE = "step_times"
BINS = 512
WARMUP = 5  # steps of compilation, allocation and first reads
LIMIT = 256 << 20
ROWS = 2_000_000
RANKS = 65_536
PHASES = ("step_ms", "data_ms", "fwd_ms", "bwd_ms", "opt_ms", "comm_ms", "gc_ms", "ckpt_ms", "host_ms")
_STEP = re.compile(r"^(?:global_?)?(?:step|iter|iteration|step_num|step_idx|batch_idx)$")
_NAMES = (
    ("step_ms", r"(?:train_)?(?:step|iter|iteration|batch)_?(?:time|timing|duration|elapsed)?|elapsed(?:_time)?"),
    ("data_ms", r"(?:data(?:_?load(?:er|ing)?)?|input|fetch|batch_load)(?:_?(?:time|wait|fetch))?"),
    ("fwd_ms", r"(?:fwd|forward)(?:_?(?:time|compute|pass))?"),
    ("bwd_ms", r"(?:bwd|backward)(?:_?(?:time|compute|pass))?"),
    ("opt_ms", r"(?:opt|optim|optimizer)(?:_?(?:time|step))?"),
    ("comm_ms", r"(?:comm|communication|all_?reduce|nccl|sync|wait)(?:_?(?:time|wait|exposed))?"),
    ("gc_ms", r"gc(?:_?time)?"),
    ("ckpt_ms", r"(?:ckpt|checkpoint|save)(?:_?time)?"),
    ("host_ms", r"(?:host|cpu)(?:_?time)?"),
)  # fmt: skip
_UNIT = re.compile(r"^(.*?)[_ ]?(?:\(|in_|in )?(ms|msec|milliseconds|s|sec|secs|seconds|us|usec|ns)\)?$")
_SCALE = {"m": 1.0, "s": 1000.0, "u": 1e-3, "n": 1e-6}
_OTHERS = {
    "alloc": ("alloc", "allocated", "mem_alloc", "memory_allocated", "cuda_allocated"),
    "loss": ("loss", "train_loss", "lm_loss"),
}


def recognises(head: bytes, tail: bytes) -> int:
    """2 for JSON lines or a CSV whose columns hold a step number and a step time."""
    first = head.lstrip()[:4096].split(b"\n", 2)
    if b"triage.steps/1" in first[0]:
        return 2
    keys = _keys(first[0].decode("utf-8", "replace"))
    if not keys and len(first) > 1:
        keys = _keys(first[1].decode("utf-8", "replace"))
    columns = {_column(key) for key in keys}
    return 2 if "step" in columns and any(name in columns for name in PHASES) else 0


def _keys(line: str) -> list[str]:
    line = line.strip().rstrip("\r")
    if line.startswith("{"):
        try:
            return [str(key) for key in mapping(json_text.loads(line))]
        except (ValueError, RecursionError):
            return []
    parts = [part.strip().strip('"') for part in re.split(r"[,;\t]", line)]
    return (
        parts
        if 2 <= len(parts) <= 200 and all(re.fullmatch(r"[A-Za-z][\w ()./-]{0,60}", part) for part in parts)
        else []
    )


@lru_cache(4_096)  # each row of a table has the same columns
def _column(key: str) -> str | None:
    """The name of ours that a column stands for, without regard to its unit."""
    name = key.strip().lower().replace("-", "_").replace("/", "_").removeprefix("time_")
    if _STEP.match(name):
        return "step"
    if name in ("rank", "global_rank"):
        return "rank"
    if name in ("stage", "pp_rank", "pp_stage", "pipeline_rank"):
        return "stage"
    for own, names in _OTHERS.items():
        if name in names:
            return own
    unit = _UNIT.match(name)
    bare = unit.group(1).rstrip("_ ") if unit else name
    return next((own for own, names in _NAMES if re.fullmatch(names, bare)), None)


@lru_cache(4_096)
def _scale(key: str) -> float:
    """Milliseconds in one unit of the column; a bare `..._time` counts seconds, as most loggers do."""
    unit = _UNIT.match(key.strip().lower())
    return _SCALE[unit.group(2)[0]] if unit else 1000.0


class _Rank:
    def __init__(self) -> None:
        self.rows: dict[int, dict[str, float]] = {}
        self.stage: int | None = None


def facts(document: Document) -> Iterator[Fact]:
    """Medians and binned series of each rank in the file."""
    teller = Teller(document)
    data = inflated(document.data)[:LIMIT].decode("utf-8", "replace")
    ranks: dict[int | None, _Rank] = defaultdict(_Rank)
    own = rank_of(document.file)
    header: dict[str, Any] = {}
    for row in _rows(data):
        if not header and text(row.get("schema")).startswith("triage.steps/"):
            header = row
            continue
        _keep(ranks, row, own)
    if not any(rank.rows for rank in ranks.values()):
        yield teller.fact("steps.unreadable", "no step with a time")
        return
    world = integer(header.get("world_size"))
    yield from teller.some({"steps.world_size": world})
    for number_of, rank in sorted(ranks.items(), key=lambda item: -1 if item[0] is None else item[0]):
        yield from _rank_facts(teller.about({"rank": number_of, "node": text(header.get("host")) or None}), rank)


def _rows(data: str) -> Iterator[dict[str, Any]]:
    if data.lstrip().startswith("{"):
        for line in data.splitlines()[:ROWS]:
            try:
                yield mapping(json_text.loads(line)) if line.strip() else {}
            except (ValueError, RecursionError):
                continue  # a line cut by the end of the job
        return
    delimiter = max(",;\t", key=data[:4096].split("\n", 1)[0].count)
    try:
        for index, row in enumerate(csv.DictReader(io.StringIO(data), delimiter=delimiter)):
            if index >= ROWS:
                return
            yield {key: value for key, value in row.items() if isinstance(key, str)}
    except csv.Error:
        return


def _keep(ranks: dict[int | None, _Rank], row: dict[str, Any], own: int | None) -> None:
    step: int | None = None
    rank, stage = own, None
    values: dict[str, float] = {}
    for key, value in list(row.items())[:200]:
        column, found = _column(str(key)), number(value)
        if column == "loss" and str(value).strip().lower() in ("nan", "inf", "-inf", "infinity"):
            values["loss"] = math.nan
        if column is None or found is None:
            continue
        if column in ("step", "rank", "stage"):
            step, rank, stage = (
                int(found) if column == "step" else step,
                int(found) if column == "rank" else rank,
                int(found) if column == "stage" else stage,
            )
            continue
        scaled = found * (_scale(str(key)) if column.endswith("_ms") else 1.0)
        if math.isfinite(2 * scaled):  # a median adds two
            values[column] = scaled
    if step is None or not values or (rank not in ranks and len(ranks) >= RANKS):
        return
    ranks[rank].rows.setdefault(step, {}).update(values)
    ranks[rank].stage = stage if stage is not None else ranks[rank].stage


def _rank_facts(teller: Teller, rank: _Rank) -> Iterator[Fact]:
    steps = sorted(rank.rows)
    if not steps:
        return
    settled = steps[WARMUP:] or steps
    yield from teller.some({
        "steps.count": len(steps), "steps.first": steps[0], "steps.last": steps[-1], "steps.stage": rank.stage,
    })  # fmt: skip
    bins = _bins(steps)
    yield teller.fact("steps.series.step", [steps_in[0] for steps_in in bins])
    for column in (*PHASES, *_OTHERS):
        told = [rank.rows[step][column] for step in settled if column in rank.rows[step]]
        if not told:
            continue
        if column.endswith("_ms"):
            yield teller.fact(f"steps.{column}", round(statistics.median(told), 4))
        yield teller.fact(f"steps.series.{column}", [_middle(rank.rows, steps_in, column) for steps_in in bins])


def _bins(steps: list[int]) -> list[list[int]]:
    """Steps in bins of a power of two, so that ranks of about the same length share their bounds."""
    width = 1
    while (steps[-1] - steps[0]) // width >= BINS:
        width *= 2
    bins: dict[int, list[int]] = defaultdict(list)
    for step in steps:
        bins[step // width].append(step)
    return list(bins.values())[: 2 * BINS]


def _middle(rows: dict[int, dict[str, float]], steps: list[int], column: str) -> float:
    """The median of a bin; NaN where nothing was measured."""
    told = [rows[step][column] for step in steps if column in rows[step]]
    return statistics.median(told) if told else math.nan
