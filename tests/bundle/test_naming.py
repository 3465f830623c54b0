"""Which node, rank and process a path names; what looks like it and is not."""

from __future__ import annotations

import pytest

from triage.bundle.naming import Identity, identities, identity, refusal, safe, tidy, trailing_rank, unique

NAMES = {
    # ranks
    "rank3.log": Identity(rank=3),
    "rank_3/stderr.log": Identity(rank=3),
    "logs/Rank-12.txt": Identity(rank=12),
    "log_rank0.txt": Identity(rank=0),
    "steps.rank1.jsonl": Identity(rank=1),
    "fr.rank1.pkl": Identity(rank=1),
    "snapshot.rank0.pickle": Identity(rank=0),
    "kineto.rank7.json.gz": Identity(rank=7),
    "fr_rank0": Identity(rank=0),
    "nccl_trace_rank_12": Identity(rank=12),
    "comm_lib_trace_rank_12": Identity(rank=12),
    "_dump_12": Identity(rank=12),
    "dump_3.json": Identity(rank=3),
    "nccl_dump_5": Identity(rank=5),
    "nemo_log_globalrank-4_localrank-0.txt": Identity(rank=4, local_rank=0),
    "local_rank_2.log": Identity(local_rank=2),
    "nccl.rank3.log": Identity(rank=3),
    "rank0/rank5.log": Identity(rank=5),
    # no ranks
    "mp_rank_00_model_states.pt": Identity(),
    "zero_pp_rank_0_mp_rank_00_optim_states.pt": Identity(),
    "node_rank1.log": Identity(),
    "frank3.log": Identity(),
    "ranks.log": Identity(),
    "ranking_3.txt": Identity(),
    "rank.log": Identity(),
    "step1000/train.log": Identity(),
    "v2/train.log": Identity(),
    "2026-08-01/train.log": Identity(),
    "core_dump_123": Identity(),
    "slurm-1234_7.out": Identity(),
    "slurm-1234.out": Identity(),
    "train_3.log": Identity(),
    "train-2026-08-01.log": Identity(),
    # nodes
    "nodes/node017/kernel_log/dmesg.txt": Identity(node="node017"),
    "nodes/job-worker-3/pod.log": Identity(node="job-worker-3"),
    "bundle/nodes/10.0.3.17/dmesg.txt": Identity(node="10.0.3.17"),
    "nodes/summary.txt": Identity(),
    "nodes/gpu-b14-03/rank16.log": Identity(node="gpu-b14-03", rank=16),
    "node-0/train.log": Identity(node="node-0"),
    "node017/dmesg": Identity(node="node017"),
    "node017.cluster.example/dmesg": Identity(node="node017.cluster.example"),
    "host-a/train.log": Identity(node="host-a"),
    "ip-10-0-3-84/dmesg": Identity(node="ip-10-0-3-84"),
    "sosreport-node017-2026-08-01-abcdefg/var/log/messages": Identity(node="node017"),
    "sosreport-gpu-b14-03-0123456-2026-08-01-abcdefg/sos_logs/sos.log": Identity(node="gpu-b14-03"),
    "node017.log": Identity(node="node017"),
    "dmesg-node017.txt": Identity(node="node017"),
    "gpu07-dmesg.txt": Identity(node="gpu07"),
    "gpu07.dmesg": Identity(node="gpu07"),
    "kern_w3.log": Identity(node="w3"),
    "dmesg_run3.txt": Identity(),
    "kern.log.1": Identity(),
    "node017.dmesg.txt": Identity(node="node017"),
    "nvidia-bug-report-node017.log.gz": Identity(node="node017"),
    "dmesg_10.0.3.17.log": Identity(node="10.0.3.17"),
    # no nodes
    "host-memory.txt": Identity(),
    "node-exporter.log": Identity(),
    "gpu-b14-03.log": Identity(),
    "dmesg-2026-08-01.txt": Identity(),
    "nccl-2.19.3.txt": Identity(),
    "Python-3.11.txt": Identity(),
    "logs/train.log": Identity(),
    "train/a.log": Identity(),
    "evidence/a.log": Identity(),
    "job/a.log": Identity(),
    "job-12/a.log": Identity(),
    "gpu3/a.log": Identity(),
    "worker-3/a.log": Identity(),
    "hostname/a.log": Identity(),
    "compute/a.log": Identity(),
    # NCCL: %h.%p
    "nccl.node017.4021.log": Identity(node="node017", pid=4021),
    "nccl.node017.cluster.example.4021.log": Identity(node="node017.cluster.example", pid=4021),
    "nccl.gpu-b14-03.77": Identity(node="gpu-b14-03", pid=77),
    "nccl_debug.10.0.3.17.4021.log": Identity(node="10.0.3.17", pid=4021),
    "nccl_node017_4021.txt": Identity(node="node017", pid=4021),
    "nccl.4021.log": Identity(pid=4021),
    "nccl.log": Identity(),
    "nccl.debug.log": Identity(),
    "nccl-tests-16.log": Identity(),
    "nccl-2.19.3.log": Identity(),
    "nodes/node017/nccl.log": Identity(node="node017"),
    "rank0-pid4021.log": Identity(rank=0, pid=4021),
    "node017_4021.1754043660123456789.pt.trace.json.gz": Identity(node="node017", pid=4021),
    # Slurm %N-%t
    "slurm-1234-node017-3.out": Identity(node="node017", rank=3),
    "log-node01-0.txt": Identity(node="node01", rank=0),
    "slurm-1234-gpu-b14-03-12.err": Identity(node="gpu-b14-03", rank=12),
    "log-step100-3.txt": Identity(),
    # torchrun
    "attempt_0/3/stderr.log": Identity(local_rank=3, attempt=0),
    "nodes/worker-1.svc/torchrun/4019_k2v9/attempt_2/7/stdout.log": Identity("worker-1.svc", None, 7, None, 2),
    "attempt_1/error.json": Identity(attempt=1),
}  # fmt: skip


@pytest.mark.parametrize("path", NAMES)
def test_one_name(path: str) -> None:
    assert identity(path) == NAMES[path]


def nodes(*paths: str) -> list[str | None]:
    found = identities(paths)
    return [found[path].node for path in paths]


@pytest.mark.parametrize(
    ("folders", "believed"),
    [
        (("worker-0", "worker-1"), True),
        (("gpu-b14-03", "gpu-b14-04"), True),
        (("r8i3n1", "r8i3n2"), True),
        (("theta01", "theta02"), True),
        (("trainer1.pod.svc", "trainer2.pod.svc"), True),
        (("worker-0",), False),
        (("theta01",), False),
        (("gpu0", "gpu1"), False),
        (("run01", "run02"), False),
        (("step0100", "step0200"), False),
        (("llama-7b", "llama-13b"), False),
        (("baseline1", "baseline2"), False),
        (("exp-3", "exp-4"), False),
        (("2026-08-01", "2026-08-02"), False),
        (("logs", "train"), False),
        (("v1", "v2"), False),
        (("attempt_0", "attempt_1"), False),
    ],
)
def test_folders_are_hosts_when_several_look_alike(folders: tuple[str, ...], believed: bool) -> None:
    paths = [f"logs/{folder}/train.log" for folder in folders]
    assert nodes(*paths) == [folder if believed else None for folder in folders]


def test_files_are_of_hosts_when_several_look_alike() -> None:
    assert nodes("gpu-b14-03.log", "gpu-b14-04.log") == ["gpu-b14-03", "gpu-b14-04"]
    assert nodes("x/dmesg.r8i3n1.txt", "x/dmesg.r8i3n2.txt") == ["r8i3n1", "r8i3n2"]
    assert nodes("sweep01.log", "sweep02.log", "loss-lr01.txt", "loss-lr02.txt") == [None] * 4
    assert nodes("seq2seq-base1.log", "seq2seq-base2.log") == [None, None]
    assert nodes("train-run01.log", "train-run02.log") == [None, None]
    assert nodes("loss-2026-08-01.txt", "loss-2026-08-02.txt") == [None, None]
    assert nodes("gpu0.csv", "gpu1.csv", "llama-7b.log", "llama-13b.log", "slurm-12.out", "slurm-13.out") == [None] * 6
    assert nodes("ras-16.json", "ras-10.json", "rank01.log", "rank02.log", "part-01.log", "part-02.log") == [None] * 6


def test_task_numbers_are_ranks_only_when_a_node_runs_several() -> None:
    several = [f"slurm-7-node{n}-{t}.out" for n, t in ((1, 0), (1, 1), (2, 2), (2, 3))]
    assert [one.rank for one in identities(several).values()] == [0, 1, 2, 3]
    launchers = ["slurm-7-node1-0.out", "slurm-7-node2-1.out"]
    assert [(one.node, one.rank) for one in identities(launchers).values()] == [("node1", None), ("node2", None)]


def test_trailing_number_of_a_dump() -> None:
    assert [trailing_rank(path) for path in ("x/my_dump7", "trace_12.json", "fr.pkl")] == [7, 12, None]


def test_names_made_safe() -> None:
    assert safe("a\x1b[31m\n\udce9\u202e.log") == "a\\x1b[31m\\x0a\\xe9\\x202e.log"
    assert safe("größer 1.log") == "größer 1.log"
    assert len(safe("x" * 9999)) == 1024
    assert tidy("./a//b/./c") == "a/b/c"
    taken: set[str] = set()
    assert [unique("a", taken) for _ in range(3)] == ["a", "a#2", "a#3"]
    assert [bool(refusal(name)) for name in ("a/b", "a..b", "/a", "..", "a/../b", "..\\a", "C:\\a")] == [
        0,
        0,
        1,
        1,
        1,
        1,
        1,
    ]
