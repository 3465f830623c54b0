"""The fabric manager's log and journal lines become whole events; other logs are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from triage.model.bundle import File, Window
from triage.model.event import Event
from triage.parsers import fabric_manager

FIXTURES = Path(__file__).parents[2] / "fixtures" / "parsers"


def event(name: str, hit: str) -> Event:
    lines = tuple((FIXTURES / "fabric_manager" / name).read_text().splitlines())
    index = next(number for number, line in enumerate(lines) if hit in line)
    numbers = tuple(range(1, len(lines) + 1))
    return fabric_manager.parse(
        Window(file=File(path=name, size=1, node="node018"), lines=lines, numbers=numbers, hit=index)
    )


def test_a_switch_error() -> None:
    found = event("errors.log", "20034")
    assert found.text.startswith("detected NVSwitch fatal error 20034 on fid 0")
    assert (found.where.line, found.node) == (1, "node018")
    assert found.time is not None
    assert found.time.kind == "local"
    assert found.body == found.text


@pytest.mark.parametrize("hit", ["NVL Fatal error", "portNum : 4"])
def test_a_message_of_many_lines_is_joined_from_any_of_them(hit: str) -> None:
    found = event("errors.log", hit)
    assert hit in found.text
    assert found.body.startswith("Fabric Manager detected GPU NVL Fatal error on :\nmoduleId : 3")
    assert found.body.endswith("errorCode : 0x06")
    assert found.time is not None


def test_a_journal_line_names_the_node() -> None:
    found = event("journal.txt", "interface version")
    assert found.node == "node017"
    assert found.text.startswith("fabric manager NVIDIA GPU driver interface version 570.86.15")


@pytest.mark.parametrize("name", ["serving.log", "errors.log", "journal.txt"])
def test_recognises_its_own(name: str) -> None:
    assert fabric_manager.recognises((FIXTURES / "fabric_manager" / name).read_bytes(), b"") == 2


@pytest.mark.parametrize(
    "text", [b"", b"[Sun Feb 23 16:24:18 2025] NVRM: x\n", b"[2024-07-09 18:14:07] [ERROR] x\n", b"[ERROR] [tid 4] x\n"]
)
def test_refuses_other_sources(text: bytes) -> None:
    assert fabric_manager.recognises(text, text) == 0


@pytest.mark.parametrize("source", ["nvidia_smi", "kernel_log", "check_tools"])
def test_refuses_samples_of_its_neighbours(source: str) -> None:
    for path in sorted((FIXTURES / source).glob("*")):
        assert fabric_manager.recognises(path.read_bytes(), b"") == 0, path.name


def test_a_serving_log_is_marked_well() -> None:
    lines = (FIXTURES / "fabric_manager" / "serving.log").read_text().splitlines()
    assert sum(1 for _, pattern in fabric_manager.MARKS for line in lines if re.search(pattern, line)) == 3
