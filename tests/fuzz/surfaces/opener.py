"""Opening evidence: archives, compression, names, recognition, lines and whole documents; and a bundle's manifest."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Iterator
from functools import cache

import zstandard

from tests.fuzz.targets import FIXTURES, Target
from triage.bundle import manifest
from triage.bundle.limits import Limits
from triage.bundle.opening import open_evidence
from triage.errors import BundleError
from triage.parsers import recognise

_LIMITS = Limits(total=8 << 20, member=2 << 20, members=200, depth=2, memory=1 << 20, ratio=100, ratio_from=1 << 20)
_FILES = {
    "manifest.json": b"",
    "nodes/node001/kernel_log/dmesg.txt": (FIXTURES / "parsers/kernel_log/dmesg.txt").read_bytes(),
    "job/rank0/stderr.log": b"\x1b[31mRuntimeError: x\x1b[0m\r\n50%\r100%\n",
    "job/fr_rank0": (FIXTURES / "parsers/flight_recorder/pickle-2.10/fr_rank0").read_bytes(),
}
MANIFEST = {
    "schema": "triage.bundle/1",
    "complete": True,
    "nodes": [{"node": "node001", "ranks": [0, 1]}],
    "ledger": [
        {"node": "node001", "collector": "nvidia_smi", "status": "timed_out", "planned": True, "ran": True},
        {"node": "node002", "collector": "node", "outcome": "unreachable", "exit_code": 255, "bytes": 0},
        {"node": "node001", "collector": "kernel_log", "denied": ["/dev/kmsg"], "exit_code": 0, "bytes": 1859},
    ],
    "files": [
        {"path": "job/rank0/stderr.log", "node": "node001", "rank": 0, "pid": 77, "truncated": True},
        {"path": "job/fr_rank0", "source": "flight_recorder", "rank": 0, "bytes": 3042},
    ],
}


def targets() -> Iterator[Target]:
    """Archives of every kind, and the manifest alone."""
    yield Target("opener", _archives(), _opened, share=0.1)
    yield Target("manifest", (json.dumps(MANIFEST).encode(),), _described)


@cache
def _archives() -> tuple[bytes, ...]:
    files = _FILES | {"manifest.json": json.dumps(MANIFEST).encode()}
    plain = _tar(files, tarfile.GNU_FORMAT)
    packed = [gzip.compress(plain, mtime=0), zstandard.compress(plain), lzma.compress(plain), bz2.compress(plain)]
    nested = _tar({"inner.tar.gz": packed[0], "inner.zip": _zip(files)}, tarfile.PAX_FORMAT)
    alone = gzip.compress(files["nodes/node001/kernel_log/dmesg.txt"], mtime=0)
    return (plain, _tar(files, tarfile.PAX_FORMAT), *packed, _zip(files), nested, alone, *files.values())


def _tar(files: dict[str, bytes], form: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("a/" * 60 + "link")
        link.type, link.linkname = tarfile.SYMTYPE, "../../etc/passwd"
        archive.addfile(link)
    return out.getvalue()


def _zip(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def _opened(data: bytes) -> None:
    """BundleError is the answer to what gives nothing at all; all else becomes gaps."""
    try:
        evidence = open_evidence(["-"], stdin=io.BytesIO(data), limits=_LIMITS, recognise=recognise)
    except BundleError as error:
        assert str(error).isprintable(), error
        return
    with evidence:
        for file in evidence.files:
            assert ".." not in file.path.split("/"), file.path
            assert not file.path.startswith("/"), file.path
            sum(len(chunk.data) for chunk in evidence.chunks(file))
            evidence.read(file, 1 << 20)
        assert len(evidence.files) <= _LIMITS.members + 1
        assert all(gap.what.isprintable() for gap in evidence.gaps), evidence.gaps


def _described(data: bytes) -> None:
    found = manifest.parse(data)
    if found is not None:
        list(manifest.gaps(found))
        manifest.rows(found, "files")
