"""Who printed a line."""

from __future__ import annotations

import pytest

from triage.parsers._prefix import Prefix, split

CASES = [
    ("[rank3]: Traceback", {"rank": 3}, "Traceback"),
    ("[rank3]:[E1118 20:32:23.9 X.cpp:1] [Rank 3] w", {"rank": 3}, "[E1118 20:32:23.9 X.cpp:1] [Rank 3] w"),
    ("2: [rank17]:[E1118 x", {"task": 2, "rank": 17}, "[E1118 x"),
    ("  3: foo", {"task": 3}, "foo"),
    ("[default3]:[rank19]: Tr", {"local_rank": 3, "rank": 19}, "Tr"),
    ("[trainer0|8]: x", {"local_rank": 0, "rank": 8}, "x"),
    ("[1,3]<stdout>:x", {"rank": 3}, "x"),
    ("2021-03-10T13:22:37.443Z: [1,0]<stderr>:OSError: x", {"rank": 0}, "OSError: x"),
    ("Mon Sep  7 12:00:00 2020[1,0]<stderr>:hello", {"rank": 0}, "hello"),
    ("[prterun-n1-123@1,3]<stdout>: x", {"rank": 3}, "x"),
    ("[1,mpirank:3,algo-2]<stderr>:Traceback", {"rank": 3, "node": "algo-2"}, "Traceback"),
    ("[1,mpirank:3] <stderr>:x", {}, "[1,mpirank:3] <stderr>:x"),
    ("(worker, rank=3, pid=77) x", {"rank": 3, "pid": 77}, "x"),
    ("(RayTrainWorker pid=123, ip=10.0.0.5) Traceback", {"pid": 123, "node": "10.0.0.5"}, "Traceback"),
    ("node017: [rank1]: x", {"node": "node017", "rank": 1}, "x"),
    ("worker-1.train.svc: foo", {"node": "worker-1.train.svc"}, "foo"),
    ("10.0.3.17: foo", {"node": "10.0.3.17"}, "foo"),
    ("my-job-worker-0 pytorch Traceback", {"node": "my-job-worker-0"}, "Traceback"),
    ("[pod/my-job-worker-0/pytorch] x", {"node": "my-job-worker-0"}, "x"),
    ("worker-1  | Traceback", {"node": "worker-1"}, "Traceback"),
    ("2024-01-01T00:00:00.123456Z stderr F [rank3]:   File", {"rank": 3}, "  File"),
    ("[2026-08-10 03:05:11] [rank 3] step 10", {"rank": 3}, "step 10"),
    ("Jan 21 04:41:44 host7 python[123]: foo", {"node": "host7", "pid": 123}, "foo"),
    ("[2024-02-27T21:35:28.893536Z] fa88a9df [rank=4] ||   what(): x", {"rank": 4}, "  what(): x"),
    ("> [rank2]: quoted", {"rank": 2}, "quoted"),
    ("> TypeError: 'NoneType' object is not subscriptable", {}, "TypeError: 'NoneType' object is not subscriptable"),
    ('>   File "train.py", line 3, in <module>', {}, '  File "train.py", line 3, in <module>'),
]
PLAIN = [
    "RuntimeError: CUDA error",
    "KeyError: 3",
    "sqlite3.OperationalError: table steps has 11 columns but 7 values were supplied",
    "urllib3.exceptions.MaxRetryError: HTTPSConnectionPool(host='hub', port=443)",
    "E0305 10:00:00.1 1 x.py:3] foo",
    "epoch1: 3",
    "gpu1: 35 C",
    "2024-01-01 10:00:00,123 - root - INFO - step: 1",
    "12:34:56 foo",
    "[0]:",
    "  time      : 2026-08-10_03:05:11",
    "ip-10-0-3-95:882112:882112 [3] NCCL INFO x",
    "[E socket.cpp:12] [c10d] x",
    "[Rank 1] Watchdog caught",
    "> building train, validation, and test datasets ...",
    "",
]


@pytest.mark.parametrize(("line", "named", "rest"), CASES)
def test_what_a_prefix_names(line: str, named: dict[str, object], rest: str) -> None:
    found = split(line)
    assert found.rest == rest
    assert line[found.start :] == rest
    assert found == Prefix(start=found.start, rest=rest, **named)  # type: ignore[arg-type]


@pytest.mark.parametrize("line", PLAIN)
def test_lines_without_a_prefix_stay_whole(line: str) -> None:
    assert split(line) == Prefix(start=0, rest=line)


def test_long_and_hostile_lines_end() -> None:
    assert split("[" * 100_000).start == 0
    assert split("1: " * 10_000).start <= 3 * 6
