"""NCCL's lines in all their forms."""

from __future__ import annotations

import re

import pytest
from cutting import FIXTURES, event_at, lines_of

from triage.parsers import nccl_log


def marks(line: str) -> list[tuple[str, dict[str, str | None]]]:
    return [(kind, found.groupdict()) for kind, form in nccl_log.MARKS if (found := re.search(form, line))]


def test_host_process_and_rank_come_from_the_line() -> None:
    lines = lines_of("nccl_log", "init_and_warn.log")
    warn = event_at(nccl_log, lines, "Connection closed")
    assert (warn.node, warn.pid, warn.rank) == ("node017", 4021, None)
    assert warn.time is not None and warn.time.kind == "local"
    init = event_at(nccl_log, lines, "Init COMPLETE", 1)
    assert (init.node, init.pid, init.rank) == ("node018.cluster.local", 77, 3)


def test_a_broken_warning_is_joined_and_quotes_are_read() -> None:
    found = event_at(nccl_log, lines_of("nccl_log", "init_and_warn.log"), "posix_fallocate")
    assert found.node == "node018"
    assert "No space left on" in found.body and found.body.endswith("device")


def test_init_lines_of_all_versions_are_marks() -> None:
    lines = lines_of("nccl_log", "init_and_warn.log")
    inits = [values for line in lines for kind, values in marks(line) if kind == "init"]
    assert [values["rank"] for values in inits] == ["95", "95", "3"]
    assert inits[0]["nvml_dev"] == "7" and inits[2]["bus_id"] == "1b000"
    env = [values for line in lines for kind, values in marks(line) if kind == "env"]
    assert env == [{"name": "NCCL_SOCKET_IFNAME", "value": "eth0"}]


def test_recognised() -> None:
    own = (FIXTURES / "nccl_log" / "init_and_warn.log").read_bytes()
    assert nccl_log.recognises(own, own) == 2
    mixed = b"step 1 loss 2\n" * 50 + own
    assert nccl_log.recognises(mixed, mixed) == 1
    assert nccl_log.recognises(b"NCCL_DEBUG=INFO\nhello\n", b"") == 0


@pytest.mark.parametrize("lines", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("own", range(10))
def test_half_of_the_lines_decide_and_looking_ends_when_they_have(own: int, lines: int) -> None:
    line = b"node1:77:78 [0] NCCL INFO Bootstrap: Using eth0\n"
    head = line * min(own, lines) + b"NCCL is named here only\n" * (lines - own)
    told = min(own, lines) * 2 >= lines
    assert nccl_log.recognises(head, b"") == (0 if not own else 2 if told else 1)
    assert nccl_log.recognises(head, line) == (2 if own and told else 1)


def test_a_communicator_that_is_destroyed_in_order_says_that_all_is_well() -> None:
    line = "node017:10:10 [0] NCCL INFO comm 0x79ec210 rank 0 nranks 16 cudaDev 0 busId 7000 - {} COMPLETE"
    well = [regex for kind, regex in nccl_log.MARKS if kind == "well"]
    assert any(re.search(regex, line.format("Destroy")) for regex in well)
    assert not any(re.search(regex, line.format("Abort")) for regex in well)
