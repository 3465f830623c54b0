"""The post-mortem in the forms that `triage report` writes."""

from __future__ import annotations

from pathlib import Path

import msgspec

from triage.model.pictures import Pictures
from triage.model.report import Report
from triage.report import page, templating
from triage.report.language import ENGLISH, Words
from triage.report.moments import moments
from triage.report.postmortem import compose
from triage.report.render import json


def document(
    report: Report, pictures: Pictures, form: str, words: Words = ENGLISH, template: Path | None = None
) -> str:
    """html, md or json. A team's `template` gets report, post, pictures, moments and `words`. Raises ContentError."""
    if form == "json":  # a contract: English, whatever the language
        return json.render(msgspec.structs.replace(report, postmortem=compose(report, pictures)))
    words = words.about(report)
    post = compose(report, pictures, words)
    values = {"report": report, "post": post, "pictures": pictures, "moments": moments(report, pictures, words)}
    if form == "md":
        return templating.render(template or templating.OWN / "postmortem.md.j2", "md", words, **values)
    return page.page(template, words, values)
