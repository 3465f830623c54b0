"""The page: one HTML file that loads nothing, runs only our own script, and escapes everything else."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from triage.model.pictures import Memory, Pictures
from triage.model.postmortem import PostMortem
from triage.model.report import Report
from triage.report import templating, wording
from triage.report.charts import blocks, cluster, heatmap, memory, timeline, waits
from triage.report.language import Words
from triage.report.moments import Moment
from triage.report.templating import Made

TAGS = {"zh": "zh-CN"}
FIRST_ROWS = 10  # rows of the timeline that are open at first


def page(template: Path | None, words: Words, values: dict[str, Any]) -> str:
    """The page of `documents.document`'s values. Raises ContentError for a team's template that is wrong."""
    css, js = (_asset(name) for name in ("page.css", "page.js"))
    report, post, pictures, rows = (values[name] for name in ("report", "post", "pictures", "moments"))
    return templating.render(
        template or templating.OWN / "page.html.j2", "html", words, **values, css=Made(css), js=Made(js),
        policy=_policy(css, js), tag=TAGS.get(words.tag, words.tag), charts=_charts(report, pictures, words),
        anchors=_anchors(post, rows), best=report.hypotheses[0] if report.hypotheses else None,
        culprits=wording.culprits(report.hypotheses[0].culprits if report.hypotheses else [], words),
        runs=waits.runs, gib=blocks.gib, held=blocks.held, segment_row=blocks.row, shown=blocks.shown,
        first_rows=FIRST_ROWS,
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


def _map(memory: Memory, states: dict[str, str], words: Words) -> Made | None:
    label = words("page.map-label", gpu=memory.gpu)
    return Made(blocks.svg(memory.map, states, label)) if memory.map else None


def _charts(report: Report, pictures: Pictures, words: Words) -> dict[str, Any]:
    """SVG of our own making: `Made`, so that it is not escaped again."""
    kinds = {one.kind: words(f"kind.{one.kind}") for one in pictures.blockers}
    said = {name: words(f"page.{name}") for name in ("rank", "step", "times")}
    said["label"] = words("page.heat", phase=pictures.heat.phase) if pictures.heat else ""
    names = {name: words(f"page.memory-{name}") for name in ("used", "cached", "waste")}
    states = {str(name): words(f"page.block.{name}") for name in blocks.STATES}
    return {
        "timeline": Made(timeline.svg(report, words("heading.timeline"), words("page.shared"))),
        "heat": Made(heatmap.svg(pictures.heat, said)) if pictures.heat else "",
        "waits": Made(waits.svg(pictures, kinds, words("page.waits"), words("heading.waits"))),
        "memory": [(each, Made(memory.svg(each, names)), _map(each, states, words)) for each in pictures.memory],
        "nodes": Made(cluster.svg(pictures.nodes, words("heading.nodes"))) if pictures.nodes else "",
    }
