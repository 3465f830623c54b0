"""`triage playbook`: what a person on call reads, and the walk with recorded answers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from triage.cli import _playbooks
from triage.cli.playbook import command
from triage.errors import ContentError, UsageError
from triage.reasoning.loading import playbooks

WATCHDOG = (
    "[rank0]:[E1130 14:20:01.123456789 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 "
    "milliseconds before timing out.\n"
)
LOST = (
    "[Mon Nov 30 14:09:58 2026] NVRM: Xid (PCI:0000:3b:00): 79, pid=4021, name=python3, GPU has fallen off the bus.\n"
)


def invoke(*arguments: str, said: str = "") -> Result:
    """A run that triage itself may refuse: its errors are raised."""
    result = CliRunner().invoke(command, list(arguments), input=said, standalone_mode=False)
    if result.exception:
        raise result.exception
    return result


def run(*arguments: str, said: str = "") -> str:
    """What a run prints."""
    return invoke(*arguments, said=said).output


def test_list() -> None:
    assert "gpu-lost" in run("list")
    rows = json.loads(run("list", "--format", "json"))
    assert {row["id"] for row in rows} == set(playbooks())
    assert all(row["title"] and row["means"] for row in rows)


@pytest.mark.parametrize("name", sorted(playbooks()))
def test_show_is_narrow_complete_and_in_the_order_of_the_walk(name: str) -> None:
    text = run("show", name)
    playbook = playbooks()[name]
    assert max(map(len, text.splitlines())) <= _playbooks.WIDTH
    head, ends = text.split("\nENDS\n")
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", head, re.MULTILINE)]
    assert numbers == list(range(1, len(playbook.nodes) + 1))
    assert len(re.findall(r"^[A-Z]\. ", ends, re.MULTILINE)) == len(playbook.leaves)
    for block in re.split(r"^(?=\d+\. )", head, flags=re.MULTILINE)[1:]:
        own = int(block.split(".")[0])
        assert all(int(number) > own for number in re.findall(r"   (?:yes|no|unknown) +question (\d+)", block))
        assert len(re.findall(r"^   (?:yes|no|unknown) +(?:question|end) ", block, re.MULTILINE)) == 3


def test_show_as_json() -> None:
    assert json.loads(run("show", "gpu-lost", "--format", "json"))["id"] == "gpu-lost"


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean gpu-lost"):
        run("show", "gpu-last")


def test_search_puts_titles_first() -> None:
    assert run("search", "nvlink").splitlines()[0].startswith("nvlink-and-fabric-manager")
    assert json.loads(run("search", "row", "remapping", "--format", "json"))[0]["id"].startswith("ecc")
    assert "data-loading" in run("search", "prefetch")


def test_search_that_finds_nothing_says_so_by_its_exit_code() -> None:
    assert invoke("search", "zeppelin").return_value == 4


def test_a_walk_with_recorded_answers() -> None:
    text = run("walk", "gpu-lost", said="n\nno\nu\n?\nn\nwork\n")
    assert (
        "Path: bus-first: no; off-bus: no; firmware: unknown; engine: unknown; called-lost: no; inside-only: yes"
        in text
    )
    assert "NVIDIA driver or devices missing  [driver/not-loaded, moderate]" in text
    assert "triage collect --only kernel_log" in text
    assert max(map(len, text.splitlines())) <= _playbooks.WIDTH + len("works on the host")


def test_enter_means_unknown() -> None:
    assert "fits: unknown; retries: unknown" in run("walk", "fragmentation", said="\n\n")


def test_going_back_and_quitting() -> None:
    text = run("walk", "gpu-lost", said="no\nyes\nb\nb\nyes\n")
    assert "Path: bus-first: yes" in text
    left = run("walk", "gpu-lost", said="no\nyes\nq\n")
    assert "Left. So far: bus-first: no; off-bus: yes" in left
    assert "Path:" not in left
    assert "Left. So far: nothing" in run("walk", "gpu-lost", said="q\n")


def test_the_first_question_cannot_be_taken_back_and_nonsense_is_asked_again() -> None:
    text = run("walk", "gpu-lost", said="b\nperhaps\nyes\n")
    assert text.count("not understood") == 2
    assert "Path: bus-first: yes" in text


def test_evidence_is_not_asked_about(tmp_path: Path) -> None:
    (tmp_path / "dmesg.txt").write_text(LOST)
    text = run("walk", "gpu-lost", "--bundle", str(tmp_path), said="no\n")
    assert text.count("by the evidence") == 2
    assert text.count("yes, no, unknown") == 1  # of power supplies a kernel log alone says nothing
    assert "Path: bus-first: no; off-bus: yes; power-first: no" in text


def test_what_evidence_leaves_open_is_asked(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(WATCHDOG)
    text = run("walk", "collective-timeout", "--bundle", str(tmp_path), said="yes\nno\nstuck\n")
    assert "no, by the evidence" in text
    assert "never-came: yes; its-own-fault: no; long-work: no" in text
    assert "[collective/rank-stalled, strong]" in text


def test_lint() -> None:
    assert f"{len(playbooks())} playbooks, no fault" in run("lint")


def test_lint_of_a_file_names_file_line_and_fault(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(
        "id: small\ntitle: x\nlook_first: y\nstart_when: {any: [x/y]}\nnodes: {}\nleaves: {}\nexamples: []\n"
    )
    with pytest.raises(ContentError) as caught:
        run("lint", str(path))
    assert caught.value.faults == [f"{path}:1: needs at least one node and one leaf"]
    assert caught.value.exit_code == 2
