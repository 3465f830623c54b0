"""Verdicts of the check tools, of every GPU and test, whatever the output format."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from triage.model.bundle import Document, File, Window
from triage.parsers import check_tools

FIXTURES = Path(__file__).parents[2] / "fixtures" / "parsers"
OWN = FIXTURES / "check_tools"


def read(data: bytes) -> list[tuple[str, Any, Any]]:
    def refuse(_: bytes) -> Any:
        raise ValueError("no pickle here")

    found = check_tools.facts(Document(file=File(path="check.txt", size=len(data)), data=data, unpickle=refuse))
    return [(fact.name, fact.entity.get("gpu"), fact.value) for fact in found]


def fixture(name: str) -> bytes:
    return (OWN / name).read_bytes()


def test_gpu_burn() -> None:
    found = read(fixture("gpu_burn.log"))
    assert ("check.gpu_burn", 0, "pass") in found
    assert ("check.gpu_burn", 1, "fail") in found


def test_nccl_tests() -> None:
    found = read(fixture("all_reduce.txt"))
    assert ("check.nccl_tests", None, "pass") in found
    assert ("check.nccl_tests.bus_bandwidth", None, 162.937) in found
    assert ("check.nccl_tests.wrong", None, 12) in read(b"# Out of bounds values : 12 FAILED\n")


def test_dcgm_table_of_version_3_with_wrapped_messages() -> None:
    found = read(fixture("dcgm-3.txt"))
    assert ("check.dcgm.gpu_memory", 1, "pass") in found
    assert ("check.dcgm.gpu_memory", 0, "fail") in found
    assert ("check.dcgm.targeted_stress", 2, "fail") in found
    assert ("check.dcgm.diagnostic", None, "skip") in found
    message = next(value for name, _, value in found if name == "check.dcgm.message")
    assert message.endswith("row remapping failed. Run a field diagnostic on the GPU.")


def test_dcgm_table_of_version_4() -> None:
    found = read(fixture("dcgm-4.txt"))
    assert ("check.dcgm.memory", 1, "fail") in found
    assert ("check.dcgm.memory", 0, "pass") in found
    assert ("check.dcgm.message", 1, "A DBE occurred during the test.") in found


@pytest.mark.parametrize(("name", "test", "gpu"), [("dcgm.json", "memory", 3), ("dcgm-3.json", "pcie", 1)])
def test_dcgm_json(name: str, test: str, gpu: int) -> None:
    found = read(fixture(name))
    assert (f"check.dcgm.{test}", gpu, "fail") in found
    assert (f"check.dcgm.{test}", 0, "pass") in found


def test_cuda_samples() -> None:
    assert ("check.cuda_sample", None, "pass") in read(fixture("bandwidth.txt"))
    assert ("check.p2p.access", None, "none") in read(fixture("p2p.txt"))


def matrices(plain: str, peer: str) -> bytes:
    head = "   D\\D     0      1 \n"
    return (
        f"Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n{head}     0 673.20  {plain} \n     1  {plain} 673.20 \n"
        f"Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n{head}     0 673.49   {peer} \n"
        f"     1   {peer} 672.33 \nBidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n"
    ).encode()


def test_what_peer_access_gains() -> None:
    assert read(matrices("13.10", "2.62")) == [("check.p2p.gain", None, 0.2)]
    assert read(matrices("11.00", "11.00")) == [("check.p2p.gain", None, 1.0)]
    assert read(matrices("11.00", "11.00").split(b"Uni")[2]) == []  # nothing to compare with
    assert read(matrices("0.00", "11.00")) == []


def test_wrapped_rows_are_one_event() -> None:
    lines = tuple(fixture("dcgm-3.txt").decode().splitlines())
    hit = next(index for index, line in enumerate(lines) if "| Warning" in line)
    file = File(path="diag.txt", size=1)
    event = check_tools.parse(Window(file=file, lines=lines, numbers=tuple(range(1, len(lines) + 1)), hit=hit))
    assert "remapping failed" in event.body


@pytest.mark.parametrize("path", sorted(OWN.glob("*")), ids=lambda path: path.name)
def test_recognises_its_own(path: Path) -> None:
    assert check_tools.recognises(path.read_bytes(), b"") == 2


@pytest.mark.parametrize("text", [b"", b"GPU 0: NVIDIA A100 (UUID: GPU-1)\n", b"errors: 0\n", b"Test PASSED\n"])
def test_refuses_other_sources(text: bytes) -> None:
    assert check_tools.recognises(text, text) == 0


@pytest.mark.parametrize("source", ["nvidia_smi", "kernel_log", "fabric_manager"])
def test_refuses_samples_of_its_neighbours(source: str) -> None:
    for path in sorted((FIXTURES / source).glob("*")):
        assert check_tools.recognises(path.read_bytes(), b"") == 0, path.name


@pytest.mark.parametrize("name", sorted(path.name for path in OWN.glob("*")))
def test_cut_anywhere_nothing_is_raised(name: str) -> None:
    data = fixture(name)
    for end in range(0, len(data), max(len(data) // 40, 1)):
        read(data[:end])
        read(data[end:])
    read(b'{"DCGM Diagnostic": ' + b"[" * 100_000)


def test_only_tools_that_end_well_are_marked() -> None:
    def marked(line: str) -> bool:
        return any(re.search(pattern, line) for _, pattern in check_tools.MARKS)

    assert marked("\tGPU 0: OK")
    assert not marked("\tGPU 1: FAULTY")
    assert marked("# Out of bounds values : 0 OK")
    assert not marked("# Out of bounds values : 3 FAILED")
