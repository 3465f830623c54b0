"""Nsight Compute's CSV in both pages, and the verdict on its kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.build import document, facts, incident, named
from triage.analysis import profiles
from triage.parsers import ncu

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "parsers" / "ncu"


@pytest.mark.parametrize(
    ("name", "kernels", "memory", "verdict"),
    [("details.csv", 2, 0.8116, "memory-bandwidth"), ("raw.csv", 2, 0.0305, "kernel-inefficient")],
)
def test_what_the_kernels_reach(name: str, kernels: int, memory: float, verdict: str) -> None:
    data = (FIXTURES / name).read_bytes()
    assert ncu.recognises(data, b"") == 2
    found = facts("ncu", data, name)
    assert named(found, "ncu.kernels") == [kernels]
    assert named(found, "ncu.memory") == [pytest.approx(memory, abs=1e-3)]  # not the row in bytes a second
    assert named(profiles.derive(incident(found)), "profile.verdict") == [verdict]


def test_the_longest_kernel_comes_first() -> None:
    found = facts("ncu", (FIXTURES / "details.csv").read_bytes(), "details.csv")
    assert named(found, "ncu.top_kernels")[0][0] == "0.800 vectorized_elementwise_kernel: compute 15 %, memory 91 %"


@pytest.mark.parametrize("data", [b"", b'"ID","Kernel Name"\n"0","x"\n', b'"ID","Kernel Name","Metric Name"\n\x00"'])
def test_nothing_to_read(data: bytes) -> None:
    assert len(named(facts("ncu", data), "ncu.unreadable")) == 1


def test_a_report_that_was_not_exported_is_a_gap() -> None:
    assert ncu.recognises(b"NVR\0\x01", b"") == 2
    with pytest.raises(ValueError, match="ncu -i FILE --csv"):
        list(ncu.facts(document(b"NVR\0\x01", "report.ncu-rep")))
