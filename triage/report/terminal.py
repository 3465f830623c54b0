"""What a terminal can show beyond plain text: colour, links to the evidence, and small charts of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from triage.model.base import Record
from triage.model.pictures import Heat
from triage.report.charts.heat import MIDDLE, strip
from triage.report.wording import EVIDENCE

_BLOCKS = "▁▂▃▄▅▆▇█"
_COLOURS = {"diagnosed": "31", "suspected": "33", "inconclusive": "1", "healthy": "32"}


class Style(Record, frozen=True, kw_only=True):
    """How to write. The default is plain.

    colour: SGR sequences are allowed. link: the URL of a file of the evidence, or None; None when links are not wanted.
    charts: draw strips of ranks and steps. evidence: the paths that were opened, as a shell takes them.
    """

    colour: bool = False
    link: Callable[[str], str | None] | None = None
    charts: bool = False
    evidence: str = EVIDENCE

    def verdict(self, text: str, verdict: str) -> str:
        """The first line."""
        return f"\x1b[1;{_COLOURS[verdict]}m{text}\x1b[0m" if self.colour else text

    def label(self, text: str) -> str:
        """The word at the head of a line."""
        return f"\x1b[1m{text}\x1b[0m" if self.colour and text.strip() else text

    def place(self, text: str, file: str) -> str:
        """`file:line` as a link to the file."""
        url = self.link(file) if self.link else None
        return f"\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\" if url else text


PLAIN = Style()


def sparkline(values: Sequence[float], width: int) -> str:
    """The values as blocks from the lowest to the highest; more than `width` are binned by their largest."""
    if not values:
        return ""
    size = -(-len(values) // width)
    binned = [max(values[at : at + size]) for at in range(0, len(values), size)]
    low, span = min(binned), max(binned) - min(binned)
    return "".join(_BLOCKS[round((value - low) / span * 7) if span > 0 else 0] for value in binned)


def ranks(heat: Heat, width: int) -> str:
    """A block a rank: how slow it is against the others; a blank is unknown."""
    levels = [level for _, level in strip(heat)]
    size = -(-len(levels) // width)
    worst = [max(levels[at : at + size]) for at in range(0, len(levels), size)]
    return "".join(_BLOCKS[max(0, min(7, level - MIDDLE + 1))] if level else " " for level in worst)
