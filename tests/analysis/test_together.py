"""Two things beside each other: lines of one node, a line and a setting, and what is not beside anything."""

from __future__ import annotations

from pathlib import Path

import pytest

import triage
from triage.model.report import Hypothesis

HCA = "{node}:70:70 [0] NCCL INFO NCCL_IB_HCA set by environment to {value}."
NONE = "{node}:70:502 [0] NCCL INFO NET/IB : No device found."
TOPOLOGY = "{node}:70:70 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /etc/nccl/topo.xml"
MISSING = "{node}:70:70 [0] graph/xml.cc:342 NCCL WARN Could not open XML topology file /etc/nccl/topo.xml"
FAILED = "RuntimeError: the job ended here"


def explained(folder: Path, *lines: str) -> dict[str, Hypothesis]:
    (folder / "train.log").write_text("\n".join([*lines, FAILED]) + "\n")
    return {each.cause: each for each in triage.explain(str(folder)).hypotheses}


def test_a_line_and_the_setting_that_makes_it_a_fault(tmp_path: Path) -> None:
    found = explained(tmp_path, HCA.format(node="node1", value="mlx5_9"), NONE.format(node="node1"))
    cited = [each for each in found["network/rdma-config"].evidence if each.signature == "network/rdma-device-hidden"]
    assert "No device found" in cited[0].text and "set by environment to mlx5_9" in cited[0].text
    assert [each.node for each in found["network/rdma-config"].culprits] == ["node1"]


@pytest.mark.parametrize(
    "lines",
    [
        [NONE.format(node="node1")],
        [HCA.format(node="node1", value="mlx5_9")],
        [HCA.format(node="node1", value="mlx5_9"), NONE.format(node="node2")],
    ],
    ids=["alone", "and found", "on another node"],
)
def test_one_of_two_says_nothing(lines: list[str], tmp_path: Path) -> None:
    assert "network/rdma-config" not in explained(tmp_path, *lines)


def test_a_file_that_the_job_asked_for(tmp_path: Path) -> None:
    line = MISSING.format(node="node1")
    assert "config/environment" in explained(tmp_path, TOPOLOGY.format(node="node1"), line)
    assert "config/environment" not in explained(tmp_path, line)


BRIDGE = """\
40:01.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge (prog-if 00 [Normal decode])
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir{sign} CmpltRedir{sign} UpstreamFwd+ EgressCtrl- DirectTrans-
"""
INIT = (
    "host1:31:42 [{rank}] NCCL INFO ncclCommInitRank comm 0x55 rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} "
    "busId 4{rank}000 commId 0xe - Init COMPLETE"
)
TIMEOUT = (
    "[rank{rank}]:[E331 12:44:10.104 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=128, NumelOut=128, Timeout(ms)=600000) ran for 600021 "
    "milliseconds before timing out."
)


@pytest.mark.parametrize(
    ("sign", "seq", "ranks", "blamed"),
    [("+", 1, (0, 1), True), ("-", 1, (0, 1), False), ("+", 4711, (0, 1), False), ("+", 1, (0,), False)],
    ids=["first call of all", "off", "it had worked", "one rank alone says so"],
)
def test_a_listing_and_a_hang(sign: str, seq: int, ranks: tuple[int, ...], blamed: bool, tmp_path: Path) -> None:
    (tmp_path / "lspci.txt").write_text(BRIDGE.format(sign=sign))
    lines = [INIT.format(rank=rank) for rank in (0, 1)] + [TIMEOUT.format(rank=rank, seq=seq) for rank in ranks]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    report = triage.explain(str(tmp_path))
    assert ("pcie/p2p-blocked" in [each.cause for each in report.hypotheses]) == blamed


def test_a_listing_alone_claims_nothing(tmp_path: Path) -> None:
    (tmp_path / "lspci.txt").write_text(BRIDGE.format(sign="+"))
    assert triage.explain(str(tmp_path)).hypotheses == []
