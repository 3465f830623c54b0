"""Windows over a fixture file, cut as the pipeline cuts them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from triage.model.bundle import File, Window
from triage.model.event import Event

FIXTURES = Path(__file__).parents[2] / "fixtures" / "parsers"


def lines_of(source: str, name: str) -> list[str]:
    return (FIXTURES / source / name).read_text(encoding="utf-8").splitlines()


def event_at(parser: ModuleType, lines: list[str], part: str, nth: int = 0, file: File | None = None) -> Event:
    """The event of the nth line that contains `part`."""
    at = [index for index, line in enumerate(lines) if part in line][nth]
    first = max(0, at - parser.BEFORE)
    near = lines[first : at + parser.AFTER + 1]
    numbers = tuple(range(first + 1, first + 1 + len(near)))
    window = Window(file=file or File(path="a.log", size=1), lines=tuple(near), numbers=numbers, hit=at - first)
    return parser.parse(window)  # type: ignore[no-any-return]
