"""A text file as line-aligned chunks."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator

from triage.bundle.blobs import BUFFER
from triage.bundle.normalise import LONGEST, Plain, normalise
from triage.bundle.wrapping import NONE, Wrapping, wrapping
from triage.model.bundle import Chunk, File
from triage.model.lines import Listed, feeds

CHUNK = 4 << 20  # bytes: large enough that scanning dominates, small enough to stay in a core's cache

# glibc gives freed memory back to the system beyond twice the largest block that it once asked for by itself (32 MiB at
# most). Without such a block each chunk is paid for with a thousand page faults: a fifth of the time of a large file.
_ONCE = 31 << 20
_LF = ord("\n")
_BINARY = 1024  # bytes at the head of a file in which text has no NUL


def chunks(stream: io.BufferedReader, file: File) -> Iterator[Chunk]:
    """Chunks of at most 5 MiB; only a line without an end within them is cut. Raises OSError."""
    space = None
    if file.size > CHUNK:
        space = memoryview(bytearray(CHUNK))
        bytes(_ONCE)  # not even touched
    first_line, block = 1, _block(stream, space)
    wrapped = wrapping(block)
    while block:
        following = _block(stream, space)
        plain = plainly(block, first_line, wrapped)
        yield Chunk(file=file, last=not following, **plain._asdict())
        if wrapped is NONE:  # making it plain takes no line feed away, and who looked at hits has counted most of them
            first_line = plain.lines.at(len(plain.data))
        else:
            first_line += feeds(block, 0, len(block))
        block = following


def plainly(block: bytes, first_line: int, wrapped: Wrapping) -> Plain:
    """A block as it was printed, before anything wrapped it."""
    if wrapped is NONE:
        return normalise(block, first_line)
    data, places = wrapped.undone(block)
    if places is None:
        return normalise(data, first_line)
    plain, last = normalise(data, 0), len(places) - 1
    numbers = [first_line + places[min(at, last)] for at in plain.lines.every()]
    return plain._replace(lines=Listed(numbers, plain.data))


def printed(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    """Both ends of a file without what the log was wrapped in on its way here; as they are for any other file."""
    wrapped = wrapping(head) if b"\0" not in head[:_BINARY] else NONE
    if wrapped is NONE:
        return head, tail
    one = plainly(head, 1, wrapped).data
    return one, one if tail == head else plainly(tail, 1, wrapped).data


def _block(stream: io.BufferedReader, space: memoryview | None) -> bytes:
    """The next 4 MiB and what its last line still has, at most 1 MiB of it, to the end of a character.

    space: for the 4 MiB of a large file, the same each time: memory that is taken anew costs more than a copy.
    """
    start = stream.read(CHUNK) if space is None else space[: stream.readinto(space)]
    if len(start) < CHUNK or start[-1] == _LF:
        return bytes(start)
    rest = stream.readline(LONGEST)
    for _ in range(3):  # a character has at most three more bytes
        if (rest or start)[-1] < 0x80 or not 0x80 <= (stream.peek(1)[:1] or b"\0")[0] < 0xC0:
            break
        rest += stream.read(1)
    return b"".join((start, rest))


def recoded(stream: io.BufferedReader, encoding: str) -> io.BufferedReader:
    """A stream of UTF-16 or UTF-32 as UTF-8, without its byte order mark."""
    return io.BufferedReader(_Recoded(stream, encoding), BUFFER)


class _Recoded(io.RawIOBase):
    def __init__(self, stream: io.BufferedReader, encoding: str) -> None:
        self._stream, self._rest, self._ended = stream, b"", False
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest and not self._ended:
            raw = self._stream.read(BUFFER)
            self._ended = not raw
            self._rest = self._decoder.decode(raw, self._ended).replace("\ufeff", "").encode("utf-8", "replace")
        data, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
