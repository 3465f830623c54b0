"""Where ranks stand: what a stack tells by itself, and beside the counters of the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import triage
from tests.analysis.build import incident, signal
from triage.analysis import hangs, standing
from triage.analysis._standing import stands
from triage.model.base import Value
from triage.model.event import Fact, Where
from triage.model.incident import Incident

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "parsers" / "stacks"
WAITS = ["all_reduce (torch/distributed/distributed_c10d.py:3252)", "main (train.py:30)", "<module> (train.py:31)"]
PROGRAM = ["main (train.py:22)", "<module> (train.py:31)"]


def stack(rank: int, frames: list[str], dump: int = 0, name: str = "stack.frames") -> Fact:
    return Fact(name=name, value=list(frames), where=Where(file=f"{dump}/rank{rank}", line=5), entity={"rank": rank})


def job(odd: list[str], *more: Fact, ranks: int = 4, timed_out: bool = True) -> Incident:
    """Rank 2 stands at `odd`, the others in one collective."""
    found = [stack(rank, odd if rank == 2 else WAITS) for rank in range(ranks)]
    return incident([*found, *more], [signal("torch/watchdog-timeout", rank=0)] if timed_out else [])


def values(found: Iterator[Fact]) -> dict[str, Value]:
    return {fact.name: fact.value for fact in found}


@pytest.mark.parametrize(
    ("frames", "at"),
    [
        (["_try_get_data (torch/utils/data/dataloader.py:1011)", *PROGRAM], "input"),
        (["wait (threading.py:306)", "get (queue.py:179)", "x (torch/utils/data/dataloader.py:1)", *PROGRAM], "input"),
        (["_save (/opt/venv/lib/python3.11/site-packages/torch/serialization.py:1312)", *PROGRAM], "checkpoint-write"),
        (["_load (torch/serialization.py:1312)", *PROGRAM], "checkpoint-read"),
        (["wait (threading.py:306)", "acquire (filelock/_api.py:9)", *PROGRAM], "lock"),
        (["wait (threading.py:306)", "load (torch/utils/cpp_extension.py:9)", *PROGRAM], "compile"),
        (["_engine_run_backward (torch/autograd/graph.py:9)", *PROGRAM], "device"),
        (
            ["broadcast (torch/distributed/distributed_c10d.py:1)", "save_checkpoint (engine.py:2)", *PROGRAM],
            "collective",
        ),
        (["read (libc.so.6)", "read_text (pathlib.py:1058)", *PROGRAM], "file"),
        (["interaction (pdb.py:384)", "trace_dispatch (bdb.py:90)", *PROGRAM], "debugger"),
        (["save (myproject/plots.py:12)", *PROGRAM], "code"),
    ],
)
def test_what_a_stack_is_at(frames: list[str], at: str) -> None:
    (stand,) = stands(incident([stack(0, frames)]))
    assert stand.at == at
    assert stand.user == "main (train.py:22)"


@pytest.mark.parametrize(
    ("frames", "user"),
    [
        (["wait (threading.py:3)", "work (job.py:7)", "_wrap (torch/multiprocessing/spawn.py:9)",
          "<module> (<string>:1)"], "work (job.py:7)"),
        (["f (/srv/train/data.py:3)", "<module> (/srv/train/train.py:9)"], "f (/srv/train/data.py:3)"),
        (["read (libc.so.6)", "run (runpy.py:1)"], "run (runpy.py:1)"),
    ],
)  # fmt: skip
def test_where_the_program_left_its_own_code(frames: list[str], user: str) -> None:
    (stand,) = stands(incident([stack(0, frames)]))
    assert stand.user == user


@pytest.mark.parametrize(
    ("kernel", "on"),
    [
        (["rpc_wait_bit_killable [sunrpc]", "nfs4_do_close [nfsv4]"], "storage"),
        (["osc_extent_wait [osc]", "vfs_read"], "storage"),
        (["folio_wait_bit_common", "filemap_read"], "storage"),
        (["anon_pipe_read", "vfs_read"], "pipe"),
        (["futex_do_wait", "__futex_wait"], "lock"),
        (["os_acquire_rwlock_write [nvidia]"], "driver"),
        (["do_syscall_64"], None),
    ],
)
def test_what_the_kernel_sleeps_on(kernel: list[str], on: str | None) -> None:
    (stand,) = stands(incident([stack(0, PROGRAM), stack(0, kernel, name="stack.kernel")]))
    assert stand.on == on


def test_a_file_system_below_the_late_rank_explains_it() -> None:
    kernel = stack(2, ["rpc_wait_bit_killable [sunrpc]"], name="stack.kernel")
    found = values(hangs.derive(job(["read_shard (data.py:7)", *PROGRAM], kernel)))
    assert found["hang.missing_ranks"] == [2]
    assert (found["hang.stack"], found["hang.stack.sleeps"], found["hang.explained"]) == ("code", "storage", "yes")


def test_code_of_its_own_explains_nothing() -> None:
    found = values(hangs.derive(job(["tokenize (data.py:7)", *PROGRAM])))
    assert (found["hang.stack"], found["hang.explained"]) == ("code", "no")


def test_one_moment_without_a_timeout_is_no_hang() -> None:
    quiet = job(["tokenize (data.py:7)", *PROGRAM], timed_out=False)
    assert values(hangs.derive(quiet)) == {}
    assert values(standing.derive(quiet))["stack.differ"] == "yes"


def test_a_second_dump_decides() -> None:
    odd = ["tokenize (data.py:7)", *PROGRAM]
    same = [stack(rank, odd if rank == 2 else WAITS, dump=1) for rank in range(4)]
    assert values(hangs.derive(job(odd, *same, timed_out=False)))["hang.missing_ranks"] == [2]
    went_on = job(odd, *same[:2], stack(2, ["tokenize (data.py:9)", *PROGRAM], dump=1), timed_out=True)
    assert values(hangs.derive(went_on)) == {}
    assert values(standing.derive(went_on)) == {}


def test_many_elsewhere_blame_nobody() -> None:
    found = [stack(rank, WAITS if rank < 4 else PROGRAM) for rank in range(8)]
    busy = incident(found, [signal("torch/watchdog-timeout", rank=0)])
    assert values(hangs.derive(busy)) == values(standing.derive(busy)) == {}


def test_one_rank_alone_in_a_call_is_a_mismatch_when_all_were_looked_at() -> None:
    alone = ["broadcast (torch/distributed/distributed_c10d.py:3151)", "main (train.py:28)", "<module> (train.py:31)"]
    assert values(hangs.derive(job(alone)))["hang.verdict"] == "mismatch"
    transfer = ["recv (torch/distributed/distributed_c10d.py:2)", *alone[1:]]
    assert values(hangs.derive(job(transfer))) == {}, "a transfer waits for one rank, wherever the others are"
    part = [fact for fact in job(alone).facts if fact.entity["rank"] != 0]
    assert values(hangs.derive(incident(part, [signal("torch/watchdog-timeout", rank=1)]))) == {}


def answer(folder: str) -> tuple[str, str, int | None]:
    report = triage.explain(str(FIXTURES / folder))
    best = report.hypotheses[0]
    return report.verdict, best.cause, best.culprits[0].rank


def test_the_worker_that_the_loader_waits_for_is_told() -> None:
    """Workers of the other ranks wait for work themselves, and are not."""
    report = triage.explain(str(FIXTURES / "worker"))
    assert (
        "its loader worker is at work: process 1933, Shards.__getitem__ (train.py:12)"
        in report.hypotheses[0].evidence[0].text
    )


def test_recorded_hangs() -> None:
    """The second kind of dump of one process is a second look; a single one without any timeout only suspects."""
    assert answer("worker") == ("diagnosed", "data/loader-bottleneck", 2)
    assert answer("ckpt") == ("suspected", "collective/rank-stalled", 0)
    assert answer("lock") == ("suspected", "collective/rank-stalled", 2)
    assert triage.explain(str(FIXTURES / "branch")).verdict == "inconclusive"


WAITING = """\
Thread {pid} (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3252)
    main (train.py:30)
    <module> (train.py:31)
"""
READING = """\
Thread {pid} (idle): "MainThread"
    read_shard (data.py:7)
    main (train.py:22)
    <module> (train.py:31)
"""
TIMEOUT = (
    "[rank{rank}]:[E331 12:44:10.104 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=91, OpType=ALLREDUCE, NumelIn=128, NumelOut=128, Timeout(ms)=600000) ran for 600021 "
    "milliseconds before timing out."
)


@pytest.mark.parametrize(
    ("kernel", "cause"),
    [
        ("[<0>] rpc_wait_bit_killable+0x24/0xb0 [sunrpc]", "storage/stall"),
        ("[<0>] futex_wait+0x67/0x120", "collective/rank-stalled"),
    ],
)
def test_a_kernel_stack_chooses_the_cause(kernel: str, cause: str, tmp_path: Path) -> None:
    """The same hang, the same Python stack; what the kernel says of the late rank decides."""
    for rank in range(4):
        text = (READING if rank == 2 else WAITING).format(pid=100 + rank)
        (tmp_path / f"rank{rank}.pid{100 + rank}.stack.txt").write_text(text)
    (tmp_path / "rank2.pid102.kernel-stack.txt").write_text(kernel + "\n")
    (tmp_path / "train.log").write_text("\n".join(TIMEOUT.format(rank=rank) for rank in (0, 1, 3)) + "\n")
    report = triage.explain(str(tmp_path))
    best = report.hypotheses[0]
    assert (report.verdict, best.cause, best.culprits[0].rank) == ("diagnosed", cause, 2)
    assert "read_shard (data.py:7)" in " ".join(each.text for each in best.evidence)
