"""What logs come wrapped in: what was printed is read, with the line on disk; what only looks like it is left alone."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage import explain
from triage.bundle.reading import plainly, printed
from triage.bundle.wrapping import NONE, wrapping

TRACE = (
    "epoch 0 begins",
    "Traceback (most recent call last):",
    '  File "/workspace/train.py", line 88, in <module>',
    "    loss = model(batch)",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 79.11 GiB "
    "of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.10 GiB memory in use. Of the "
    "allocated memory 76.00 GiB is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch but unallocated.",
    "[rank1]: bye & thanks",
)
AT = "2026-03-04T10:00:0{}.123456789Z"


def docker(end: str = "\n") -> list[str]:
    return [json.dumps({"log": line + end, "stream": "stderr", "time": AT.format(n)}) for n, line in enumerate(TRACE)]


WAYS: dict[str, list[str]] = {
    "docker": docker(),
    "docker, Windows ends": docker("\r\n"),
    "behind the prefix of a container log": [
        f"{AT.format(n)} stderr F {json.dumps({'msg': line, 'level': 'info'})}" for n, line in enumerate(TRACE)
    ],
    "Fluent Bit": [json.dumps({"date": 1772618400.5 + n, "message": line}) for n, line in enumerate(TRACE)],
    "CloudWatch": [json.dumps({"timestamp": 1772618400500 + n, "message": line}) for n, line in enumerate(TRACE)],
    "Cloud Logging": [json.dumps({"timestamp": AT.format(n), "textPayload": line}) for n, line in enumerate(TRACE)],
    "Cloud Logging, payload": [json.dumps({"jsonPayload": {"message": line}}) for line in TRACE],
    "entities": [html.escape(line) for line in TRACE],
    "breaks": [html.escape(line) + "<br>" for line in TRACE],
    "entities twice": [html.escape(html.escape(line)) for line in TRACE],
    "numbers in brackets": [f"[{n}] {line}" for n, line in enumerate(TRACE, 7)],
    "numbers and colons": [f"{n}: {line}" for n, line in enumerate(TRACE, 1)],
    "numbers and bars": [f"{n:4d} | {line}" for n, line in enumerate(TRACE, 1)],
    "cat -n": [f"{n:6d}\t{line}" for n, line in enumerate(TRACE, 1)],
    "grep -n": [f"{n * n}:{line}" for n, line in enumerate(TRACE, 1)],
    "quoted twice": [f"> > {line}" for line in TRACE],
    "time, stream, text": [f"{AT.format(n)}\tstderr\t{line}" for n, line in enumerate(TRACE)],
    "build server": [f"train\tRun it\t{AT.format(n)} {line}" for n, line in enumerate(TRACE)],
    "terminal of 80": [line[at : at + 80] for line in TRACE for at in range(0, len(line), 80)],
    "terminal of 132": [line[at : at + 132] for line in TRACE for at in range(0, len(line), 132)],
    "JSON in a terminal": [line[at : at + 100] for line in docker() for at in range(0, len(line), 100)],
}


def read(lines: list[str]) -> list[str]:
    data = "\n".join(lines).encode() + b"\n"
    return plainly(data, 1, wrapping(data)).data.decode().splitlines()


@pytest.mark.parametrize("way", WAYS)
def test_what_was_printed_is_read(way: str) -> None:
    assert wrapping("\n".join(WAYS[way]).encode()) is not NONE
    assert [line.split(" F ")[-1] for line in read(WAYS[way])] == list(TRACE)


@pytest.mark.parametrize("way", WAYS)
def test_the_cause_is_found_and_cited_where_it_stands(tmp_path: Path, way: str) -> None:
    (tmp_path / "train.log").write_text("\n".join(WAYS[way]) + "\n")
    best = explain(tmp_path).hypotheses[0]
    assert best.cause == "memory/gpu-capacity"
    proof = best.evidence[0]
    assert proof.line is not None
    assert len(proof.text) > 30
    near = "".join(WAYS[way][proof.line - 1 : proof.line + 3])
    assert proof.text.removesuffix("…") in near


NEVER: dict[str, list[str]] = {
    "plain": list(TRACE),
    "steps as JSON": [json.dumps({"step": n, "loss": 2.1, "message": ""}) for n in range(9)],
    "an error.json": [json.dumps({"message": "RuntimeError: no", "extraInfo": {"py_callstack": "a"}})],
    "objects of Kubernetes": [json.dumps({"kind": "Event", "message": "Back-off", "reason": "BackOff"})] * 3,
    "a service in Go": [json.dumps({"ts": 1.7e12, "caller": "kubelet/kubelet.go:9", "msg": "SyncLoop"})] * 3,
    "one entity in a sentence": ["written as &lt; in a page", *TRACE],
    "XML": ["<?xml version='1.0'?>", *["<name>a &lt; b &quot;c&quot; &gt;</name>"] * 5],
    "tasks of srun": [f"{n % 4}: step {n} loss 2.1" for n in range(20)],
    "ranks that spoke once": [f"{n}: hello from {'abcdefgh'[n]}" for n in range(8)],
    "epochs": [f"{n}: loss 2.{n}" for n in range(1, 20)],
    "times": [f"10:00:{n:02d} begins {n}" for n in range(20)],
    "NCCL's device": [f"[{n % 3}] host NCCL INFO Channel {n}" for n in range(20)],
    "a list": [f"[{n}] item" for n in range(4)],
    "prompts": [">>> import torch", "True", ">>> exit()"],
    "table": [f"node{n:03d}  gpu     idle   {'x' * 70}   (null) not responding" for n in range(20)],
    "records of one length": [f"worker {n:03d} has begun to load shard {n:03d} of all the data sets" for n in range(9)],
    "rules": ["=" * 80, "results of the test", "-" * 80, "all is well", "=" * 80],
    "one long line": ["a" * 90, "begins anew", "and again"],
    "tabs of a table": [f"{n}\tname\tvalue" for n in (4, 2, 9, 1)],
}  # fmt: skip


@pytest.mark.parametrize("kind", NEVER)
def test_what_only_looks_like_it_is_left_alone(kind: str) -> None:
    data = "\n".join(NEVER[kind]).encode()
    assert wrapping(data) is NONE
    assert printed(data, data) == (data, data)


def test_steps_with_line_numbers_are_read() -> None:
    lines = [f"step {n} loss 2.{n}" for n in range(9)]
    assert read([f"{n:6d}\t{line}" for n, line in enumerate(lines, 1)]) == lines


def test_ranks_of_mpi_are_ranks_and_no_line_numbers(tmp_path: Path) -> None:
    lines = [f"[{rank}] step {n} loss 2.1" for n in range(5) for rank in range(4)]
    lines += [f"[2] {line}" for line in TRACE[1:5]]
    (tmp_path / "out.log").write_text("\n".join(lines) + "\n")
    best = explain(tmp_path).hypotheses[0]
    assert [culprit.rank for culprit in best.culprits] == [2]


def test_a_record_names_its_process_and_holds_many_lines(tmp_path: Path) -> None:
    records: list[dict[str, object]] = [{"message": "begins", "rank": 0, "time": AT.format(0)}]
    records += [{"message": "failed", "rank": 3, "time": AT.format(1), "exc_info": "\n".join(TRACE[1:5])}]
    lines = [json.dumps(record) for record in records]
    (tmp_path / "out.jsonl").write_text("\n".join(lines) + "\n")
    best = explain(tmp_path).hypotheses[0]
    assert (best.cause, [culprit.rank for culprit in best.culprits]) == ("memory/gpu-capacity", [3])
    assert (best.evidence[0].line, best.evidence[0].time) == (2, "2026-03-04T10:00:01Z")


def test_lines_of_later_blocks_keep_their_numbers() -> None:
    wrapped = wrapping("\n".join(WAYS["terminal of 80"]).encode())
    plain = plainly("\n".join(WAYS["terminal of 80"]).encode() + b"\n", 101, wrapped)
    assert list(plain.lines.every()) == [101, 102, 103, 104, 105, 110]


@pytest.mark.parametrize("wrap", [docker, lambda: WAYS["entities"], lambda: WAYS["terminal of 80"]])
def test_what_is_broken_is_kept_as_it_is(wrap: Callable[[], list[str]]) -> None:
    lines = [*wrap(), '{"log": "cut', "[" * 5000, '{"log": 7}', "\ufffd\x1b[0m"]
    assert len(read(lines)) >= len(TRACE) + 3


@given(st.lists(st.binary(max_size=90), max_size=30), st.sampled_from([b"", b"> ", b'{"log":"', b"1: ", b"&lt;"]))
def test_no_bytes_break_it(lines: list[bytes], head: bytes) -> None:
    data = b"\n".join(head + line for line in lines)
    plain = plainly(data, 1, wrapping(data))
    count = plain.data.count(b"\n") + (not plain.data.endswith(b"\n"))
    assert len(plain.lines.every()) == count
