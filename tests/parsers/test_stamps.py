"""Every form of time stamp that the evidence shows, and texts that only look like one."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from triage.parsers._stamps import find

UTC = timezone.utc


def unix(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()


FORMS = [
    ("[  201.650687] NVRM: x", "boot", 201.650687, " NVRM: x"),
    ("[28381.650687] x", "boot", 28381.650687, " x"),
    ("[    0.000000][    T0] Linux", "boot", 0.0, " Linux"),
    ("<4>[  201.650687] x", "boot", 201.650687, " x"),
    ("[Sun Feb 23 16:24:18 2025] x", "local", unix(2025, 2, 23, 16, 24, 18), " x"),
    ("[Di Mär 25 16:24:18 2025] x", "local", unix(2025, 3, 25, 16, 24, 18), " x"),
    ("[dim. févr.  2 16:24:18 2025] x", "local", unix(2025, 2, 2, 16, 24, 18), " x"),
    ("[mié ago 13 01:02:03 2025] x", "local", unix(2025, 8, 13, 1, 2, 3), " x"),
    ("[日 2月 23 16:24:18 2025] x", "local", unix(2025, 2, 23, 16, 24, 18), " x"),
    ("[五 10月 13 16:24:18 2023] x", "local", unix(2023, 10, 13, 16, 24, 18), " x"),
    ("2025-01-21T04:41:44,285060+00:00 x", "utc", unix(2025, 1, 21, 4, 41, 44) + 0.28506, " x"),
    ("kern  :warn  : 2025-01-21T04:41:44,285060+00:00 x", "utc", unix(2025, 1, 21, 4, 41, 44) + 0.28506, " x"),
    ("kern  :err   : [  201.650687] x", "boot", 201.650687, " x"),
    ("[  201.650687 <    0.000012>] x", "boot", 201.650687, " x"),
    ("[Feb23 16:24] x", "yearless", 53 * 86400 + 59040, " x"),
    ("kwi 15 07:41:20 node017 kernel: x", "yearless", 104 * 86400 + 27680, " node017 kernel: x"),
    ("Tue 2025-01-21 04:41:44 UTC node017 x", "utc", unix(2025, 1, 21, 4, 41, 44), " node017 x"),
    ("2025-01-21T04:41:44Z x", "utc", unix(2025, 1, 21, 4, 41, 44), " x"),
    ("2025-01-21T04:41:44.123+02:00 x", "utc", unix(2025, 1, 21, 2, 41, 44) + 0.123, " x"),
    ("2025-01-21T04:41:44-0800 host kernel: x", "utc", unix(2025, 1, 21, 12, 41, 44), " host kernel: x"),
    ("2025-01-21 04:41:44 UTC x", "utc", unix(2025, 1, 21, 4, 41, 44), " x"),
    ("2025-06-04 08:51:48,074 - INFO - x", "local", unix(2025, 6, 4, 8, 51, 48) + 0.074, " - INFO - x"),
    ("[2025-12-19 13:06:53] x", "local", unix(2025, 12, 19, 13, 6, 53), " x"),
    ("[2023-08-02 00:41:17,936] [INFO] x", "local", unix(2023, 8, 2, 0, 41, 17) + 0.936, " [INFO] x"),
    ("2024/09/03 15:54:54 x", "local", unix(2024, 9, 3, 15, 54, 54), " x"),
    ("07/26/2023 10:11:12 - INFO - x", "local", unix(2023, 7, 26, 10, 11, 12), " - INFO - x"),
    ("Jan 21 04:41:44 node017 kernel: x", "yearless", 20 * 86400 + 4 * 3600 + 41 * 60 + 44, " node017 kernel: x"),
    ("Mar  1 00:00:00 node017 x", "yearless", 59 * 86400, " node017 x"),
    ("messages:Jun 17 01:00:00 node017 x", "yearless", 167 * 86400 + 3600, " node017 x"),
    ("/var/log/syslog.1:12:Jun 17 01:00:00 n x", "yearless", 167 * 86400 + 3600, " n x"),
    ("E1118 20:32:23.955028747 12 file.cc:1] x", "yearless", 321 * 86400 + 73943.955028747, " 12 file.cc:1] x"),
    ("[E1118 20:32:23.955028747 file.cpp:1] x", "yearless", 321 * 86400 + 73943.955028747, " file.cpp:1] x"),
    ("W0422 03:12:44.118000 139 a.py:2] x", "yearless", 111 * 86400 + 11564.118, " 139 a.py:2] x"),
    ("E710 03:12:44.118000 139 a.py:2] x", "yearless", 190 * 86400 + 11564.118, " 139 a.py:2] x"),
    ("I1130 13:25:57.123456       1 main.go:4] x", "yearless", 333 * 86400 + 48357.123456, "       1 main.go:4] x"),
    ("I20241118 20:32:23.955028 1 a.cc:1] x", "local", unix(2024, 11, 18, 20, 32, 23) + 0.955028, " 1 a.cc:1] x"),
    ("[INFO|trainer.py:123] 2024-09-03 15:54:54,100 >> x", "local", unix(2024, 9, 3, 15, 54, 54) + 0.1, " >> x"),
    ("INFO 07-18 12:00:00 [core.py:12] x", "yearless", 198 * 86400 + 43200, " [core.py:12] x"),
    ("INFO:2024-09-03 15:54:54,100:x", "local", unix(2024, 9, 3, 15, 54, 54) + 0.1, ":x"),
    ("[INFO] [2024-09-03 15:54:54] x", "local", unix(2024, 9, 3, 15, 54, 54), " x"),
    ("[Feb 27 2025 15:10:02] [ERROR] x", "local", unix(2025, 2, 27, 15, 10, 2), " [ERROR] x"),
    ("12:34:56 x", "clock", 45296.0, " x"),
    ("[12:34:56.500] x", "clock", 45296.5, " x"),
    ("1764509157.123 x", "utc", 1764509157.123, " x"),
    ("[1764509157.123456] [node:1:0] x", "utc", 1764509157.123456, " [node:1:0] x"),
    ("Thu Jan 18 22:49:39 2024", "local", unix(2024, 1, 18, 22, 49, 39), ""),
    ("Thu Jan 18 22:49:39 UTC 2024", "utc", unix(2024, 1, 18, 22, 49, 39), ""),
    ('time="2025-01-21T04:41:44Z" level=info', "utc", unix(2025, 1, 21, 4, 41, 44), '" level=info'),
]


@pytest.mark.parametrize(("line", "kind", "seconds", "rest"), FORMS)
def test_reads_a_form(line: str, kind: str, seconds: float, rest: str) -> None:
    stamp, length = find(line)
    assert stamp is not None
    assert (stamp.kind, line[length:]) == (kind, rest)
    assert stamp.seconds == pytest.approx(seconds, abs=1e-5)


def test_a_date_inside_the_sentence_has_no_length() -> None:
    line = "slurmstepd: error: *** JOB 7 ON node017 CANCELLED AT 2021-05-23T08:45:57 DUE TO TIME LIMIT ***"
    stamp, length = find(line)
    assert stamp is not None
    assert (stamp.kind, stamp.seconds, length) == ("local", unix(2021, 5, 23, 8, 45, 57), 0)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "   ",
        "[rank0]: Traceback (most recent call last):",
        "[ 123] not a stamp",
        "E1399 20:32:23.9 x",
        "2025-13-41 04:41:44 x",
        "2025-02-30 04:41:44 x",
        "25:61:00 x",
        "Foo 21 04:41:44 x",
        "10.0.3.17 x",
        "1764509157 steps",
        "node017:4021:4021 [0] NCCL INFO x",
        "may 99 12:00:00",
        "[[[[[[[[[[[[",
    ],
)
def test_refuses(line: str) -> None:
    assert find(line) == (None, 0)
