"""The heat map drawn: axes, the culprits' rows pointed at and, in a tall map, drawn once more on top, large."""

from __future__ import annotations

import base64

from triage.model.pictures import Heat
from triage.report.charts._svg import element, picture, text
from triage.report.charts.heat import PALETTE, png

LEFT, WIDTH, TALLEST = 70.0, 675.0, 480.0
MARKED = 12  # culprits' rows that are named
TALL = 48  # ranks beyond which a single row is too thin to be seen
ROW, GAP = 14.0, 10.0  # of the rows drawn large


def svg(heat: Heat, said: dict[str, str]) -> str:
    """`said`: the words rank, step, times, and the label of the picture."""
    large = heat.culprits[:MARKED] if len(heat.ranks) > TALL else ()
    top = 10 + (len(large) * ROW + GAP if large else 0.0)
    height = min(TALLEST, max(len(heat.ranks) * 24.0, 48.0))
    parts = [_image(png(heat, large), 10, len(large) * ROW, "") if large else ""]
    parts += [_name(f"{said['rank']} {rank}", 10 + ROW * (at + 0.5), True) for at, rank in enumerate(large)]
    parts += [_image(png(heat), top, height, "map"), *_marks(heat, top, height, said["rank"], bool(large))]
    parts += _steps(heat, top + height + 16, said["step"])
    cursor = element("rect", class_="cursor", visibility="hidden")
    told = {
        "ranks": ",".join(map(str, heat.ranks)), "steps": ",".join(map(str, heat.steps)),
        "medians": ",".join(f"{each:g}" for each in heat.medians), "rank": said["rank"], "step": said["step"],
        "palette": " ".join(",".join(map(str, colour)) for colour in PALETTE), "times": said["times"],
    }  # fmt: skip
    return picture(760, top + height + 24, "".join([*parts, cursor]), said["label"], id="heat", tabindex=0, data=told)


def _image(data: bytes, y: float, height: float, class_: str) -> str:
    href = "data:image/png;base64," + base64.b64encode(data).decode()
    return element(
        "image", href=href, x=LEFT, y=y, width=WIDTH, height=height, preserveAspectRatio="none", class_=class_ or None
    )


def _name(words: str, y: float, culprit: bool) -> str:
    return text(LEFT - 8, y + 4, words, "mark" if culprit else "small", "end")


def _marks(heat: Heat, top: float, height: float, word: str, large: bool) -> list[str]:
    """Names of the culprits' rows, or a wedge where they are named on top; without any, of the first and last row."""
    down = height / len(heat.ranks)
    rows = {rank: top + down * (at + 0.5) for at, rank in enumerate(heat.ranks)}
    ends = [_name(f"{word} {rank}", rows[rank], False) for rank in (heat.ranks[0], heat.ranks[-1])]
    if large:
        return [*ends, *(_wedge(rows[rank]) for rank in heat.culprits)]
    return [_name(f"{word} {rank}", rows[rank], True) for rank in heat.culprits[:MARKED]] or ends


def _wedge(y: float) -> str:
    x = LEFT - 7
    return element("path", d=f"M{x:.1f} {y - 4:.1f}L{x + 6:.1f} {y:.1f}L{x:.1f} {y + 4:.1f}Z", class_="mark")


def _steps(heat: Heat, y: float, word: str) -> list[str]:
    first = text(LEFT, y, f"{word} {heat.steps[0]}", "small")
    return [first, text(LEFT + WIDTH, y, f"{word} {heat.steps[-1]}", "small", "end")]
