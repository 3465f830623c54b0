"""Tracebacks, watchdog messages, failure tables, crashes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cutting import FIXTURES, event_at, lines_of

from triage.model.bundle import Document, File
from triage.parsers import torch_log


def refuse(_: bytes) -> Any:
    raise ValueError


def test_interleaved_tracebacks_are_told_apart() -> None:
    lines = lines_of("torch_log", "interleaved_ranks.log")
    one = event_at(torch_log, lines, "KeyError")
    assert (one.rank, one.text) == (1, "KeyError: 'input_ids'")
    assert one.body.startswith("Traceback") and one.body.endswith("KeyError: 'input_ids'")
    assert "barrier" not in one.body
    zero = event_at(torch_log, lines, "ncclRemoteError")
    assert zero.rank == 0
    assert zero.body.endswith("remote peer 10.0.3.17<41022>")
    assert "KeyError" not in zero.body


@pytest.mark.parametrize(
    "part", ["Traceback", 'data.py", line 12', "KeyError", "During handling", "ValueError: no shard"]
)
def test_chained_exceptions_are_one_message_from_any_line(part: str) -> None:
    found = event_at(torch_log, lines_of("torch_log", "chained.log"), part)
    assert found.body.startswith('Traceback (most recent call last):\n  File "/workspace/data.py", line 12')
    assert found.body.endswith("ValueError: no shard 7")
    assert part in found.text


def test_an_entry_of_the_failure_table_names_its_rank() -> None:
    lines = lines_of("torch_log", "torchrun_table.log")
    killed = event_at(torch_log, lines, "exitcode  : -9")
    assert (killed.rank, killed.local_rank, killed.node) == (9, 1, "node017")
    assert "4023" not in killed.body and "[2]:" not in killed.body
    cause = event_at(torch_log, lines, "Root Cause")
    assert cause.rank == 8
    assert "exitcode  : 1 (pid: 4021)" in cause.body and "-9" not in cause.body


@pytest.mark.parametrize(
    "head", ["2026-03-01T10:00:01.123456789Z ", "2026-03-01 10:00:01,123 ", "[2026-03-01 10:00:01] ", "    "]
)
def test_a_traceback_with_the_same_head_on_each_line(head: str) -> None:
    lines = ["step 10 loss 2.1", "Traceback (most recent call last):", '  File "/work/train.py", line 12, in main']
    lines += [
        "    run(batch)",
        "        ~~~^^^^^",
        "TypeError: string indices must be integers, not 'str'",
        "step 11 loss 2.0",
    ]
    body = event_at(torch_log, [head + line for line in lines], "TypeError").body.split("\n")
    assert body[0] == "Traceback (most recent call last):"
    assert "TypeError: string indices must be integers, not 'str'" in body  # at the begin of its line


def test_the_last_entry_quoted_without_its_rules_names_its_rank() -> None:
    lines = [
        "",
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-08-13_08:21:19",
        "  host      : node017",
    ]
    lines += ["  rank      : 6 (local_rank: 6)", "  exitcode  : -6 (pid: 4021)", "", "[2026-08-13 08:25:00] next run"]
    body = event_at(torch_log, lines, "Root Cause").body
    assert "rank      : 6" in body and "(pid: 4021)" in body and "next run" not in body


def test_a_watchdog_message_takes_its_frames_along() -> None:
    lines = lines_of("torch_log", "watchdog.log")
    first = event_at(torch_log, lines, "Watchdog caught")
    assert first.rank == 3 and first.body == first.text
    assert first.time is not None and first.time.kind == "yearless"
    ended = event_at(torch_log, lines, "Process group watchdog")
    assert ended.body.endswith("frame #1: clone + 0x43 (0x7f in /lib64/libc.so.6)")
    frame = event_at(torch_log, lines, "frame #0")
    assert frame.rank == 3 and frame.body == ended.body
    assert event_at(torch_log, lines, "terminate called").body.count("\n") == 1
    assert event_at(torch_log, lines, "Fatal Python").body.count("Thread 0x") == 1


def test_a_broken_out_of_memory_line_is_joined() -> None:
    found = event_at(torch_log, lines_of("torch_log", "wrapped_oom.log"), "out of memory")
    assert "79.20 GiB total capacity; 70.10 GiB already allocated" in found.body
    assert found.body.endswith("avoid fragmentation.")


def test_a_stack_dump_keeps_its_thread() -> None:
    found = event_at(torch_log, lines_of("torch_log", "py_spy.txt"), "_try_get_data")
    assert found.body.startswith('Thread 4021 (active): "MainThread"')
    assert "Thread-1" not in found.body and "train.py:91" in found.body


def test_error_json_is_read_as_python_printed_it() -> None:
    data = (FIXTURES / "torch_log" / "error.json").read_bytes()
    found = event_at(torch_log, data.decode().splitlines(), "device-side")
    assert 'File "/workspace/train.py", line 9' in found.body
    document = Document(file=File(path="3/error.json", size=1, local_rank=3), data=data, unpickle=refuse)
    values = {fact.name: fact for fact in torch_log.facts(document)}
    assert values["torch.error_json.timestamp"].value == 1786331111
    assert values["torch.error_json.message"].entity == {"local_rank": 3}


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"message": 3}', b'{"message": ' + b"[" * 5000, b"\xff\xfe", b"hello"]
)
def test_bad_documents_give_nothing(data: bytes) -> None:
    assert list(torch_log.facts(Document(file=File(path="e", size=1), data=data, unpickle=refuse))) == []


def test_error_json_with_a_plain_message() -> None:
    data = json.dumps({"message": "killed"}).encode()
    document = Document(file=File(path="e", size=1), data=data, unpickle=refuse)
    assert [fact.value for fact in torch_log.facts(document)] == ["killed"]


def test_a_launcher_task_is_the_rank_unless_it_is_a_node() -> None:
    alone = ["3: Traceback (most recent call last):", "3: KeyError: 'x'"]
    assert event_at(torch_log, alone, "KeyError").rank == 3
    nodes = ["1: [rank9]: hello", "1: KeyError: 'x'"]
    assert event_at(torch_log, nodes, "KeyError").rank is None


def test_recognised_by_what_it_says_and_not_by_its_name() -> None:
    assert torch_log.recognises((FIXTURES / "torch_log" / "chained.log").read_bytes(), b"") == 2
    assert torch_log.recognises((FIXTURES / "torch_log" / "error.json").read_bytes(), b"") == 2
    quiet = b"[    0.000000] Linux version 6.8.0\n[    1.2] pci 0000:00:00.0: enabled\n" * 50
    assert torch_log.recognises(quiet, quiet) == 0


def test_a_drawn_traceback_is_joined() -> None:
    lines = [
        "╭───────────── Traceback (most recent call last) ─────────────╮",
        "│ /workspace/train.py:91 in main                               │",
        "│ ❱ 91     x = batch['input_ids']                              │",
        "╰──────────────────────────────────────────────────────────────╯",
        "KeyError: 'input_ids'",
        "2026-05-01 10:00:00,123 INFO bye",
    ]
    found = event_at(torch_log, lines, "KeyError")
    assert found.body == "\n".join(lines[:5])


def test_the_rank_behind_a_progress_bar() -> None:
    line = " 10%|# | 1021/100000 [45:39<51:20:53, 1.87s/it][rank2]:[E723 01:58:45.5 ProcessGroupNCCL.cpp:632] Watchdog"
    assert event_at(torch_log, [line], "Watchdog").rank == 2


def test_a_traceback_that_rank_0_prints_for_another_is_the_others() -> None:
    lines = [
        "Traceback (most recent call last): (RANK 3)",
        '  File "filesystem.py", line 690, in read_data',
        "    with self.fs.create_stream(path) as stream:",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/ckpt/__3_0.distcp'",
    ]
    assert event_at(torch_log, lines, "FileNotFoundError").rank == 3


def test_endless_messages_are_cut() -> None:
    lines = ["Traceback (most recent call last):", *['  File "a.py", line 1, in f' for _ in range(5000)]]
    found = event_at(torch_log, lines, "Traceback")
    assert len(found.body) < 40_001
