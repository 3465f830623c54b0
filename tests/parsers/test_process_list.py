"""Where processes sleep, as `ps` prints it on a node."""

from __future__ import annotations

from pathlib import Path

import triage
from tests.analysis.build import facts
from triage.parsers import process_list, recognise

TABLE = """\
    PID    PPID    PGID USER     STAT WCHAN                            PSR %CPU %MEM   RSS ELAPSED                  STARTED COMMAND
      2       0       0 root     S    kthreadd                           0  0.0  0.0     0   15215 Mon Nov 30 17:41:26 2026 [kthreadd]
   4021    4000    4000 me       Sl   futex_wait_queue                   3 99.0  2.1 91000     812 Mon Nov 30 21:41:26 2026  \\_ /opt/venv/bin/python train.py
   4022    4000    4000 me       Dl   rpc_wait_bit_killable              4  0.1  2.1 91000     812 Mon Nov 30 21:41:26 2026  \\_ /opt/venv/bin/python train.py
   4023    4000    4000 me       Rl   -                                  5 99.0  2.1 91000     812 Mon Nov 30 21:41:26 2026  \\_ /opt/venv/bin/python train.py
"""  # noqa: E501
STACK = """\
Thread {pid} (idle): "MainThread"
    {frame}
    <module> (train.py:31)
"""


def test_python_processes_that_sleep() -> None:
    found = facts("process_list", TABLE.encode())
    assert [(fact.entity["pid"], fact.value) for fact in found] == [
        (4021, ["futex_wait_queue"]), (4022, ["rpc_wait_bit_killable"]),
    ]  # fmt: skip
    assert [fact.where.line for fact in found] == [3, 4]


def test_recognised_and_refused() -> None:
    assert recognise(TABLE.encode(), TABLE.encode())[0] == "process_list"
    for foreign in (b"  PID TTY          TIME CMD\n 4021 pts/0    00:00:00 python\n", b"step 1 loss 2.0\n"):
        assert process_list.recognises(foreign, foreign) == 0


def test_cut_anywhere() -> None:
    for end in range(0, len(TABLE), 29):
        facts("process_list", TABLE[:end].encode())


def test_without_root_the_list_tells_what_holds_the_late_rank(tmp_path: Path) -> None:
    """Two looks at four ranks of a node; `ps` is not named by rank, and is joined by process."""
    waits, reads = "all_reduce (torch/distributed/distributed_c10d.py:3252)", "read_shard (data.py:7)"
    home = tmp_path / "nodes" / "node017"
    for look in ("1", "2"):
        folder = home / look
        folder.mkdir(parents=True)
        for rank in range(4):
            pid = 4020 + rank
            text = STACK.format(pid=pid, frame=reads if rank == 2 else waits)
            (folder / f"rank{rank}.pid{pid}.stack.txt").write_text(text)
    (home / "ps.txt").write_text(TABLE)
    report = triage.explain(str(tmp_path))
    best = report.hypotheses[0]
    assert (report.verdict, best.cause) == ("diagnosed", "storage/stall")
    assert (best.culprits[0].node, best.culprits[0].rank) == ("node017", 2)
