"""Reading tar headers one after the other. The tarfile module would hold a header of any length in memory,
and ends without a word where an archive is damaged; only its header decoding is used."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import IO

from triage.model.base import Record

BLOCK = 512
LONGEST = 1 << 20  # bytes of an extended header; real ones hold a path

_KINDS = {
    tarfile.REGTYPE: "file", tarfile.AREGTYPE: "file", tarfile.CONTTYPE: "file", tarfile.DIRTYPE: "folder",
    tarfile.SYMTYPE: "link", tarfile.LNKTYPE: "link", tarfile.CHRTYPE: "device", tarfile.BLKTYPE: "device",
    tarfile.FIFOTYPE: "device", tarfile.GNUTYPE_SPARSE: "sparse file",
}  # fmt: skip
_EXTENDED = {
    tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
}  # fmt: skip


class Entry(Record, frozen=True, kw_only=True):
    """A member. kind: file, folder, link, device, sparse file, or words for the rest. offset: of its bytes."""

    name: str
    kind: str
    size: int
    offset: int


class TarDamageError(Exception):
    """The archive ends early or holds something that is no header."""


def entries(stream: IO[bytes]) -> Iterator[Entry]:
    """Members in order; while one is held the caller may read its bytes from the stream. Raises TarDamageError."""
    position, extended = 0, dict[str, str]()
    while True:
        block = _exactly(stream, BLOCK)
        if not block.strip(b"\0"):
            return
        position += BLOCK
        header = _header(block)
        if header.type in _EXTENDED:
            extended |= _extension(header, stream)
            position += _padded(header.size)
            continue
        entry = _entry(header, extended, position)
        extended = {}
        yield entry
        position += _padded(entry.size)
        _go_to(stream, position)


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError) as error:
        raise TarDamageError(f"no tar header where one is due ({error})") from None
    if header.size < 0:
        raise TarDamageError("a tar header with a negative size")
    return header


def _entry(header: tarfile.TarInfo, extended: dict[str, str], offset: int) -> Entry:
    kind = _KINDS.get(header.type, "member of another kind")
    if any(key.startswith("GNU.sparse") for key in extended):
        kind = "sparse file"
    size = extended.get("size", "")
    length = int(size) if size.isdecimal() and len(size) < 20 else header.size
    return Entry(
        name=extended.get("GNU.sparse.name") or extended.get("path") or header.name,
        kind=kind,
        size=0 if kind in {"folder", "link", "device"} else length,
        offset=offset,
    )


def _extension(header: tarfile.TarInfo, stream: IO[bytes]) -> dict[str, str]:
    if header.size > LONGEST:
        raise TarDamageError(f"an extended header of {header.size} bytes")
    data = _exactly(stream, _padded(header.size))[: header.size]
    if header.type == tarfile.GNUTYPE_LONGNAME:
        return {"path": _text(data.rstrip(b"\0"))}
    return _pax(data) if header.type in {tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE} else {}


def _pax(data: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    while data:
        digits, _, _ = data[:20].partition(b" ")
        length = int(digits) if digits.isdigit() else 0
        if not len(digits) < length <= len(data):
            break
        key, _, value = data[len(digits) + 1 : length].partition(b"=")
        found[_text(key)] = _text(value.removesuffix(b"\n"))
        data = data[length:]
    return found


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise TarDamageError("the archive ends early")
    return data


def _go_to(stream: IO[bytes], position: int) -> None:
    if stream.seekable():
        if stream.seek(0, io.SEEK_END) < position:
            raise TarDamageError("the archive ends early")
        stream.seek(position)
        return
    while missing := position - stream.tell():
        if not stream.read(min(missing, LONGEST)):
            raise TarDamageError("the archive ends early")
