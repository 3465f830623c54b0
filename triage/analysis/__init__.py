"""Deterministic detectors on facts, signals and marks. One file a subject.

A module whose name does not start with an underscore has `derive(incident) -> Iterator[Fact]`; the names of its facts
stand in its docstring. Modules are found by listing the folder. They abstain when the evidence does not decide.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from triage.model.event import Fact
from triage.model.incident import Incident


@cache
def modules() -> tuple[ModuleType, ...]:
    """All analyses, by name."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    return tuple(importlib.import_module(f"triage.analysis.{name}") for name in names)


def derive(incident: Incident) -> Iterator[Fact]:
    """The facts of every analysis, in the order of their names."""
    for module in modules():
        yield from module.derive(incident)
