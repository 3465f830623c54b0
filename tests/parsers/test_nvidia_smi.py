"""Every output of nvidia-smi becomes the same facts; what a GPU does not tell stays unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from triage.model.bundle import Document, File, Window
from triage.model.event import Fact
from triage.parsers import nvidia_smi

FIXTURES = Path(__file__).parents[2] / "fixtures" / "parsers"
OWN = FIXTURES / "nvidia_smi"


def read(data: bytes, node: str | None = None) -> list[Fact]:
    def refuse(_: bytes) -> Any:
        raise ValueError("no pickle here")

    file = File(path="nvidia-smi.txt", size=len(data), node=node)
    return list(nvidia_smi.facts(Document(file=file, data=data, unpickle=refuse)))


def of(found: list[Fact], **entity: object) -> dict[str, Any]:
    wanted = entity.items()
    return {fact.name: fact.value for fact in found if wanted <= fact.entity.items() and "pid" not in fact.entity}


def fixture(name: str) -> bytes:
    return (OWN / name).read_bytes()


def test_old_text_with_double_bit_errors_and_a_lost_gpu() -> None:
    found = read(fixture("query-470.txt"), node="node017")
    first, second = of(found, gpu=0, node="node017"), of(found, gpu=1)
    assert first["gpu.pci"] == "0000:3b:00"
    assert (first["gpu.ecc.volatile_uncorrectable"], first["gpu.ecc.volatile_correctable"]) == (1, 2)
    assert (first["gpu.retired.pending"], first["gpu.compute_mode"]) == ("yes", "exclusive process")
    assert (first["gpu.pcie.width_state"], first["gpu.pcie.gen_state"]) == ("reduced", "full")
    assert first["gpu.throttle.sw_power_cap"] == "active"
    assert first["gpu.readable"] == "yes"
    assert second["gpu.state"] == "lost"
    assert second["gpu.readable"] == "no"
    assert second["gpu.ecc.volatile_uncorrectable"] is None
    memory = [fact for fact in found if fact.name == "gpu.process.memory"]
    assert [(fact.entity["pid"], fact.value) for fact in memory] == [(70221, 30119 << 20)]


def test_new_text() -> None:
    found = of(read(fixture("query-570.txt")), gpu=4)
    assert found["gpu.recovery_action"] == "drain and reset"
    assert found["gpu.ecc.volatile_uncorrectable"] == 3
    assert (found["gpu.remap.pending"], found["gpu.remap.failure"]) == ("yes", "yes")
    assert (found["gpu.throttle.hw_slowdown"], found["gpu.throttle.hw_thermal"]) == ("active", "active")
    assert found["gpu.throttle.unspecified"] == "not active"
    assert found["gpu.pcie.gen_state"] == "idle"
    assert found["gpu.fabric.state"] == "in progress"
    assert found["gpu.temperature_state"] == "slowdown"
    assert found["gpu.power_limit_state"] == "lowered"
    assert found["gpu.ecc.sram_threshold"] == "yes"


def test_xml() -> None:
    found = read(fixture("query.xml"))
    gpu = of(found, gpu=0, pci="0000:9b:00")
    assert (gpu["gpu.ecc.volatile_uncorrectable"], gpu["gpu.remap.uncorrectable"]) == (4, 2)
    assert (gpu["gpu.throttle.hw_power_brake"], gpu["gpu.throttle.hw_thermal"]) == ("active", "not active")
    assert (gpu["gpu.pcie.gen_state"], gpu["gpu.pcie.width_state"]) == ("reduced", "reduced")
    assert (gpu["gpu.recovery_action"], gpu["gpu.clock.state"]) == ("reset", "low")
    assert [fact.value for fact in found if fact.name == "gpu.process.memory"] == [69990 << 20]
    line = next(fact.where.line for fact in found if fact.name == "gpu.remap.uncorrectable")
    assert "remapped_row_unc" in fixture("query.xml").decode().splitlines()[(line or 0) - 1]


def test_xml_with_entities_is_refused_and_cut_xml_keeps_what_came() -> None:
    bomb = b'<?xml version="1.0"?>\n<!DOCTYPE nvidia_smi_log [\n<!ENTITY a "aaaa">\n]>\n<nvidia_smi_log><gpu>&a;</gpu>'
    assert read(bomb + b"</nvidia_smi_log>") == []
    text = fixture("query.xml")
    cut = of(read(text[: text.index(b"<remapped_rows>")]), pci="0000:9b:00")
    assert cut["gpu.ecc.volatile_uncorrectable"] == 4
    assert "gpu.remap.pending" not in cut
    deep = b"<nvidia_smi_log>" + b"<a>" * 100_000 + b"</nvidia_smi_log>"
    assert read(deep) == []


def test_table() -> None:
    found = read(fixture("table.txt"))
    assert of(found, gpu=0)["gpu.ecc.volatile_uncorrectable"] == 3
    assert of(found, gpu=0)["gpu.compute_mode"] == "exclusive process"
    assert of(found, gpu=1)["gpu.state"] == "lost"
    assert of(found, gpu=1)["gpu.memory_used"] is None
    assert of(found, gpu=2)["gpu.utilization"] is None
    assert [(f.entity["gpu"], f.entity["pid"], f.value) for f in found if f.name == "gpu.process.memory"] == [
        (0, 4021, 40100 << 20),
        (0, 9999, 512 << 20),
    ]


def test_repeated_outputs_keep_the_last_and_the_first_fault() -> None:
    calm = fixture("table.txt").replace(b"|                    3 |", b"|                    0 |")
    found = read(calm + b"\n" + fixture("table.txt") + b"\n" + calm + b"\n" + calm)
    counts = [f.value for f in found if f.name == "gpu.ecc.volatile_uncorrectable" and f.entity["gpu"] == 0]
    assert counts == [3, 0]


def test_csv_keeps_the_last_row_and_the_mask_of_reasons() -> None:
    found = read(fixture("query-gpu.csv"))
    assert of(found, gpu=0)["gpu.throttle.hw_thermal"] == "active"
    assert of(found, gpu=0)["gpu.memory_used"] == 70000 << 20
    assert of(found, gpu=1)["gpu.state"] == "error"
    assert of(found, gpu=1)["gpu.utilization"] is None


def test_csv_of_remapped_rows_below_the_command_that_asked() -> None:
    found = read(
        b"$ nvidia-smi --query-remapped-rows=gpu_bus_id,remapped_rows.pending,remapped_rows.failure --format=csv\n"
        b"gpu_bus_id, remapped_rows.pending, remapped_rows.failure\n"
        b"00000000:48:00.0, 0, 1\n"
    )
    assert [(f.value, f.entity["pci"]) for f in found if f.name == "gpu.remap.failure"] == [("yes", "0000:48:00")]


def test_csv_of_processes_and_units_in_the_header_only() -> None:
    found = read(
        b"pid, process_name, used_gpu_memory [MiB], gpu_uuid\n4021, python, 512, GPU-1\n4022, python, 256, GPU-1\n"
    )
    assert [f.value for f in found if f.name == "gpu.process.memory"] == [512 << 20, 256 << 20]


def test_links_topology_and_columns() -> None:
    found = read(fixture("nvlink.txt"))
    assert of(found, gpu=0)["nvlink.inactive_state"] == "some"
    assert of(found, gpu=1, link="0")["nvlink.errors.crc"] == 151
    assert of(read(fixture("topo.txt")), gpu=0)["gpu.topology"] == ["GPU1=NV12", "NIC0=PXB"]
    assert of(read(fixture("dmon.txt")), gpu=1)["gpu.ecc.volatile_uncorrectable"] == 2
    assert [f.value for f in read(fixture("pmon.txt")) if f.name == "gpu.process.memory"] == [2566 << 20]


def test_facts_cite_their_line() -> None:
    fact = next(fact for fact in read(fixture("query-570.txt")) if fact.name == "gpu.remap.pending")
    assert fact.text.startswith("Pending")
    assert fact.time is not None


def test_a_line_is_an_event() -> None:
    lines = (
        "Unable to determine the device handle for GPU 0000:05:00.0: GPU is lost.",
        "Reboot the system to recover this GPU",
    )
    file = File(path="smi.txt", size=1, node="node017")
    event = nvidia_smi.parse(Window(file=file, lines=lines, numbers=(1, 2), hit=0))
    assert event.text == lines[0]
    assert event.body.endswith("recover this GPU")
    assert event.node == "node017"


@pytest.mark.parametrize("path", sorted(OWN.glob("*")), ids=lambda path: path.name)
def test_recognises_its_own(path: Path) -> None:
    assert nvidia_smi.recognises(path.read_bytes(), b"") == 2
    assert nvidia_smi.recognises(b"Collecting\n" * 20 + path.read_bytes(), b"") in {0, 1}


@pytest.mark.parametrize(
    "text", [b"Failed to initialize NVML: Driver/library version mismatch\n", b"No devices were found\n"]
)
def test_recognises_its_error_lines(text: bytes) -> None:
    assert nvidia_smi.recognises(text, b"") == 2


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"step, loss, lr\n1, 2.0, 0.1\n",
        b"rank,step,step_ms\n0,1,20\n",
        b"node017:4021:4021 [0] NCCL INFO Bootstrap : Using eth0\n",
        b"GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-00000000-1111-2222-3333-444444444444)\n",
    ],
)
def test_refuses_other_sources(text: bytes) -> None:
    assert nvidia_smi.recognises(text, text) == 0


@pytest.mark.parametrize("source", ["kernel_log", "fabric_manager", "check_tools"])
def test_refuses_samples_of_its_neighbours(source: str) -> None:
    for path in sorted((FIXTURES / source).glob("*")):
        assert nvidia_smi.recognises(path.read_bytes(), b"") == 0, path.name


@pytest.mark.parametrize("name", sorted(path.name for path in OWN.glob("*")))
def test_cut_anywhere_nothing_is_raised(name: str) -> None:
    data = fixture(name)
    for end in range(0, len(data), max(len(data) // 40, 1)):
        read(data[:end])
        read(data[end:])


def test_two_linked_gpus_as_recorded_while_a_job_ran() -> None:
    """Driver 580, two H200: eighteen links each, matrices with and without paths, the same from XML and text."""
    links, errors = read(fixture("nvlink-580.txt")), read(fixture("nvlink-errors-580.txt"))
    assert [of(links, gpu=gpu)["nvlink.links"] for gpu in (0, 1)] == [18, 18]
    assert of(links, gpu=1)["nvlink.inactive_state"] == "none"
    assert {fact.entity["link"] for fact in errors if fact.entity["gpu"] == 1} == {str(link) for link in range(18)}
    assert {fact.value for fact in errors} == {0}
    assert of(read(fixture("topo-two.txt")), gpu=1)["gpu.topology"] == ["GPU0=NV18"]
    assert read(b" \t\x1b[4mGPU0\tGPU1\t\x1b[0m\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n") == []  # topo -p2p r
    busy, idle = read(fixture("query-580.xml")), read(fixture("query-580.txt"))
    for gpu, pci in ((0, "0000:00:06"), (1, "0000:00:07")):
        assert of(busy, gpu=gpu)["gpu.pci"] == of(idle, gpu=gpu)["gpu.pci"] == pci
        assert of(busy, gpu=gpu)["gpu.clock.sm_mhz"] > of(idle, gpu=gpu)["gpu.clock.sm_mhz"]
    assert any(fact.name == "gpu.process.memory" for fact in busy)
