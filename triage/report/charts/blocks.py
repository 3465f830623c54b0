"""The map of a device's memory: every segment in the order of addresses, its blocks by their state.

The segments stand one after another on a few lines, all on one scale, as wide as their bytes; a segment that does not
fit on the rest of a line goes on in the next.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import get_args

from triage.model.event import Fact
from triage.model.pictures import Block, BlockState, Holder, MemoryMap, Segment
from triage.report.charts._svg import element, picture, text
from triage.report.clean import clean

LINES, HEIGHT, DISTANCE = 12, 18.0, 26.0
LEFT, WIDTH, BETWEEN = 118.0, 632.0, 2.0
FINEST = 1.0  # pixels: thinner neighbours are drawn as one
STATES: tuple[BlockState, ...] = get_args(BlockState)
_STATES: dict[str, BlockState] = {
    "a": "active", "p": "pending", "i": "inactive", "f": "free", "m": "mixed", "u": "unknown",
}  # fmt: skip
_RUN = re.compile(r"([apifmu])(\d{1,18})(?:/(\d{1,18}))?(?:@(\d{1,4}))?")
_SEGMENT = re.compile(r"(-|[0-9a-f]{1,16}) (\d{1,18}) (\S*)")


def collect(facts: Mapping[str, Fact]) -> MemoryMap | None:
    """From the facts of a device, by their names without `snapshot.`; None without a map."""
    told = facts["map"].value if "map" in facts else None
    segments = [found for each in told if (found := _segment(str(each)))] if isinstance(told, list) else []
    left = [facts[name].value if name in facts else 0 for name in ("map_left", "map_left_bytes")]
    count, size = (each if isinstance(each, int) else 0 for each in left)
    if not segments:
        return None
    return MemoryMap(segments=tuple(segments), holders=holders(facts.get("map_holders")), left=count, left_bytes=size)


def _segment(told: str) -> Segment | None:
    found = _SEGMENT.fullmatch(told)
    if found is None:
        return None
    address = None if found[1] == "-" else int(found[1], 16)
    return Segment(address=address, size=int(found[2]), blocks=tuple(_blocks(found[3])))


def _blocks(told: str) -> Iterator[Block]:
    for each in told.split(","):
        if found := _RUN.fullmatch(each):
            size = int(found[2])
            used = int(found[3]) if found[3] else size if found[1] in "ap" else 0
            yield Block(state=_STATES[found[1]], size=size, used=used, holder=int(found[4]) if found[4] else None)


def holders(fact: Fact | None) -> tuple[Holder, ...]:
    """`bytes blocks place` each."""
    rows = fact.value if fact is not None and isinstance(fact.value, list) else []
    parts = [[*str(row).split(" ", 2), "", ""][:3] for row in rows]
    return tuple(
        Holder(bytes=int(size), blocks=int(count), place=place)
        for size, count, place in parts
        if size.isdecimal() and count.isdecimal()
    )


def gib(size: float) -> str:
    """`12.34 GiB`; MiB below one."""
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def svg(told: MemoryMap, names: Mapping[str, str], label: str) -> str:
    """One path for each state and call site, so that thousands of blocks stay small; the title says who holds it."""
    whole = sum(segment.size for segment in told.segments) or 1
    scale = (LINES * WIDTH - BETWEEN * len(told.segments)) / whole
    paths: dict[tuple[BlockState, int], list[str]] = defaultdict(list)
    heads: dict[int, str] = {}
    edges: list[str] = []
    x = 0.0
    for segment in told.segments:
        if segment.address is not None:
            heads.setdefault(int(x // WIDTH), f"0x{segment.address:x}")
        edges += _pieces(x, segment.size * scale)
        for block in _thick(segment.blocks, scale):
            paths[block.state, -1 if block.holder is None else block.holder] += _pieces(x, block.size * scale)
            x += block.size * scale
        x += BETWEEN
    lines = [text(LEFT - 8, _top(line) + 13, head, "small", "end") for line, head in sorted(heads.items())]
    drawn = [_path(state, holder, pieces, told, names) for (state, holder), pieces in sorted(paths.items())]
    drawn.append(element("path", d="".join(edges), class_="segment"))
    return picture(760, _top(LINES), "".join([*lines, *drawn]), label)


def _top(line: int) -> float:
    return 4 + DISTANCE * line


def _pieces(x: float, width: float) -> list[str]:
    """The boxes of a stretch of the one long line, cut where the lines of the picture end."""
    pieces = []
    end = min(x + width, LINES * WIDTH)
    while end - x > 0.01:
        line = min(int(x // WIDTH), LINES - 1)
        stop = min(end, (line + 1) * WIDTH)
        left, wide = LEFT + x - line * WIDTH, max(stop - x, 0.1)
        pieces.append(f"M{left:.1f} {_top(line):.0f}h{wide:.1f}v{HEIGHT:.0f}h-{wide:.1f}z")
        x = stop if stop > x else end
    return pieces


def _thick(blocks: Iterable[Block], scale: float) -> Iterator[Block]:
    """Blocks that can be seen: thinner neighbours together as one of no single state, unless they are alike."""
    pool: list[Block] = []
    for block in blocks:
        if pool and (block.size * scale >= FINEST or sum(each.size for each in pool) * scale >= FINEST):
            yield _pooled(pool)
            pool = []
        pool.append(block)
    if pool:
        yield _pooled(pool)


def _pooled(pool: list[Block]) -> Block:
    states, places = {each.state for each in pool}, {each.holder for each in pool}
    return Block(
        state=states.pop() if len(states) == 1 else "mixed", size=sum(each.size for each in pool),
        used=sum(each.used for each in pool), holder=places.pop() if len(places) == 1 else None,
    )  # fmt: skip


def _path(state: BlockState, holder: int, pieces: list[str], told: MemoryMap, names: Mapping[str, str]) -> str:
    known = 0 <= holder < len(told.holders)
    title = f"{names[state]}: {held(told.holders[holder])}" if known else names[state]
    inside = element("title", escape(clean(title, 300)))
    return element("path", inside, d="".join(pieces), class_=f"block {state}", data_holder=holder if known else None)


def shown(told: MemoryMap) -> tuple[BlockState, ...]:
    """The states that the map holds."""
    found = {block.state for segment in told.segments for block in segment.blocks}
    return tuple(state for state in STATES if state in found)


def held(holder: Holder) -> str:
    """`12.34 GiB, 3 × model.py:7 forward`."""
    return f"{gib(holder.bytes)}, {holder.blocks} × {holder.place}"


def row(segment: Segment) -> tuple[str, str, str, int, str]:
    """A segment in words: address, size, share in use, free stretches that can be seen, the largest of them."""
    free = [block.size for block in segment.blocks if block.state in {"inactive", "free"}]
    used = sum(block.used for block in segment.blocks) / max(segment.size, 1)
    address = "-" if segment.address is None else f"0x{segment.address:x}"
    return address, gib(segment.size), f"{100 * used:.0f} %", len(free), gib(max(free, default=0))
