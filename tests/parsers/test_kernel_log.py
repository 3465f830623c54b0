"""Kernel messages of every form become whole events; texts of other sources are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from triage.model.bundle import File, Window
from triage.model.event import Event
from triage.parsers import kernel_log

FIXTURES = Path(__file__).parents[2] / "fixtures" / "parsers"


def event(text: str, hit: str, node: str | None = None) -> Event:
    lines = text.splitlines()
    index = next(number for number, line in enumerate(lines) if hit in line)
    low = max(index - kernel_log.BEFORE, 0)
    part = tuple(lines[low : index + kernel_log.AFTER + 1])
    numbers = tuple(range(low + 1, low + 1 + len(part)))
    file = File(path="kernel.log", size=len(text), node=node)
    return kernel_log.parse(Window(file=file, lines=part, numbers=numbers, hit=index - low))


def fixture(name: str) -> str:
    return (FIXTURES / "kernel_log" / name).read_text()


def test_a_gsp_timeout_holds_its_dump_and_no_other_xid() -> None:
    found = event(fixture("dmesg.txt"), "): 119,", node="node017")
    assert found.text.startswith("NVRM: Xid (PCI:0000:4e:00): 119, pid=90113")
    assert (found.where.line, found.node) == (5, "node017")
    assert found.time is not None
    assert (found.time.kind, found.time.seconds) == ("boot", 5101.220004)
    assert "RPC history" in found.body
    assert "dump_stack_lvl" in found.body
    assert "154" not in found.body


def test_the_message_that_the_kernel_wraps_is_joined_from_any_of_its_lines() -> None:
    for hit in ("The NVIDIA GPU 0000:4e:00.0", "fallen off the bus and is not"):
        found = event(fixture("dmesg.txt"), hit)
        assert "0000:4e:00.0" in found.body
        assert "fallen off the bus" in found.body
        assert "SXid" not in found.body


def test_a_switch_report_takes_its_data_lines() -> None:
    found = event(fixture("dmesg.txt"), "Non-fatal, Link 33")
    assert found.body.count("\n") == 2
    assert "Data {" in found.body


@pytest.mark.parametrize("hit", ["invoked oom-killer", "oom-kill:constraint", "Memory cgroup out of memory"])
def test_an_oom_report_is_one_message(hit: str) -> None:
    found = event(fixture("messages"), hit)
    assert found.node == "node017"
    assert hit in found.text
    assert found.body.startswith("python3 invoked oom-killer")
    assert "oom_memcg=/slurm" in found.body
    assert found.body.endswith("oom_score_adj:0")


def test_a_hung_task_shows_where_it_waits() -> None:
    found = event(fixture("messages"), "blocked for more than")
    assert "nfs4_run_open_task" in found.body
    assert "slurmd" not in found.body


def test_an_aer_report_names_the_error_bit() -> None:
    for hit in ("AER: Uncorrected", "PCIe Bus Error"):
        assert "CmpltTO" in event(fixture("messages"), hit).body


def test_kmsg_and_journal_json() -> None:
    found = event(fixture("kmsg.txt"), "MMU Fault")
    assert found.text.startswith("NVRM: Xid")
    assert found.time is not None
    assert found.time.seconds == pytest.approx(5101.220004)
    assert "DEVICE=+pci:0000:4e:00.0" in found.body
    found = event(fixture("journal.json"), "fallen off")
    assert (found.node, found.text[:9]) == ("node017", "NVRM: Xid")
    assert found.time is not None
    assert (found.time.kind, found.time.seconds) == ("utc", 1773454263.551)
    assert event(fixture("journal.json"), "[78,86").text == "NVRM: bytes"


XID = "NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus."
PREFIXES = [
    ("[ 5101.220004] ", None, "boot"),
    ("[Sun Feb 23 16:24:18 2025] ", None, "local"),
    ("2025-01-21T04:41:44,285060+00:00 ", None, "utc"),
    ("kern  :warn  : 2025-01-21T04:41:44,285060+00:00 ", None, "utc"),
    ("kern  :err   : [ 5101.220004] ", None, "boot"),
    ("Jan 21 04:41:44 node017 kernel: ", "node017", "yearless"),
    ("Jan 21 04:41:44.120012 node017 kernel: [ 5101.220004] ", "node017", "yearless"),
    ("2025-01-21T04:41:44+0000 node017 kernel: ", "node017", "utc"),
    ("2025-01-21T04:41:44.285060+00:00 node017 kernel: [ 5101.220004] ", "node017", "utc"),
    ("messages:Jun 17 01:00:00 node017 kernel: ", "node017", "yearless"),
    ("[ 5101.220004] node017 kernel: ", "node017", "boot"),
    ("<3>1 2025-01-21T04:41:44Z node017 kernel - - - ", "node017", "utc"),
    ("<4>[ 5101.220004] ", None, "boot"),
    ("node017: [ 5101.220004] ", "node017", "boot"),
    ("node017: [Sun Feb 23 16:24:18 2025] ", "node017", "local"),
    ("6,1201,5101220001,-;", None, "boot"),
    ("[  +0.000851] ", None, None),
    ("", None, None),
]


@pytest.mark.parametrize(("prefix", "node", "kind"), PREFIXES)
def test_every_prefix_is_taken_off(prefix: str, node: str | None, kind: str | None) -> None:
    found = event(prefix + XID, "Xid")
    assert (found.text, found.node, found.time and found.time.kind) == (XID, node, kind)
    assert kernel_log.recognises((prefix + XID + "\n").encode(), b"") == 2


def test_a_device_name_is_no_host() -> None:
    assert event("[  201.650687] nvidia 0000:03:00.0: AER: can't recover", "AER").node is None
    assert event("2025-01-21T04:41:44,285060+00:00 nvidia 0000:03:00.0: AER: x", "AER").node is None


@pytest.mark.parametrize("name", ["dmesg.txt", "messages", "kmsg.txt", "journal.json"])
def test_recognises_its_own(name: str) -> None:
    assert kernel_log.recognises(fixture(name).encode(), b"") == 2


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[rank0]: Traceback (most recent call last):\n",
        b"[2024-09-03 15:54:54,074] [INFO] [engine.py:1:f] step 3\n",
        b"[Feb 27 2025 15:10:02] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on fid 0\n",
        b"node017:4021:4021 [0] NCCL INFO Bootstrap : Using eth0\n",
        b"[1764509157.123456] [node017:4021:0] ucp_context.c:1 UCX INFO\n",
        b"==============NVSMI LOG==============\nTimestamp : Wed Sep 25 10:40:24 2024\n",
    ],
)
def test_refuses_other_sources(text: bytes) -> None:
    assert kernel_log.recognises(text, text) == 0


@pytest.mark.parametrize("source", ["nvidia_smi", "fabric_manager", "check_tools"])
def test_refuses_samples_of_its_neighbours(source: str) -> None:
    for path in sorted((FIXTURES / source).glob("*")):
        services_in_a_journal = path.name == "journal.txt"
        assert kernel_log.recognises(path.read_bytes()[:65536], b"") == int(services_in_a_journal), path.name


def test_hostile_lines_do_no_harm() -> None:
    texts = ("{" * 5000 + '"MESSAGE"', '{"MESSAGE": {}}', '{"MESSAGE": [999]}', "[" * 5000, "\x00" * 100, "9" * 6000)
    for text in texts:
        assert event(text, "").text == text[:2000] or text.startswith('{"MESSAGE": {}')


def test_marks_compile_and_hit() -> None:
    text = fixture("dmesg.txt")
    assert {kind for kind, pattern in kernel_log.MARKS if re.search(pattern, text)} == {"start", "well", "doubt"}
