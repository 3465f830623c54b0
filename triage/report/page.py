"""The page: one HTML file that loads nothing, runs only our own script, and escapes everything else."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from pathlib import Path
from typing import Any

from triage.model.pictures import Heat, Pictures
from triage.model.postmortem import PostMortem
from triage.model.report import Report
from triage.report import templating, wording
from triage.report.charts import cluster, heat, memory, timeline, waits
from triage.report.charts._svg import element, picture, text
from triage.report.language import Words
from triage.report.moments import Moment
from triage.report.templating import Made

TAGS = {"zh": "zh-CN"}
HEAT_LEFT, HEAT_WIDTH, HEAT_HEIGHT = 70.0, 675.0, 480.0
FIRST_ROWS = 10  # rows of the timeline that are open at first
MARKED = 12  # culprit rows named at the side of the heat map


def page(template: Path | None, words: Words, values: dict[str, Any]) -> str:
    """The page of `documents.document`'s values. Raises ContentError for a team's template that is wrong."""
    css, js = (_asset(name) for name in ("page.css", "page.js"))
    report, post, pictures, rows = (values[name] for name in ("report", "post", "pictures", "moments"))
    return templating.render(
        template or templating.OWN / "page.html.j2", "html", words, **values, css=Made(css), js=Made(js),
        policy=_policy(css, js), tag=TAGS.get(words.tag, words.tag), charts=_charts(report, pictures, words),
        anchors=_anchors(post, rows), best=report.hypotheses[0] if report.hypotheses else None,
        culprits=wording.culprits(report.hypotheses[0].culprits if report.hypotheses else [], words),
        runs=waits.runs, gib=memory.gib, first_rows=FIRST_ROWS,
    )  # fmt: skip


def _asset(name: str) -> str:
    return (templating.OWN / name).read_text(encoding="utf-8").strip()


def _policy(css: str, js: str) -> str:
    """Nothing from anywhere; the style sheet and the script by their hashes; pictures only as data."""
    style, script = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (css, js))
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _anchors(post: PostMortem, rows: list[Moment]) -> dict[tuple[str, int | None], str]:
    """Where on the page a cited line stands."""
    found = {(row.file, row.line): f"t{at}" for at, row in enumerate(rows, start=1)}
    return found | {(each.file, each.line): f"e{at}" for at, each in enumerate(post.appendix, start=1)}


def _charts(report: Report, pictures: Pictures, words: Words) -> dict[str, Any]:
    """SVG of our own making: `Made`, so that it is not escaped again."""
    kinds = {one.kind: words(f"kind.{one.kind}") for one in pictures.blockers}
    names = {name: words(f"page.memory-{name}") for name in ("used", "cached", "waste")}
    return {
        "timeline": Made(timeline.svg(report, words("heading.timeline"), words("page.shared"))),
        "heat": Made(_heat(pictures.heat, words)) if pictures.heat else "",
        "waits": Made(waits.svg(pictures, kinds, words("page.waits"), words("heading.waits"))),
        "memory": [(each, Made(memory.svg(each, names))) for each in pictures.memory],
        "nodes": Made(cluster.svg(pictures.nodes, words("heading.nodes"))) if pictures.nodes else "",
    }


def _heat(found: Heat, words: Words) -> str:
    """The heat map with its axes, the culprits' rows pointed at, and what the script needs to read it out."""
    rows = len(found.ranks)
    height = min(HEAT_HEIGHT, max(rows * 24.0, 48.0))
    data = "data:image/png;base64," + base64.b64encode(heat.png(found)).decode()
    image = element("image", href=data, x=HEAT_LEFT, y=10, width=HEAT_WIDTH, height=height, preserveAspectRatio="none")
    cursor = element("rect", class_="cursor", visibility="hidden")
    label = words("page.heat", phase=found.phase)
    drawn = picture(760, height + 34, image + _axes(found, height, words) + cursor, label)
    told = {
        "ranks": ",".join(map(str, found.ranks)), "steps": ",".join(map(str, found.steps)),
        "medians": ",".join(f"{each:g}" for each in found.medians), "rank": words("page.rank"),
        "palette": " ".join(",".join(map(str, colour)) for colour in heat.PALETTE), "step": words("page.step"),
        "times": words("page.times"),
    }  # fmt: skip
    extra = "".join(f' data-{name}="{escape(value)}"' for name, value in told.items())
    return drawn.replace("<svg", f'<svg id="heat" tabindex="0"{extra}', 1)


def _axes(found: Heat, height: float, words: Words) -> str:
    down = height / len(found.ranks)
    shown = list(found.culprits[:MARKED]) or [found.ranks[0], found.ranks[-1]]
    parts = []
    for rank in shown:
        y = 10 + down * (found.ranks.index(rank) + 0.5) + 4
        kind = "mark" if rank in found.culprits else "small"
        parts.append(text(HEAT_LEFT - 6, y, f"{words('page.rank')} {rank}", kind, "end"))
    for step, x, anchor in ((found.steps[0], HEAT_LEFT, "start"), (found.steps[-1], HEAT_LEFT + HEAT_WIDTH, "end")):
        parts.append(text(x, height + 26, f"{words('page.step')} {step}", "small", anchor))
    return "".join(parts)
