"""The closed lists: what a field of a signature, playbook, report or manifest may say."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal, get_args

Role = Literal["root-cause", "symptom", "consequence", "context"]
Severity = Literal["info", "warning", "error", "fatal"]
Status = Literal["experimental", "stable", "retired"]
Specificity = Literal["strong", "weak"]
Progress = Literal["fatal", "survivable", "degrades"]
Risk = Literal["safe", "disruptive", "destructive"]
Support = Literal["strong", "moderate", "weak"]
Verdict = Literal["diagnosed", "suspected", "inconclusive", "healthy"]
GapReason = Literal["not collected", "denied", "timed out", "truncated", "unparsable", "absent"]
Answer = Literal["yes", "no", "unknown"]
FieldType = Literal["str", "int", "float", "bytes", "pci-address", "duration"]
EntityKind = Literal[
    "node", "gpu", "pci", "uuid", "rank", "local_rank", "nic", "port", "link", "mount", "group", "pid", "peer"
]
Scope = Literal[
    "same-process",
    "same-rank",
    "same-gpu",
    "same-pci-tree",
    "same-link",
    "same-node",
    "same-group",
    "same-rail",
    "same-mount",
    "same-container",
    "same-job",
    "next-start",
]
Op = Literal["eq", "ne", "gt", "ge", "lt", "le", "in", "contains", "matches", "exists"]
Spread = Literal["one-rank", "one-node", "one-rail", "half", "all"]

ROLES: tuple[str, ...] = get_args(Role)
SEVERITIES: tuple[str, ...] = get_args(Severity)

# Folders below signatures/: the areas of causes.yaml, and the software layers whose messages are mostly symptoms.
LAYERS = (
    "gpu",
    "nvlink",
    "pcie",
    "driver",
    "software",
    "network",
    "rendezvous",
    "collective",
    "memory",
    "code",
    "data",
    "storage",
    "scheduler",
    "host",
    "performance",
    "config",
    "nccl",
    "torch",
    "cuda",
    "framework",
    "rocm",
    "ascend",
)


@cache
def sources() -> tuple[str, ...]:
    """Names of the evidence sources: one parser file each."""
    folder = Path(__file__).with_name("parsers")
    return tuple(sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")))
