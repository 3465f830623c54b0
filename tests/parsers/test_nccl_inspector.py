"""NCCL Inspector: its objects in both spellings, and who comes last."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import triage
from tests.analysis.build import facts, incident
from triage.analysis import late_comers
from triage.model.base import Scalar
from triage.model.event import Fact
from triage.parsers import nccl_inspector, recognise


def row(rank: int, sn: int, us: float, group: str = "0x7f8c", size: int = 8) -> dict[str, Any]:
    """As NVIDIA's page on the plugin shows it."""
    return {
        "header": {"id": group, "rank": rank, "n_ranks": size, "nnodes": 1},
        "metadata": {
            "inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "profiler_plugin",
            "dump_timestamp_us": 1748030377748202, "hostname": "node001", "pid": 4000 + rank,
        },
        "coll_perf": {
            "coll": "AllReduce", "coll_sn": sn, "coll_msg_size_bytes": 1 << 30, "coll_exec_time_us": us,
            "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 277.2, "coll_busbw_gbs": 485.1,
        },
    }  # fmt: skip


def dumps(size: int = 8, late: int | None = 5, count: int = 60, wait: float = 3.0, seed: int = 3) -> dict[int, str]:
    """A text a rank: all are in a collective until the last one came; each is a little late now and then."""
    dice, texts = random.Random(seed), dict.fromkeys(range(size), "")
    for sn in range(count):
        due = [dice.uniform(0.0, 300.0) + (2000.0 * wait if rank == late else 0.0) for rank in range(size)]
        for rank in range(size):
            texts[rank] += json.dumps(row(rank, sn, round(1000 + max(due) - due[rank]), size=size)) + "\n"
    return texts


def told(texts: dict[int, str]) -> list[tuple[Scalar, Any]]:
    read = [fact for rank, text in texts.items() for fact in facts("nccl_inspector", text.encode(), f"rank{rank}")]
    found = [fact for fact in late_comers.derive(incident(read)) if fact.name == "late.culprit"]
    return [(fact.entity.get("rank"), fact.value) for fact in found]


def test_lines_and_pretty_objects_say_the_same() -> None:
    rows = [row(2, sn, 100.0 + sn) for sn in (8, 7)]
    plain = facts("nccl_inspector", "\n".join(json.dumps(each) for each in rows).encode())
    pretty = facts("nccl_inspector", "\n".join(json.dumps(each, indent=2) for each in rows).encode())

    def bare(found: list[Fact]) -> list[tuple[str, Any]]:
        return [(fact.name, fact.value) for fact in found]

    assert bare(plain) == bare(pretty)
    assert dict(bare(plain))["inspector.sn"] == [7, 8]
    assert plain[0].entity == {"group": "0x7f8c", "rank_in_group": 2, "node": "node001", "pid": 4002}


def test_the_one_that_waits_least_comes_last() -> None:
    assert told(dumps()) == [(5, "compute")]


@pytest.mark.parametrize(
    "texts", [dumps(late=None), dumps(size=2), dumps(count=10), dumps(wait=0.05)], ids=["equal", "two", "few", "little"]
)
def test_it_abstains(texts: dict[int, str]) -> None:
    assert told(texts) == []


def test_ranks_of_a_part_are_named_as_those_of_the_job() -> None:
    """The late one is rank 1 of a communicator of the ranks 4 to 7."""
    texts = dumps(late=None)
    for rank, text in dumps(size=4, late=1).items():
        part = [json.loads(line) for line in text.splitlines()]
        for each in part:
            each["header"] |= {"id": "0xaa"}
            each["metadata"]["pid"] = 4004 + rank
        texts[4 + rank] += "".join(json.dumps(each) + "\n" for each in part)
    assert told(texts) == [(5, "compute")]


@pytest.mark.long
def test_end_to_end(tmp_path: Path) -> None:
    for rank, text in dumps().items():
        (tmp_path / f"nccl-inspector-{rank}.log").write_text(text)
    report = triage.explain(str(tmp_path))
    best = report.hypotheses[0]
    assert (report.verdict, best.cause, best.culprits[0].rank) == ("suspected", "performance/straggler", 5)
    assert "the other 7 ranks" in best.evidence[0].text


def test_recognised_and_refused() -> None:
    data = json.dumps(row(0, 1, 2.0)).encode()
    assert recognise(data, data)[0] == "nccl_inspector"
    for foreign in (b'{"header": {"id": 1}}', b'{"step": 1, "step_ms": 4}', b"coll_exec_time_us is a field\n"):
        assert nccl_inspector.recognises(foreign, foreign) == 0


def test_cut_and_odd_objects() -> None:
    data = "".join(dumps(count=2).values()).encode()
    for end in range(0, len(data), 301):
        facts("nccl_inspector", data[:end])
    odd = row(0, 1, 2.0) | {"coll_perf": {"coll_sn": "x", "coll_exec_time_us": -1}}
    assert facts("nccl_inspector", json.dumps(odd).encode()) == []
    assert facts("nccl_inspector", json.dumps(row(0, 1, 2.0)).encode() + b"\n" + b"{" * 100_000) != []
