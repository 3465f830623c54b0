"""Who is who, joined from NCCL lines, nvidia-smi, file names and messages."""

from __future__ import annotations

import pytest
from making import event, signal, signature

from triage.graph.identity import bus_address, identify
from triage.model.bundle import File
from triage.model.event import Fact, Mark, Where


def init(rank: int, node: str, bus: str, device: int, nranks: int = 16, pid: int = 0) -> Mark:
    fields = {"rank": rank, "nranks": nranks, "cuda_dev": device, "nvml_dev": device, "bus_id": bus}
    return Mark(kind="init", event=event("nccl.log", node=node, pid=pid or 100 + rank), fields=fields)


def test_pci_address_becomes_rank_and_gpu() -> None:
    who = identify([], [], [init(9, "node017", "9b000", 3), init(1, "node016", "9b000", 3)], [])
    known = who.of({"node": "node017", "pci": "0000:9b:00"})
    assert (known["rank"], known["gpu"], known["pid"]) == (9, 3, 109)


def test_the_same_address_on_two_nodes_without_a_node_names_nobody() -> None:
    who = identify([], [], [init(9, "node017", "9b000", 3), init(1, "node016", "9b000", 3)], [])
    assert "rank" not in who.of({"pci": "0000:9b:00"})


def test_a_sub_group_does_not_rename_ranks() -> None:
    who = identify([], [], [init(9, "node017", "9b000", 3), init(1, "node017", "9b000", 3, nranks=2, pid=109)], [])
    assert set(who.ranks) == {9}
    assert who.world_size == 16


def test_nvidia_smi_gives_the_index_behind_a_local_rank() -> None:
    where = Where(file="smi")
    facts = [
        Fact(
            name="gpu.index",
            value=index,
            where=where,
            entity={"node": "n1", "gpu": index, "pci": pci, "uuid": f"GPU-{index}"},
        )
        for index, pci in enumerate(["0000:1b:00", "0000:43:00"])
    ]
    files = [File(path="n1/rank5.log", size=1, node="n1", rank=5, local_rank=1)]
    rank = identify(files, [], [], facts).ranks[5]
    assert (rank.gpu, rank.pci, rank.uuid) == (1, "0000:43:00", "GPU-1")


def test_a_process_id_names_its_rank_on_its_node_only() -> None:
    failed = signature("torch/elastic-root-cause", role="consequence")
    who = identify([], [signal(failed, event(node="n1"), {"pid": 4021}, rank=3)], [], [])
    assert who.of({"node": "n1", "pid": 4021})["rank"] == 3
    assert "rank" not in who.of({"node": "n2", "pid": 4021})
    assert who.of({"pid": 4021})["rank"] == 3


def test_a_log_without_host_name_does_not_choose_between_two_nodes_processes() -> None:
    failed = signature("torch/elastic-root-cause", role="consequence")
    both = [signal(failed, event(node=f"n{rank}"), {"pid": 4021}, rank=rank) for rank in (3, 4)]
    assert "rank" not in identify([], both, [], []).of({"pid": 4021})


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9b000", "0000:9b:00"),
        ("1000", "0000:01:00"),
        ("1009b000", "0100:9b:00"),
        ("0000:3B:00.0", "0000:3b:00"),
        ("c1000", "0000:c1:00"),
    ],
)
def test_bus_ids_of_nccl(text: str, address: str) -> None:
    assert bus_address(text) == address
