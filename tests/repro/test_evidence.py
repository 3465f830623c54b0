"""What a reproduction takes from the evidence."""

from __future__ import annotations

import making
import pytest

from triage.model.event import Fact, Mark, Where
from triage.model.report import Culprit, Hypothesis
from triage.repro.evidence import dtype, found, numel, operation


@pytest.mark.parametrize(
    ("text", "name"),
    [("ALLREDUCE", "all_reduce"), ("nccl:_all_gather_base", "all_gather"), ("_REDUCE_SCATTER_BASE", "reduce_scatter"),
     ("nccl:all_reduce_barrier", "all_reduce"), ("BROADCAST", "broadcast"), ("ALLTOALL_BASE", "all_to_all"),
     ("nccl:reduce", "reduce"), ("import os", None), (None, None)],
)  # fmt: skip
def test_operations(text: str | None, name: str | None) -> None:
    assert operation(text) == name


@pytest.mark.parametrize(("text", "count"), [("1024x512;8", 524288), ("7", 7), ("", None), ("axb", None), ("0", None)])
def test_sizes(text: str, count: int | None) -> None:
    assert numel(text) == count


def test_types() -> None:
    assert [dtype(text) for text in ("BFloat16", "Float,Long", "exec")] == ["bfloat16", "float32", None]


def fact(name: str, value: object, **entity: int) -> Fact:
    return Fact(name=name, value=value, where=Where(file="a.pkl"), entity=entity)  # type: ignore[arg-type]


def environment(name: str, value: str) -> Mark:
    return Mark(kind="env", event=making.event(), fields={"name": name, "value": value})


def test_values_of_a_hang() -> None:
    printed = {
        "NCCL_ALGO": "Ring", "NCCL_SOCKET_IFNAME": "eth0", "AWS_SECRET": "a", "NCCL_PROTO": "$(id)",
        "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128; id",
    }  # fmt: skip
    marks = [environment(name, value) for name, value in printed.items()]
    facts = [
        fact("hang.collective", "nccl:all_reduce"), fact("hang.sequence", 41), fact("hang.verdict", "mismatch"),
        fact("fr.group.ranks", list(range(16))), fact("fr.last_sizes", "8;2", rank=0),
        fact("fr.last_sizes", "4x4", rank=5), fact("fr.last_dtypes", "Half", rank=5),
        fact("fr.recent", ["41 all_reduce 8 8 Half"], rank=0), fact("fr.recent", ["41 all_reduce 16 16 Half"], rank=5),
    ]  # fmt: skip
    told = found(
        making.incident([], marks, facts),
        Hypothesis(cause="collective/mismatch", title="", confidence=0.8, culprits=[Culprit(rank=5, node="node-3")]),
    )
    assert told.values == {"culprit": 5, "operation": "all_reduce", "numel": 16, "dtype": "float16", "at": 41}
    assert (told.ranks, told.nodes, told.kind) == (16, ("node-3",), "size")
    assert told.environment == {"NCCL_ALGO": "Ring"}
    assert told.alloc_conf is None
