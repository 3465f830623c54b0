"""Logs of which only chosen lines were sent: their numbers stay those of the original, and the report says it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from triage import explain
from triage.bundle.opening import Evidence, open_evidence

FAULT = b"[  812.2] NVRM: Xid (PCI:0000:9b:00): 79, pid=4021, GPU has fallen off the bus."
LOG = b"triage.reduced/1\t9000\t700000\t4\t130\n1\tfirst\n2\tsecond\n4412\t" + FAULT + b"\n9000\tlast\n"


def opened(folder: Path, data: bytes, name: str = "kern.log") -> Evidence:
    (folder / name).write_bytes(data)
    return open_evidence([str(folder / name)])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_lines_have_the_numbers_of_the_original(tmp_path: Path, pack: type[bytes]) -> None:
    with opened(tmp_path, pack(LOG)) as evidence:
        (chunk,) = evidence.chunks(evidence.files[0])
        assert evidence.read(evidence.files[0]) == b"first\nsecond\n\n" + FAULT + b"\n\nlast\n"
        with evidence.raw(evidence.files[0]) as stream:
            assert stream.read() == LOG, "redacting a bundle again must not lose the numbers"
    assert chunk.data == b"first\nsecond\n\n" + FAULT + b"\n\nlast\n"
    assert list(chunk.lines.every()) == [1, 2, 3, 4412, 4413, 9000]


def test_the_report_cites_the_original_and_says_what_it_did_not_see(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for name in ("a", "b"):
        (tmp_path / "logs" / f"{name}-kern.log").write_bytes(LOG)
    report = explain(tmp_path / "logs")
    assert report.hypotheses[0].cause == "gpu/fallen-off-bus"
    assert report.hypotheses[0].evidence[0].line == 4412
    (gap,) = report.gaps
    assert gap.why == "truncated"
    assert gap.what.startswith("17992 of 18000 lines (1.4 MB) of 2 logs")


def test_progress_bars_inside_keep_their_number(tmp_path: Path) -> None:
    with opened(tmp_path, b"triage.reduced/1\t9\t99\t2\t9\n7\t10%\r20%\r30%\n9\tend\n") as evidence:
        (chunk,) = evidence.chunks(evidence.files[0])
    assert chunk.data == b"\n10%\n20%\n30%\n\nend\n"
    assert list(chunk.lines.every()) == [1, 7, 7, 7, 8, 9]


def test_many_chunks(tmp_path: Path) -> None:
    body = b"".join(b"%d\t%s\n" % (2 * at, b"x" * 90) for at in range(1, 100_001))
    with opened(tmp_path, b"triage.reduced/1\t200000\t9\t9\t9\n" + body) as evidence:
        found = [number for chunk in evidence.chunks(evidence.files[0]) for number in chunk.lines.every()]
    assert found == list(range(1, 200_001))


@pytest.mark.parametrize(
    "body",
    [b"", b"no number at all\n", b"-3\tx\n", b"9\tx\n2\ty\n", b"1" * 400 + b"\tx\n", b"\t\t\n", b"3\t\xff\x00\x1b[\n"],
)
def test_hostile_numbers_do_no_harm(tmp_path: Path, body: bytes) -> None:
    with opened(tmp_path, b"triage.reduced/1\t9\t9\t9\t9\n1\tone\n" + body) as evidence:
        numbers = [number for chunk in evidence.chunks(evidence.files[0]) for number in chunk.lines.every()]
    assert numbers == sorted(numbers)
    assert numbers[0] == 1
    explain(tmp_path)


def test_a_title_that_is_none_is_a_line(tmp_path: Path) -> None:
    for first in (b"triage.reduced/1\tmany\t1\t1\t1\n", b"triage.reduced/1\t1\t1\n", b"triage.reduced/1\n"):
        with opened(tmp_path, first + b"7\tx\n") as evidence:
            assert evidence.read(evidence.files[0]).startswith(first)
            assert not evidence.gaps
