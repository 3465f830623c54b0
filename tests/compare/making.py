"""Runs made up for tests: as records, and as recordings on disk."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from triage.comparing.runs import Run


def noisy(seed: int, count: int = 195, mean: float = 40.0, noise: float = 0.03, together: float = 0.5) -> list[float]:
    """A series around a mean whose values resemble the ones before them."""
    dice = random.Random(seed)
    state, out = dice.gauss(0, 1), []
    for _ in range(count):
        out.append(mean * (1 + noise * state))
        state = together * state + math.sqrt(1 - together**2) * dice.gauss(0, 1)
    return out


def run(steps: list[float] | dict[str, list[float]] | None = None, **more: Any) -> Run:
    """A run of these steps; everything else is unknown unless said."""
    phases = steps if isinstance(steps, dict) else {"step_ms": steps} if steps else {}
    values: dict[str, Any] = {
        "name": "made", "steps": phases, "unit": "ms", "rates": [], "waits": [], "memory": {}, "errors": {},
        "causes": [], "verdict": "inconclusive", "ranks": None, "last_step": None, "slower_from": None,
        "settings": {}, "told": frozenset(),
    }  # fmt: skip
    return Run(**values | more)


def recording(folder: Path, ranks: int = 2, world: int | None = None, **phases: list[float]) -> Path:
    """A folder with steps.rank*.jsonl; rank r is r permille slower, as ranks are."""
    folder.mkdir(parents=True)
    for rank in range(ranks):
        rows: list[dict[str, Any]] = [{"schema": "triage.steps/1", "host": "node1", "world_size": world or ranks}]
        for step in range(len(phases["step_ms"])):
            times = {name: values[step] * (1 + rank / 1000) for name, values in phases.items()}
            rows.append({"step": step, "rank": rank, "alloc": 1 << 30, **times})
        (folder / f"steps.rank{rank}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
