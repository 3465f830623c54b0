"""The nodes' reducer, loaded as it lies, with the data that the packer makes."""

from __future__ import annotations

import io
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from triage.transport import packing

ROOT = Path(__file__).resolve().parents[2] / "collectors"


@cache
def node() -> Any:
    """The module `_reduction`; what it imports lies beside it."""
    sys.path.insert(0, str(ROOT))
    try:
        import _reduction  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(ROOT))
    return _reduction


@cache
def rules() -> Any:
    """What matters, by the whole catalogue."""
    reduction = json.loads(json.dumps(packing.reduction()))
    return node().Rules(reduction, json.loads((ROOT / "redaction.json").read_text()))


def reduced(data: bytes, budget: int | None = None, seconds: float = 3600) -> tuple[bytes, dict[str, Any]] | None:
    """The reduced file and what is known of it; None when it stays whole."""
    reducer = node().Reducer(rules(), budget or node().BUDGET)
    found: tuple[bytes, dict[str, Any]] | None = reducer.lines(io.BytesIO(data), len(data), {}, seconds)
    return found


def records(data: bytes) -> dict[int, bytes]:
    """Lines of a reduced file by their number; pieces of one line joined."""
    found: dict[int, bytes] = {}
    for record in data.splitlines()[1:]:
        number, _, text = record.partition(b"\t")
        found[int(number)] = found.get(int(number), b"") + text
    return found


def reduce_tree(source: Path, target: Path) -> tuple[int, int]:
    """A copy of a folder whose logs are reduced: bytes before and after."""
    before = after = 0
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        data = path.read_bytes()
        found = reduced(data)
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(found[0] if found else data)
        before, after = before + len(data), after + copy.stat().st_size
    return before, after
