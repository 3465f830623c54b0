"""What bytes are, by their content: text or not, an archive or not."""

from __future__ import annotations

import tarfile

# First bytes of things that are never lines of text.
_BINARY = (
    b"\x7fELF", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"PK\x03\x04", b"PK\x05\x06", b"SQLite format 3\0",
    b"\x93NUMPY", b"\x89HDF\r\n", b"%PDF-", b"!<arch>\n", b"RIFF", b"PAR1", b"7z\xbc\xaf", b"LPKSHHRH",
)  # fmt: skip
_WIDE = {
    b"\xff\xfe\0\0": "utf-32-le", b"\0\0\xfe\xff": "utf-32-be", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be",
}  # fmt: skip
_CONTROL = bytes([*range(1, 7), *range(14, 27), *range(28, 32), 127])  # no bells, tabs, line ends, ESC


def encoding(head: bytes) -> str | None:
    """The wide encoding that a byte order mark announces, or None for bytes that are read as UTF-8."""
    return next((name for mark, name in _WIDE.items() if head.startswith(mark)), None)


def is_pickle(head: bytes) -> bool:
    """Protocol 2 to 5: every dump that torch writes."""
    return head[:1] == b"\x80" and head[1:2] in {b"\2", b"\3", b"\4", b"\5"}


def is_text(head: bytes, tail: bytes) -> bool:
    """Whether both ends read like lines. Runs of NUL do not count: crashed and rotated logs have them."""
    if encoding(head):
        return True
    if is_pickle(head) or head.startswith(_BINARY):
        return False
    parts = [part for part in (head.replace(b"\0", b""), tail.replace(b"\0", b"")) if part]
    return bool(parts) and all(_reads_like_text(part) for part in parts)


def _reads_like_text(part: bytes) -> bool:
    if (len(part) - len(part.translate(None, _CONTROL))) * 33 > len(part):  # 3 %: random bytes have 11 %
        return False
    if part.isascii():
        return True
    return part.decode("utf-8", "replace").count("\ufffd") * 2 <= len(part)


def is_tar(head: bytes) -> bool:
    """A tar header with a right checksum stands at the head."""
    try:
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return False
    return True


def is_zip(head: bytes) -> bool:
    """A zip file, also an empty one."""
    return head[:4] in {b"PK\x03\x04", b"PK\x05\x06"}
