"""What comes back from a node: a tar.gz stream, taken apart into the bundle. A node may be ill: nothing is believed."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import time
import zlib
from collections.abc import Callable, Sequence
from typing import IO, Any, cast

from triage.bundle.naming import refusal
from triage.bundle.writing import Writer, member
from triage.model.base import Record

NODE_BYTES = 4 << 30  # unpacked, of one node; its own limit is an eighth of it
_ROW = 4 << 20  # bytes of a ledger row
_REDUCED = ("lines", "bytes", "kept", "sha256", "first", "last")  # what a node says of a log that it reduced
_FAULTS = (tarfile.TarError, EOFError, OSError, zlib.error, ValueError, KeyError, TypeError, AttributeError)


class Answer:
    """What one node has sent so far. `began` and `ended` say how far its collecting got."""

    def __init__(self, node: str, sent: float) -> None:
        self.node, self.sent = node, sent
        self.began: dict[str, Any] | None = None
        self.ended: dict[str, Any] | None = None
        self.rows: dict[str, dict[str, Any]] = {}
        self.fault: str | None = None
        self.offset: tuple[float, float] | None = None
        self.bytes = 0


class Receiver(Record, frozen=True, kw_only=True):
    """Where the streams of nodes go.

    writer: the bundle. clean: redacts one text (names of files, ledger rows). label: a node's name in the bundle.
    """

    writer: Writer
    clean: Callable[[str], str]
    label: Callable[[str], str]

    def receive(self, answer: Answer, stream: IO[bytes], encoded: bool = False) -> None:
        """Take a node's stream into the bundle until it ends; damage is noted in the answer. Raises DiskFullError."""
        source = _Prompt(io.BufferedReader(Decoding(stream), 1 << 16) if encoded else stream)
        kept: dict[str, Any] = {}
        try:
            with tarfile.open(fileobj=cast("IO[bytes]", source), mode="r|gz") as archive:
                for info in archive:
                    self._member(answer, archive, info, kept)
        except _FAULTS as error:
            if answer.ended is None:
                answer.fault = f"its stream ended early ({error})" if answer.began else None
        for name, found in kept.items():  # files whose ledger row never came
            self.writer.describe(found, name.split("/")[0], self.label(answer.node), truncated=True)

    def _member(self, answer: Answer, archive: tarfile.TarFile, info: tarfile.TarInfo, kept: dict[str, Any]) -> None:
        source = archive.extractfile(info) if info.isreg() else None
        answer.bytes += info.size
        if source is None or refusal(info.name) or answer.bytes > NODE_BYTES:
            return
        if info.name.startswith("_ledger/"):
            self._row(answer, info.name.removeprefix("_ledger/"), json.loads(source.read(_ROW)), kept)
            return
        path = f"nodes/{member(self.label(answer.node))}/{self.clean(info.name)}"
        kept[info.name] = self.writer.add(path, source)

    def _row(self, answer: Answer, name: str, said: dict[str, Any], kept: dict[str, Any]) -> None:
        if name == "_begin.json":
            now = time.time()
            answer.began = said
            answer.offset = (float(said["start"]) - (answer.sent + now) / 2, (now - answer.sent) / 2)
            return
        if name == "_end.json":
            answer.ended = said
            return
        row = cast("dict[str, Any]", self._cleaned(said["row"])) | {"node": self.label(answer.node)}
        answer.rows[str(row["collector"])] = row
        for one in said["files"]:
            if found := kept.pop(one["path"], None):
                self._describe(found, answer.node, str(row["collector"]), one)

    def _describe(self, found: Any, node: str, collector: str, one: dict[str, Any]) -> None:
        more: dict[str, Any] = {key: one[key] for key in ("rank", "local_rank", "pid") if isinstance(one.get(key), int)}
        more |= self._cleaned(told(one))
        cut = bool(more.pop("truncated", False)) or one.get("sha256") != found.sha256
        self.writer.describe(found, collector, self.label(node), truncated=cut, **more)

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, list):
            return [self._cleaned(one) for one in value]
        if isinstance(value, dict):
            return {str(key): self._cleaned(one) for key, one in value.items()}
        return value


def told(one: dict[str, Any]) -> dict[str, Any]:
    """What a reducer says of a log, as far as it has the form that it should."""
    more: dict[str, Any] = {"truncated": bool(one.get("truncated"))}
    if isinstance(reduced := one.get("reduced"), dict):
        more["reduced"] = {key: reduced[key] for key in _REDUCED if isinstance(reduced.get(key), (int, str))}
    return more


class _Prompt:
    """Gives what has come without waiting for more: what a node has sent is on disk here at once."""

    def __init__(self, stream: Any) -> None:
        self.read = getattr(stream, "read1", stream.read)


class Decoding(io.RawIOBase):
    """Lines of base64 as bytes. A line that is none is a message of the shell in between, and is left out."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source, self._rest = source, b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; 0 at the end."""
        view = memoryview(buffer)
        while not self._rest:
            line = self._source.readline()
            if not line:
                return 0
            try:
                self._rest = base64.b64decode(line.strip(), validate=True)
            except ValueError:
                continue
        size = min(len(view), len(self._rest))
        view[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def ledger(answer: Answer, label: str, planned: Sequence[str], trouble: dict[str, Any]) -> list[dict[str, Any]]:
    """Every planned collector of a node as a row, whether the node answered or not, and a row for the node itself."""
    base = {"node": label, "planned": True}
    rows = [base | {"collector": "node", "ran": answer.began is not None} | trouble]
    for name in planned:
        if name in answer.rows:
            rows.append(answer.rows[name])
        elif answer.began is None:
            rows.append(base | {"collector": name, "ran": False, "unreachable": True})
        else:
            rows.append(base | {"collector": name, "ran": False} | (trouble or {"timed_out": True}))
    return rows + [row for name, row in sorted(answer.rows.items()) if name not in planned]
