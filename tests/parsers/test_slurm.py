"""Slurm's lines, tables, records and JSON."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from triage.model.bundle import Document, File, Window
from triage.model.event import Event, Fact, Stamp
from triage.parsers import _slurm_records, slurm

FIXTURES = Path(__file__).parents[2] / "fixtures" / "parsers" / "slurm"


OOM = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed."


def _refuse(_: bytes) -> Any:
    raise ValueError("no pickles here")


def facts(name: str, data: bytes | None = None) -> list[Fact]:
    content = data if data is not None else (FIXTURES / name).read_bytes()
    document = Document(file=File(path=name, size=len(content)), data=content, unpickle=_refuse)
    return list(slurm.facts(document))


def values(found: list[Fact], name: str) -> list[Any]:
    return [fact.value for fact in found if fact.name == name]


def by_node(found: list[Fact], name: str) -> dict[Any, Any]:
    return {fact.entity["node"]: fact.value for fact in found if fact.name == name}


def event(line: str, file: File | None = None) -> Event:
    return slurm.parse(Window(file=file or File(path="slurm.out", size=1), lines=(line,), numbers=(7,), hit=0))


@pytest.mark.parametrize(
    "name", [path.name for path in sorted(FIXTURES.iterdir()) if not path.name.startswith(("foreign", "step-output"))]
)
def test_recognises_its_own_documents(name: str) -> None:
    assert slurm.recognises((FIXTURES / name).read_bytes(), b"") == 2


def test_output_with_launcher_lines_is_recognised_but_is_no_slurm_document() -> None:
    assert slurm.recognises((FIXTURES / "step-output.txt").read_bytes(), b"") == 1


@pytest.mark.parametrize(
    "text",
    [
        (FIXTURES / "foreign-torchrun.txt").read_bytes(),
        b'{"jobs": [{"apiVersion": "batch/v1", "kind": "Job"}]}',
        b"kernel: mlx5_core 0000:5c:00.0: Link up\n",
        b"",
        b"\xff\xfe\x00{[",
    ],
)
def test_refuses_foreign_text(text: bytes) -> None:
    assert slurm.recognises(text, b"") == 0
    assert facts("x", text) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[009-011,020]", ["node009", "node010", "node011", "node020"]),
        ("gpu-a,gpu-b[1-2]", ["gpu-a", "gpu-b1", "gpu-b2"]),
        ("rack[1-2]n[01-02]", ["rack1n01", "rack1n02", "rack2n01", "rack2n02"]),
        ("n[8-11]-ib", ["n8-ib", "n9-ib", "n10-ib", "n11-ib"]),
        ("node017", ["node017"]),
        ("None assigned", []),
        ("(null)", []),
        ("", []),
        ("node[", ["node["]),
        ("node[a-b]", ["nodea-b"]),
    ],
)
def test_node_lists(text: str, names: list[str]) -> None:
    assert _slurm_records.nodes(text) == names


def test_hostile_node_lists_end_soon() -> None:
    begin = time.monotonic()
    assert len(_slurm_records.nodes("n[0-999999999]")) == _slurm_records.NODES
    assert len(_slurm_records.nodes("n" + "[0-9]" * 5000)) == 1
    assert len(_slurm_records.nodes("a[0-9][0-9][0-9][0-9]")) == 10_000
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("CANCELLED by 1001", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("TO", "TIMEOUT"),
        ("OOM", "OUT_OF_MEMORY"),
        ("COMPLETED", "COMPLETED"),
        ("CO+", None),
        ("finished", None),
    ],
)
def test_job_states(text: str, state: str | None) -> None:
    assert _slurm_records.job_state(text) == state


@pytest.mark.parametrize(
    ("text", "length"), [("1-00:00:00", 86400), ("02:30:00", 9000), ("30:00", 1800), ("UNLIMITED", None), ("", None)]
)
def test_time_limits(text: str, length: int | None) -> None:
    assert _slurm_records.seconds(text) == length


def test_sacct_with_pipes() -> None:
    found = facts("sacct-pipe.txt")
    assert values(found, "slurm.job.id") == ["7711", "7712"]
    assert values(found, "slurm.job.state") == ["OUT_OF_MEMORY", "NODE_FAIL"]
    assert values(found, "slurm.step.state") == ["OUT_OF_MEMORY", "CANCELLED"]
    assert values(found, "slurm.step.signal") == [125, 15]
    assert values(found, "slurm.job.nodes")[0] == ["node009", "node010", "node011", "node020"]
    assert values(found, "slurm.job.time_limit") == [86400]
    assert by_node(found, "slurm.job.failed_node") == {"node020": "node020"}
    start = next(fact for fact in found if fact.name == "slurm.job.start")
    assert (start.where.line, start.value, start.time) == (
        2, "2024-05-03T10:00:00", Stamp(seconds=1714730400, kind="local"),
    )  # fmt: skip
    assert start.text.startswith("7711|llm-pretrain|")
    assert len(values(found, "slurm.job.end")) == 1


def test_sacct_without_header() -> None:
    found = facts("x", b"4|pretrain|FAILED|137:0|node017\n4.0|python|CANCELLED by 0|0:9|node017\n")
    assert values(found, "slurm.job.state") == ["FAILED"]
    assert values(found, "slurm.job.exit_code") == [137]
    assert values(found, "slurm.step.signal") == [9]


def test_sacct_with_fixed_columns_and_cut_states() -> None:
    found = facts("sacct-fixed.txt")
    assert values(found, "slurm.job.state") == ["OUT_OF_MEMORY"]
    assert values(found, "slurm.step.state") == ["CANCELLED", "FAILED"]
    assert values(found, "slurm.step.exit_code") == [0, 1]


def test_scontrol_records() -> None:
    found = facts("scontrol.txt")
    assert values(found, "slurm.job.state") == ["TIMEOUT"]
    assert values(found, "slurm.job.reason") == ["TimeLimit"]
    assert values(found, "slurm.job.restarts") == [2]
    assert values(found, "slurm.job.tasks") == [16]
    assert values(found, "slurm.job.nodes") == [["node001", "node002"]]
    assert values(found, "slurm.job.time_limit") == [172800]
    assert by_node(found, "slurm.node.state") == {"node017": "DOWN*+DRAIN", "node018": "IDLE"}
    assert by_node(found, "slurm.node.reason") == {"node017": "Kill task failed"}
    assert values(found, "slurm.step.state") == ["COMPLETED"]


def test_one_line_records() -> None:
    found = facts("x", b"JobId=9 JobName=a JobState=FAILED Reason=NonZeroExitCode ExitCode=2:0 NodeList=n1\n")
    assert values(found, "slurm.job.state") == ["FAILED"]
    assert values(found, "slurm.job.exit_code") == [2]


def test_squeue_and_sinfo() -> None:
    found = facts("squeue.txt")
    assert values(found, "slurm.job.state") == ["PENDING", "PENDING", "RUNNING"]
    assert values(found, "slurm.job.nodes") == [["node001", "node002"]]
    reasons = by_node(facts("sinfo-reasons.txt"), "slurm.node.reason")
    assert reasons == {"node017": "Not responding", "node018": "Not responding", "node020": "gres/gpu count repor"}
    states = facts("sinfo-nodes.txt")
    assert by_node(states, "slurm.node.state") == {"node017": "DOWN*", "node018": "IDLE"}
    assert by_node(states, "slurm.node.reason") == {"node017": "Not responding"}


def test_seff() -> None:
    assert values(facts("seff.txt"), "slurm.job.state") == ["TIMEOUT"]


def test_json_of_several_versions() -> None:
    found = facts("sacct.json")
    assert values(found, "slurm.job.state") == ["NODE_FAIL"]
    assert by_node(found, "slurm.job.failed_node") == {"node002": "node002"}
    assert values(found, "slurm.job.time_limit") == [3600]
    assert values(found, "slurm.job.exit_code") == [1]
    assert values(found, "slurm.step.signal") == [15]
    assert next(fact.where for fact in found).at == "jobs[0]"
    old = facts("squeue-old.json")
    assert values(old, "slurm.job.state") == ["PREEMPTED"]
    assert values(old, "slurm.job.tasks") == [4]
    assert values(old, "slurm.job.time_limit") == []
    assert by_node(facts("nodes.json"), "slurm.node.state") == {"node004": "IDLE+DRAIN"}


@pytest.mark.parametrize("data", [b"{", b'{"jobs": 3}', b'{"jobs": [3, {"job_id": []}]}', b'{"jobs":' + b"[" * 100_000])
def test_broken_json_gives_no_state(data: bytes) -> None:
    assert values(facts("x", data), "slurm.job.state") == []


@pytest.mark.parametrize(
    ("line", "node", "text"),
    [
        (0, "node017", "srun: error: node017: task 5: Exited with exit code 1"),
        (1, "node018", "srun: error: node018: tasks 8-15: Terminated"),
        (2, "n01", "slurmstepd: error: *** STEP 7.0 ON n01 CANCELLED AT 2024-05-05T10:00:12 DUE TO TIME LIMIT ***"),
        (3, "node019", "slurmstepd-node019: error: execve(): /opt/env/bin/python: No such file or directory"),
        (4, None, OOM),
    ],
)  # fmt: skip
def test_lines_of_the_launcher(line: int, node: str | None, text: str) -> None:
    found = event((FIXTURES / "step-output.txt").read_text().splitlines()[line])
    assert (found.node, found.text, found.body) == (node, text, text)


def test_the_cancelled_line_gives_the_time() -> None:
    found = event("slurmstepd: error: *** JOB 7 ON cn1 CANCELLED AT 2021-06-18T12:49:03 DUE TO PREEMPTION ***")
    assert found.time == Stamp(seconds=1624020543, kind="local")


def test_lines_of_daemons() -> None:
    lines = (FIXTURES / "daemons.txt").read_text().splitlines()
    lost, requeued, rebooted, _, _, prolog = (event(line) for line in lines)
    assert lost.node is None and lost.text.startswith("error: Nodes node[017-018]")
    assert lost.time == Stamp(seconds=1714727564.12, kind="local")
    assert requeued.node == rebooted.node == "node017"
    assert (prolog.node, prolog.pid, prolog.text) == (
        "node020", 3121, "slurmd[3121]: error: JobId=7720 prolog failed status=1:0",
    )  # fmt: skip


def test_the_file_says_the_node_when_the_line_does_not() -> None:
    found = event("slurmstepd: error: Unable to create TMPDIR", File(path="a", size=1, node="node044", rank=3))
    assert (found.node, found.rank) == ("node044", 3)
