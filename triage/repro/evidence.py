"""The values of a failed job that a reproduction can use. No text is trusted: numbers, known words, or nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from triage.model.base import Scalar, Value
from triage.model.incident import Incident
from triage.model.report import Hypothesis
from triage.repro.spec import of_cause

MIB = 1 << 20
MOST_ENVIRONMENT = 40
_OPERATIONS = (  # the longer word first
    ("reduce_scatter", "reduce_scatter"), ("reducescatter", "reduce_scatter"), ("all_gather", "all_gather"),
    ("allgather", "all_gather"), ("all_reduce", "all_reduce"), ("allreduce", "all_reduce"),
    ("all_to_all", "all_to_all"), ("alltoall", "all_to_all"), ("broadcast", "broadcast"), ("barrier", "barrier"),
    ("reduce", "reduce"),
)  # fmt: skip
_DTYPES = {
    "float": "float32", "float32": "float32", "half": "float16", "float16": "float16", "bfloat16": "bfloat16",
    "double": "float64", "float64": "float64", "int": "int32", "int32": "int32", "long": "int64", "int64": "int64",
    "byte": "uint8", "uint8": "uint8",
}  # fmt: skip
# Variables that change how collectives or the allocator behave; paths, addresses and secrets are none of them.
_NAME = re.compile(r"NCCL_[A-Z0-9_]{2,40}|TORCH_NCCL_[A-Z0-9_]{2,40}|CUDA_DEVICE_MAX_CONNECTIONS|CUDA_LAUNCH_BLOCKING")
_NOT = re.compile(r"DEBUG|FILE|DUMP|HOST|ADDR|COMM_ID|IFNAME|TOPO|PLUGIN|CONF|DIR|PATH|RAS|PIPE")
_VALUE = re.compile(r"[A-Za-z0-9_.,:;^=+-]{1,100}")
_CONF = re.compile(r"[a-z0-9_]{1,40}:[A-Za-z0-9_.,\[\]:]{1,60}(?:,[a-z0-9_]{1,40}:[A-Za-z0-9_.\[\]:]{1,60}){0,9}")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,80}")


@dataclass(frozen=True)
class Found:
    """What the evidence says. values: by the name of a template's value. kind: which of several templates fits."""

    values: dict[str, Scalar] = field(default_factory=dict)
    ranks: int | None = None
    nodes: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    alloc_conf: str | None = None
    kind: str | None = None


def found(incident: Incident, hypothesis: Hypothesis) -> Found:
    """Values for a reproduction of a hypothesis."""
    facts = _facts(incident, hypothesis)
    return Found(
        values={name: value for name, value in _values(incident, hypothesis, facts) if value is not None},
        ranks=_ranks(incident, facts),
        nodes=tuple(dict.fromkeys(c.node for c in hypothesis.culprits if c.node and _NODE.fullmatch(c.node))),
        environment=_environment(incident),
        alloc_conf=_alloc_conf(incident, facts),
        kind=_kind(incident, hypothesis, facts),
    )


def template(incident: Incident, hypothesis: Hypothesis) -> str | None:
    """Name of the reproduction of a hypothesis: what the evidence chooses, the playbook names, or the cause has."""
    chosen = _kind(incident, hypothesis, _facts(incident, hypothesis))
    return (not chosen and hypothesis.repro) or of_cause(hypothesis.cause, chosen)


def _facts(incident: Incident, hypothesis: Hypothesis) -> dict[str, Value]:
    """Facts by name: those of the culprits before others, the first of equals."""
    culprits = {each.rank for each in hypothesis.culprits}
    ordered = sorted(incident.facts, key=lambda fact: fact.entity.get("rank") not in culprits)
    facts: dict[str, Value] = {}
    for fact in ordered:
        facts.setdefault(fact.name, fact.value)
    return facts


def _values(incident: Incident, hypothesis: Hypothesis, facts: dict[str, Value]) -> Iterator[tuple[str, Scalar]]:
    told = {name: value for placed in incident.signals for name, value in placed.signal.fields.items()}
    yield "culprit", next((each.rank for each in hypothesis.culprits if each.rank is not None), None)
    yield "operation", operation(facts.get("hang.collective") or told.get("op"))
    yield "numel", _number(told.get("numel_in")) or numel(facts.get("fr.last_sizes"))
    yield "dtype", dtype(facts.get("fr.last_dtypes"))
    yield "at", _number(facts.get("hang.sequence"))
    yield "ratio", _number(facts.get("straggler.ratio"))
    yield "step_ms", _number(facts.get("steps.fwd_ms")) or _number(facts.get("steps.step_ms"))
    yield "read_ms", _number(facts.get("steps.data_ms"))
    spread = _number(facts.get("steps.imbalance"))
    yield "spread", None if spread is None else 1 + 2 * spread  # uniform from 1 to s: the slowest is (s - 1) / 2 above
    yield from _memory(facts)


def _memory(facts: dict[str, Value]) -> Iterator[tuple[str, Scalar]]:
    tried, total, held = (_number(facts.get(f"oom.{name}")) for name in ("tried", "total", "allocated"))
    foreign = _number(facts.get("oom.foreign"))
    if tried and total and held:
        yield "share", (held + tried) / total
        yield "spike", tried / total
        yield "steady", held / total
        yield "wanted_mib", int(tried // MIB)
        yield "wanted", (held + tried) / total
    if foreign and total:
        yield "foreign", foreign / total


def _ranks(incident: Incident, facts: dict[str, Value]) -> int | None:
    sizes = [_number(facts.get("steps.world_size")), float(len(incident.ranks)) or None]
    members = [fact.value for fact in incident.facts if fact.name == "fr.group.ranks" and isinstance(fact.value, list)]
    sizes += [float(len(each)) for each in members]
    for mark in incident.marks:
        if mark.kind in ("init", "start"):
            sizes += [_number(mark.fields.get("nranks")), _number(mark.fields.get("world_size"))]
    known = [size for size in sizes if size]
    return int(max(known)) if known else None


def _environment(incident: Incident) -> dict[str, str]:
    """NCCL and torch variables as the logs printed them; only names and values of a harmless form."""
    kept: dict[str, str] = {}
    for mark in incident.marks:
        name, value = str(mark.fields.get("name") or ""), str(mark.fields.get("value") or "")
        if mark.kind == "env" and _NAME.fullmatch(name) and not _NOT.search(name) and _VALUE.fullmatch(value):
            kept.setdefault(name, value)
    return dict(sorted(kept.items())[:MOST_ENVIRONMENT])


def _alloc_conf(incident: Incident, facts: dict[str, Value]) -> str | None:
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    told = [
        str(m.fields.get("value") or "") for m in incident.marks if m.kind == "env" and m.fields.get("name") in names
    ]
    for value in [str(facts.get("snapshot.alloc_conf") or ""), *told]:
        if _CONF.fullmatch(value):
            return value
    return None


def _kind(incident: Incident, hypothesis: Hypothesis, facts: dict[str, Value]) -> str | None:
    """order-inversion, size or operation of ranks that call other collectives; one-rank of several without memory."""
    short = {each.rank for each in hypothesis.culprits if each.rank is not None}
    if hypothesis.cause == "memory/gpu-capacity" and len(short) == 1 and (_ranks(incident, facts) or 1) > 1:
        return "one-rank"
    verdict = facts.get("hang.verdict")
    if verdict == "order-inversion":
        return "order-inversion"
    texts = " ".join([cited.text for cited in hypothesis.evidence])
    if "Collectives differ in the following aspects" in texts:
        return "operation" if "Op type" in texts else "size"
    calls = [row.split() for fact in incident.facts if fact.name == "fr.recent" for row in _rows(fact.value)]
    at = str(facts.get("hang.sequence"))
    here = {tuple(call[1:]) for call in calls if call and call[0] == at}
    if len(here) > 1:
        return "operation" if len({call[0] for call in here}) > 1 else "size"
    return None


def _rows(value: Value) -> Sequence[str]:
    return [str(row) for row in value] if isinstance(value, list) else []


def operation(text: object) -> str | None:
    """`nccl:_all_gather_base`, `ALLREDUCE` -> the name that the templates use."""
    word = str(text or "").lower()
    return next((name for part, name in _OPERATIONS if part in word), None)


def dtype(text: object) -> str | None:
    """`Float`, `BFloat16` or a list of them -> the first as torch names it."""
    return _DTYPES.get(str(text or "").split(",")[0].strip().lower())


def numel(text: object) -> int | None:
    """`1024x512;8` -> the elements of the first tensor."""
    sides = str(text or "").split(";")[0].split("x")
    if not all(side.isdigit() and len(side) < 16 for side in sides):
        return None
    return math.prod(int(side) for side in sides) or None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if math.isfinite(value) and value >= 0 else None
