"""The answer as Markdown, for a ticket or a chat."""

from __future__ import annotations

from collections.abc import Iterator

from triage.model.report import Hypothesis, Report
from triage.report import wording
from triage.report.clean import clean

NAME = "md"
SUFFIXES = (".md",)
_SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]<>|#"})


def render(report: Report, verbose: int = 0, width: int = 100) -> str:
    """The report as Markdown; evidence can break out of neither code spans nor the page."""
    del width
    return "\n".join(_lines(report, verbose)) + "\n"


def escape(text: str) -> str:
    """Text of the evidence as plain Markdown text."""
    return clean(text).translate(_SPECIAL)


def code(text: str) -> str:
    """Text of the evidence as a code span."""
    return "`" + clean(text).replace("`", "'") + "`"


def _lines(report: Report, verbose: int) -> Iterator[str]:
    yield f"# {escape(wording.headline(report))}"
    for index, hypothesis in enumerate(report.hypotheses):
        yield ""
        yield f"## {index + 1}. {escape(hypothesis.title)} (`{hypothesis.cause}`, {hypothesis.confidence:.2f})"
        yield from _hypothesis(hypothesis)
        if verbose:
            yield from (f"- {escape(line)}" for line in [*hypothesis.why, *hypothesis.path])
    lines = wording.unseen(report, None)
    if lines:
        yield ""
        yield "## Not seen"
        yield ""
        yield from (f"- {escape(line)}" for line in lines)


def _hypothesis(hypothesis: Hypothesis) -> Iterator[str]:
    yield ""
    yield escape(hypothesis.means)
    yield ""
    yield f"**Culprit:** {escape(wording.culprits(hypothesis.culprits))}"
    yield ""
    for cited in hypothesis.evidence:
        yield f"- {code(wording.place(cited))}: {code(cited.text)}"
    if hypothesis.actions:
        yield ""
        yield "**What to do**"
        yield ""
    for index, action in enumerate(hypothesis.actions):
        yield f"{index + 1}. {escape(action.do)} ({action.risk})"
    if hypothesis.next_check:
        yield ""
        yield f"**What would confirm it:** {code(hypothesis.next_check.command)}: {escape(hypothesis.next_check.tells)}"
    for missing in hypothesis.missing:
        yield f"- Missing: {escape(missing.what)}; {code(missing.how)}"
