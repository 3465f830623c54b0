"""Lines come out plain and keep the number that they have on disk."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.bundle.normalise import LONGEST, _alone, _single, is_plain, normalise
from triage.bundle.opening import open_evidence

CASES = {
    "plain": (b"one\ntwo\n", [(1, "one"), (2, "two")]),
    "no end": (b"one\ntwo", [(1, "one"), (2, "two")]),
    "CRLF": (b"one\r\ntwo\r\n\r\nfour\r\n", [(1, "one"), (2, "two"), (3, ""), (4, "four")]),
    "CR CR LF, as a pty writes": (b"one\r\r\ntwo\n", [(1, "one"), (2, "two")]),
    "progress bar": (b"a\n\r 1%|x\r 2%|x\r 3%|x\nb\n", [(1, "a"), (2, " 1%|x"), (2, " 2%|x"), (2, " 3%|x"), (3, "b")]),
    "message glued to a bar": (
        b" 9%|x | 9/99 [00:01]ERROR: bad\nb\n",
        [(1, " 9%|x | 9/99 [00:01]ERROR: bad"), (2, "b")],
    ),
    "bar that ends in CR": (b"50%\r100%\r\nb\n", [(1, "50%"), (1, "100%"), (2, "b")]),
    "colours": (b"\x1b[1;31mERROR\x1b[0m bad\x1b[K\nb\n", [(1, "ERROR bad"), (2, "b")]),
    "title": (b"\x1b]0;user@node\x07one\n\x1b]8;;http://x\x1b\\two\n", [(1, "one"), (2, "two")]),
    "cursor moves": (b"one\x1b[5;1Htwo\nb\n", [(1, "one"), (1, "two"), (2, "b")]),
    "several bars": (b"\x1b[A\x1b[2K\r 1%\n\n\x1b[A 2%\nb\n", [(1, " 1%"), (2, ""), (3, " 2%"), (4, "b")]),
    "lone escape": (b"a\x1b", [(1, "a")]),
    "backspaces": (b"1/9\x08\x08\x08\x082/9\nN\x08NA\x08A\n", [(1, "1/9"), (1, "2/9"), (2, "NA")]),
    "NUL hole": (b"half\0\0\0\0\0[boot] x\nb\n", [(1, "half"), (1, "[boot] x"), (2, "b")]),
    "NUL between variables": (b"A=1\0B=2\0", [(1, "A=1"), (1, "B=2")]),
    "UTF-16 without a mark": ("a log\nline\n".encode("utf-16-le"), [(1, "a log"), (2, "line")]),
    "UTF-16": ("one\r\ntwo\n\u010a\n".encode("utf-16"), [(1, "one"), (2, "two"), (3, "\u010a")]),
    "UTF-16, other order": (b"\xfe\xff" + "one\ntwo\n".encode("utf-16-be"), [(1, "one"), (2, "two")]),
    "UTF-32": ("one\ntwo\n".encode("utf-32"), [(1, "one"), (2, "two")]),
    "UTF-8 mark": (b"\xef\xbb\xbfone\ntwo\n", [(1, "one"), (2, "two")]),
    "latin-1": ("Gerät\nfehlt\n".encode("latin-1"), [(1, "Ger\ufffdt"), (2, "fehlt")]),
    "UTF-8": ("█▌\nb\n".encode(), [(1, "█▌"), (2, "b")]),
}


def lines(path: Path) -> list[tuple[int, str]]:
    with open_evidence([str(path)]) as evidence:
        found = []
        for chunk in evidence.chunks(evidence.files[0]):
            texts = chunk.data.decode(errors="replace").removesuffix("\n").split("\n")
            found += zip(chunk.lines.every(), texts, strict=True)
        return found


@pytest.mark.parametrize("case", CASES)
def test_lines_and_their_numbers(tmp_path: Path, case: str) -> None:
    data, wanted = CASES[case]
    (tmp_path / "x.log").write_bytes(data)
    assert lines(tmp_path / "x.log") == wanted


def test_numbers_go_on_over_chunks(tmp_path: Path) -> None:
    line = b"0123456789" * 10
    data = b"".join(b"%d %s%s\n" % (n, line, b"\rbar" if n % 1000 == 0 else b"") for n in range(1, 100_001))
    (tmp_path / "x.log").write_bytes(data)
    found = lines(tmp_path / "x.log")
    assert len(found) == 100_100
    assert all(text == "bar" or text.split()[0] == str(number) for number, text in found)


def test_plain_bytes_are_handed_on_as_they_are() -> None:
    data = b"a line\n" * 1000
    assert normalise(data, 1).data is data
    assert normalise(data, 1).seams is None
    assert is_plain("größer\n".encode())
    assert is_plain(b"gr\xf6sser\n")  # who decodes a line replaces what is no UTF-8
    assert not is_plain(b"gr\xf6sser\r\n")


def test_long_lines_are_cut_and_keep_their_number(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(b"a\n" + "é".encode() * 5_000_000 + b"\nb\n")
    found = lines(tmp_path / "x.log")
    assert [number for number, _ in found] == [1, *[2] * (len(found) - 2), 3]
    assert max(len(text.encode()) for _, text in found) <= LONGEST
    assert "".join(text for number, text in found if number == 2) == "é" * 5_000_000


@given(st.binary(max_size=60).map(lambda data: data.translate(bytes(b"\r\nax"[each % 4] for each in range(256)))))
def test_carriage_returns_are_thinned_the_same_in_both_ways(data: bytes) -> None:
    if b"\r" in data:
        assert _alone(data) == _single(data)


# Bytes that mean something to a terminal, among them line ends.
ODD = bytes(b"\r\nax\x1b[]m\0\x08;1H\x07\\\xef"[each % 16] for each in range(256))


@given(st.binary(max_size=90).map(lambda data: data.translate(ODD)))
def test_no_line_feed_is_lost(data: bytes) -> None:
    plain = normalise(data, 1)
    assert plain.lines.at(len(plain.data)) == 1 + data.count(b"\n")


@pytest.mark.parametrize(
    "piece",
    [
        b"\r",
        b"\x1b",
        b"\x1b]",
        b"\x1b[",
        b"\x1b[1",
        b"\0",
        b"\x08",
        b"\xff",
        b"\x80",
        b"a\x08",
        b"\n\r",
        b"\x1bP\0",
        b"a",
    ],
)
def test_hostile_repetition_takes_linear_time(piece: bytes) -> None:
    data = piece * ((4 << 20) // len(piece))
    start = time.process_time()
    normalise(data, 1)
    assert time.process_time() - start < 5


def test_hundred_megabytes_in_one_line_need_little_memory(tmp_path: Path) -> None:
    with (tmp_path / "x.log").open("wb") as out:
        for _ in range(100):
            out.write(b"x" * (1 << 20))
    script = (
        "import sys, resource; from triage.bundle.opening import open_evidence\n"
        "evidence = open_evidence([sys.argv[1]]); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "total = sum(len(chunk.data) for chunk in evidence.chunks(evidence.files[0]))\n"
        "print(total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, check=True, text=True)
    total, grown = map(int, done.stdout.split())
    assert total >= 100 << 20
    assert grown < 80 << 10  # KiB
