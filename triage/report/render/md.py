"""The answer as Markdown, for a ticket or a chat."""

from __future__ import annotations

from collections.abc import Iterator

from triage.model.report import Hypothesis, Report
from triage.report import wording
from triage.report.language import ENGLISH, Words
from triage.report.templating import code_md as code
from triage.report.templating import escape_md as escape

NAME = "md"
SUFFIXES = (".md",)


def render(report: Report, verbose: int = 0, width: int = 100, words: Words = ENGLISH) -> str:
    """The report as Markdown; evidence can break out of neither code spans nor the page."""
    del width
    return "\n".join(_lines(report, verbose, words)) + "\n"


def _lines(report: Report, verbose: int, words: Words) -> Iterator[str]:
    yield f"# {escape(wording.headline(report, words))}"
    for index, hypothesis in enumerate(report.hypotheses):
        title = escape(words.text(hypothesis.title))
        yield ""
        yield f"## {index + 1}. {title} (`{hypothesis.cause}`, {hypothesis.confidence:.2f})"
        yield from _hypothesis(hypothesis, words)
        if command := wording.repro(hypothesis, first=index == 0):
            yield ""
            yield f"**{words('md.repro')}** {code(command)}"
        if verbose:
            yield from (f"- {escape(line)}" for line in [*hypothesis.why, *hypothesis.path])
    lines = wording.unseen(report, None, words)
    if lines:
        yield ""
        yield f"## {words('label.unseen')}"
        yield ""
        yield from (f"- {escape(line)}" for line in lines)


def _hypothesis(hypothesis: Hypothesis, words: Words) -> Iterator[str]:
    yield ""
    yield escape(words.text(hypothesis.means))
    yield ""
    yield f"**{words('label.culprit')}:** {escape(wording.culprits(hypothesis.culprits, words))}"
    yield ""
    for cited in hypothesis.evidence:
        yield f"- {code(wording.place(cited))}: {code(cited.text)}"
    if hypothesis.actions:
        yield ""
        yield f"**{words('md.do')}**"
        yield ""
    for index, action in enumerate(wording.actions(hypothesis, words)):
        yield f"{index + 1}. {escape(words.text(action.do))} ({words(f'risk.{action.risk}')})"
    if check := hypothesis.next_check:
        yield ""
        yield f"**{words('md.confirm')}** {code(check.command)}: {escape(words.text(check.tells))}"
    for missing in hypothesis.missing:
        yield f"- {words('md.missing')} {escape(words.text(missing.what))}; {code(missing.how)}"
