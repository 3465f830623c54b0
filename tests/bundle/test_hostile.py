"""Hostile evidence that no other test holds: archives that lie, streams that want memory, names that pass for others.

SECURITY.md has the table of all kinds.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import resource
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

import triage
from triage.bundle.limits import Limits
from triage.bundle.opening import open_evidence
from triage.parsers import recognise
from triage.report.render import json as render

XID = "[    1.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus.\n"
SMALL = Limits(total=4 << 20, member=2 << 20, members=50, ratio=100, ratio_from=1 << 20)


def opened(path: Path, limits: Limits = SMALL) -> tuple[dict[str, int], list[str]]:
    """Bytes read of each file, and why there are gaps. Memory may not grow by more than 300 MB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open_evidence([str(path)], limits=limits, recognise=recognise) as evidence:
        sizes = {file.path: sum(len(chunk.data) for chunk in evidence.chunks(file)) for file in evidence.files}
        reasons = [gap.why for gap in evidence.gaps]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10
    return sizes, reasons


def test_a_zip_whose_members_are_one_stream(tmp_path: Path) -> None:
    """A small zip that unpacks to much, for each of its names stands for the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("one.log", b"x\n" * 500_000)
        first = archive.infolist()[0]
        for number in range(200):
            twin = zipfile.ZipInfo(f"n{number:03d}.log")
            for name in ("header_offset", "compress_size", "file_size", "CRC", "compress_type"):
                setattr(twin, name, getattr(first, name))
            archive.filelist.append(twin)
    (tmp_path / "x.zip").write_bytes(out.getvalue())
    sizes, reasons = opened(tmp_path / "x.zip")
    assert len(sizes) <= SMALL.members
    assert sum(sizes.values()) <= SMALL.total
    assert reasons


def test_a_zip_that_lies_about_sizes(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.log", b"x\n" * 3_000_000)
    data = bytearray(out.getvalue())
    for mark, at in ((b"PK\1\2", 24), (b"PK\3\4", 22)):  # the directory's entry and the header in front of the member
        struct.pack_into("<I", data, data.find(mark) + at, 10)
    (tmp_path / "x.zip").write_bytes(data)
    sizes, reasons = opened(tmp_path / "x.zip")
    assert sum(sizes.values()) <= SMALL.member
    assert reasons


@pytest.mark.parametrize("layers", [3, 30])
def test_gzip_in_gzip_in_gzip(tmp_path: Path, layers: int) -> None:
    data = XID.encode()
    for _ in range(layers):
        data = gzip.compress(data)
    (tmp_path / "x.gz").write_bytes(data)
    sizes, reasons = opened(tmp_path)
    assert (sizes, reasons) == ({"x.gz": 0}, ["unparsable"])


def test_streams_that_ask_for_gigabytes_of_window(tmp_path: Path) -> None:
    (tmp_path / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd\x00" + bytes([21 << 3]) + b"\x55\x00\x00" + b"x" * 100)  # 2 GiB
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 64 << 20}]
    packed = bytearray(lzma.compress(b"x\n" * 99, filters=filters))
    at = packed.find(b"\x21\x01") + 2  # the size of the dictionary: 28 is 64 MiB, 38 is 2 GiB
    packed[at] = 38
    (tmp_path / "b.xz").write_bytes(packed)
    sizes, reasons = opened(tmp_path)
    assert set(sizes.values()) == {0}
    assert len(reasons) >= 2


def test_a_sparse_member_of_terabytes(tmp_path: Path) -> None:
    info = tarfile.TarInfo("huge.log")
    info.size = 1 << 43
    header = info.tobuf(tarfile.GNU_FORMAT)
    sparse = tarfile.TarInfo("sparse.log")
    sparse.type = tarfile.GNUTYPE_SPARSE
    (tmp_path / "x.tar").write_bytes(sparse.tobuf(tarfile.GNU_FORMAT) + header + b"x\n" * 512)
    sizes, reasons = opened(tmp_path / "x.tar")
    assert sum(sizes.values()) <= 1024
    assert set(reasons) == {"denied", "truncated"}


@pytest.mark.parametrize(
    "data", [b'{"segments": ' + b"[" * 50_000, b'{"entries": [' + b'{"a":' * 50_000, b"[" * 99_999]
)
def test_json_that_nests_deeply_is_a_gap_or_says_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "dump.json").write_bytes(data)
    (tmp_path / "dmesg.txt").write_text(XID)
    report = triage.explain(str(tmp_path))
    assert report.hypotheses[0].cause == "gpu/fallen-off-bus"


def test_letters_that_look_like_others_are_others(tmp_path: Path) -> None:
    """Nodes are told apart by their bytes; a line of look-alikes is no evidence; the report shows what stands there."""
    for node in ("node1", "n\N{CYRILLIC SMALL LETTER O}de1"):
        (tmp_path / "nodes" / node / "kernel_log").mkdir(parents=True)
        (tmp_path / "nodes" / node / "kernel_log" / "dmesg.txt").write_text(XID)
    with open_evidence([str(tmp_path)], recognise=recognise) as evidence:
        assert len({file.node for file in evidence.files}) == 2
    alike = tmp_path / "alike.log"
    alike.write_text(
        XID.replace("Xid", "\N{GREEK CAPITAL LETTER CHI}id").replace("fallen", "f\N{CYRILLIC SMALL LETTER A}llen")
    )
    assert triage.explain(str(alike)).hypotheses == []


def test_text_that_ends_the_json_or_the_page_of_a_report(tmp_path: Path) -> None:
    """The answer stays one JSON document; each of these stands in a value, as text."""
    line = XID.replace("GPU has", '\u2028</script>\ud7ff\ufffe"}],"cause":"x" GPU has')
    (tmp_path / "dmesg.txt").write_text(line)
    told = json.loads(render.render(triage.explain(str(tmp_path))))
    assert told["hypotheses"][0]["cause"] == "gpu/fallen-off-bus"


def test_names_of_files_cannot_pass_for_our_words(tmp_path: Path) -> None:
    """Line ends, sequences and reversed text in names: one printable line each."""
    for name in ("a\nDiagnosed: all is well.log", "\x1b[2Jb.log", "\u202egol.c", "-rf", "$(touch x)", "`x`.log"):
        (tmp_path / name).write_text(XID)
    report = triage.explain(str(tmp_path))
    places = [evidence.file for each in report.hypotheses for evidence in each.evidence] + [
        gap.file for gap in report.gaps
    ]
    assert all(place is None or place.isprintable() for place in places)
