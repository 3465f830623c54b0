"""Bandwidth between pairs, from every tool that prints it, and what the analysis makes of a matrix."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import triage
from tests.analysis.build import facts, incident
from triage.analysis import slow_links
from triage.model.base import Scalar
from triage.parsers import pair_bandwidth, recognise

CHECKS = Path(__file__).resolve().parents[2] / "fixtures" / "parsers" / "check_tools"
SENDRECV = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 4294967296 step: 2(factor)
# Using devices
#  Rank  0 Group  0 Pid   7413 on    node017 device  0 [0x19] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   9120 on    node018 device  0 [0x19] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 41.2077
"""
Cells = dict[tuple[int, int], float]


def matrix(count: int, low: Cells, usual: float = 276.0, seed: int = 7) -> bytes:
    """As nvbandwidth prints it, with the small differences that equal paths show."""
    dice = random.Random(seed)
    rows = [
        f"{row:2d}" + "".join(
            f"{'N/A':>10}" if row == column else f"{low.get((row, column), usual) * dice.uniform(0.98, 1.0):10.2f}"
            for column in range(count)
        )
        for row in range(count)
    ]  # fmt: skip
    head = "Running device_to_device_memcpy_write_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n"
    tail = "\n\nSUM device_to_device_memcpy_write_ce 15400.00\n"
    return (head + "".join(f"{c:10d}" for c in range(count)) + "\n" + "\n".join(rows) + tail).encode()


def found(data: bytes) -> list[tuple[Scalar, ...]]:
    told = slow_links.derive(incident(facts("pair_bandwidth", data)))
    return [(f.value, *(v for k, v in f.entity.items() if k != "group")) for f in told if f.name == "link.slow"]


def of(gpu: int, rate: float, count: int = 8, ways: str = "both") -> Cells:
    out = {(gpu, other): rate for other in range(count) if other != gpu}
    return {"out": out, "in": {(b, a): r for (a, b), r in out.items()}}.get(ways) or out | {
        (b, a): r for (a, b), r in out.items()
    }


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("low", "expected"),
    [
        ({}, []),
        (of(3, 120.0), [("gpu", 3)]),
        (of(3, 120.0, ways="out"), [("gpu", 3)]),
        (of(3, 120.0, ways="in"), [("gpu", 3)]),
        ({(2, 5): 90.0, (5, 2): 92.0}, [("gpu-pair", 2, 5)]),
        ({(2, 5): 90.0}, [("gpu-pair", 2, 5)]),
        (of(3, 120.0) | {(0, 1): 90.0}, [("gpu", 3), ("gpu-pair", 0, 1)]),
        ({(a, b): 90.0 for a in range(8) for b in range(8) if (a < 4) != (b < 4)}, []),  # two sockets
        (of(3, 240.0), []),  # slower, and within what paths differ by
    ],
)
def test_a_row_and_column_is_a_gpu_and_a_cell_a_link(low: Cells, expected: list[tuple[Scalar, ...]], seed: int) -> None:
    assert found(matrix(8, low, seed=seed)) == expected


def test_three_show_nothing() -> None:
    assert found(matrix(3, of(0, 90.0, 3))) == []


def test_the_sending_side_is_told() -> None:
    told = [f.text for f in slow_links.derive(incident(facts("pair_bandwidth", matrix(8, of(3, 120.0, ways="in")))))]
    assert told[0].startswith("GPU 3: 11")
    assert "receiving over 7 pairs; the other 49 pairs 27" in told[0]


def test_arrows_that_point_back() -> None:
    data = matrix(8, {(2, 5): 90.0}).replace(b" -> ", b" <- ")
    slow = [f.entity for f in facts("pair_bandwidth", data) if isinstance(f.value, float) and f.value < 100]
    assert [(each["gpu"], each["peer"]) for each in slow] == [(5, 2)]


def test_only_the_matrix_with_peer_access_counts() -> None:
    assert facts("pair_bandwidth", (CHECKS / "p2p.txt").read_bytes()) == []
    text = (CHECKS / "p2p.txt").read_text().replace("P2P=Disabled", "P2P=Enabled")
    assert [f.value for f in facts("pair_bandwidth", text.encode())] == [17.22, 17.3]


@pytest.mark.long
def test_nodes_measured_in_a_file_each(tmp_path: Path) -> None:
    nodes = [f"node{number:03d}" for number in range(17, 22)]
    for one in nodes:
        for two in nodes:
            if one < two:
                text = SENDRECV.replace("node017", "ONE").replace("node018", two).replace("ONE", one)
                slow = "node019" in (one, two)
                (tmp_path / f"{one}-{two}.log").write_text(text.replace("41.2077", "11.9" if slow else "41.2077"))
    report = triage.explain(str(tmp_path))
    best = report.hypotheses[0]
    assert (best.cause, [each.node for each in best.culprits]) == ("network/congestion", ["node019"])
    assert "11.9 GB/s over 8 pairs; the other 12 pairs 41.2 GB/s" in best.evidence[0].text
    assert report.verdict == "suspected"


def test_json_of_triage_check() -> None:
    names = [f"node{number}" for number in range(4)]
    figures = [
        {"name": "all-reduce", "on": f"{a} + {b}", "state": "passed", "value": 90.0 if "node2" in (a, b) else 300.0,
         "unit": "GB/s"} for a in names for b in names if a < b
    ]  # fmt: skip
    copies = [{"name": "copy", "on": "gpu 0 > gpu 1", "state": "passed", "value": 380.0, "unit": "GB/s"}]
    tree = {"schema": "triage.check/1", "state": "failed", "stages": [{"name": "nodes", "figures": figures + copies}]}
    data = json.dumps(tree).encode()
    assert recognise(data, data)[0] == "pair_bandwidth"
    assert found(data) == [("node", "node2")]
    assert facts("pair_bandwidth", data)[-1].entity == {"gpu": 0, "peer": 1, "group": "copy"}


def test_listing_of_the_pairwise_reproduction() -> None:
    data = b"   43.10 GB/s  node1 node2\n   12.00 GB/s  node1 node3\nslowest: node1 node3\n"
    assert [(f.entity["node"], f.entity["peer"], f.value) for f in facts("pair_bandwidth", data)][::2] == [
        ("node1", "node2", 43.1), ("node1", "node3", 12.0),
    ]  # fmt: skip


@pytest.mark.parametrize("foreign", ["gpu_burn.log", "bandwidth.txt", "dcgm-4.txt", "p2p.txt"])
def test_other_tools_are_refused(foreign: str) -> None:
    data = (CHECKS / foreign).read_bytes()
    assert pair_bandwidth.recognises(data, data) == 0


def test_cut_anywhere() -> None:
    data = matrix(8, of(3, 120.0))
    for end in range(0, len(data), 37):
        found(data[:end])
