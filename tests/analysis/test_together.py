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
