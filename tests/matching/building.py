"""Small signatures, parsers and files for the tests of matching."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from triage.matching.matcher import Matched, match
from triage.model.bundle import Chunk, File, Window
from triage.model.event import Event, Stamp, Where
from triage.model.lines import Counted
from triage.model.signature import Signature

MINIMAL = """\
id: gpu/lost
title: A card is lost
means: The card does not answer.
layer: gpu
role: root-cause
severity: fatal
cause: gpu/fallen-off-bus
sources: [kernel_log]
match:
  - regex: 'card (?P<gpu>\\d+) is lost'
fields:
  gpu: {type: int, entity: gpu}
next_check: {command: lspci, tells: whether it is there}
actions:
  - {do: look, risk: safe}
examples:
  matches:
    - text: 'kernel: card 3 is lost'
      fields: {gpu: '3'}
  does_not_match:
    - {text: 'card 3 is fine', why: not lost}
"""


def signature(name: str, *regexes: str, **more: Any) -> Signature:
    """A signature with one pattern for each regex."""
    layer = name.partition("/")[0]
    tree: dict[str, Any] = {
        "id": name, "title": name, "means": name, "layer": layer, "role": "symptom", "severity": "error",
        "sources": ["kernel_log"], "match": [{"regex": regex} for regex in regexes],
        "examples": {"matches": [], "does_not_match": []},
    }  # fmt: skip
    return msgspec.convert(tree | more, Signature)


def catalogue(*signatures: Signature) -> dict[str, Signature]:
    """By id."""
    return {each.id: each for each in signatures}


class Plain:
    """A parser that joins a line with the indented lines after it and reads `[rankN]`, `t=SECONDS` off its head."""

    BEFORE = AFTER = 40
    MARKS = (("step", r"step (?P<step>\d+)"), ("start", r"world size (?P<world_size>\d+)"))

    @staticmethod
    def parse(window: Window) -> Event:
        """The message at the hit."""
        first = window.hit
        while first and window.lines[first].startswith("  "):
            first -= 1
        last = first + 1
        while last < len(window.lines) and window.lines[last].startswith("  "):
            last += 1
        line = window.lines[window.hit]
        rank = line[5 : line.index("]")] if line.startswith("[rank") else None
        time = line.partition("t=")[2].partition(" ")[0] if "t=" in line else None
        return Event(
            where=Where(file=window.file.path, line=window.numbers[window.hit]), text=line.strip(), source="plain",
            body="\n".join(window.lines[first:last]) if last > first + 1 else line.strip(),
            rank=int(rank) if rank else window.file.rank,
            time=Stamp(seconds=float(time), kind="utc") if time else None,
        )  # fmt: skip


def parser(source: str) -> Any:
    """Every source has the plain parser, but for `documents`, which reads no lines."""
    return SimpleNamespace(SOURCE=source) if source == "documents" else Plain


def cut(text: str | bytes, file: File, size: int = 1 << 22) -> Iterator[Chunk]:
    """Line-aligned chunks of about so many bytes."""
    data = text.encode() if isinstance(text, str) else text
    number, start = 1, 0
    while start < len(data):
        stop = data.find(b"\n", min(start + size, len(data)) - 1) + 1 or len(data)
        piece = data[start:stop]
        yield Chunk(file=file, data=piece, lines=Counted(number, piece), last=stop == len(data))
        number += data.count(b"\n", start, stop)
        start = stop


def matched(
    texts: dict[str, str],
    signatures: Iterable[Signature],
    size: int = 1 << 22,
    threads: int = 1,
    sources: str = "kernel_log",
) -> Matched:
    """What matching finds in texts by file name."""
    files = [File(path=name, size=len(text.encode()), sources=tuple(sources.split())) for name, text in texts.items()]
    return match(
        files,
        lambda file: cut(texts[file.path], file, size),
        catalogue(*signatures),
        parser,
        ["plain"],
        threads=threads,
    )


def write(folder: Path, name: str, text: str = MINIMAL) -> Path:
    """A signature file in a content folder."""
    path = folder / "signatures" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
