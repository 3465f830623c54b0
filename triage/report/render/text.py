"""The terminal answer: one screen, plain when piped; -v tells why."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from triage.model.report import Hypothesis, Report
from triage.report import wording
from triage.report.clean import clean

NAME = "text"
SUFFIXES = (".txt",)
PROOF = 3  # lines of evidence on the first screen
OTHERS = 3
UNSEEN = 4
TIMELINE = 15


def render(report: Report, verbose: int = 0, width: int = 100) -> str:
    """The report for a person, `width` columns wide; `verbose` 1 adds the reasoning."""
    return "\n".join(_lines(report, verbose, width)) + "\n"


def _lines(report: Report, verbose: int, width: int) -> Iterator[str]:
    yield wording.headline(report)
    best = report.hypotheses[0] if report.hypotheses else None
    if best is not None:
        yield from _hypothesis(best, verbose, width)
        yield from _others(report, width)
    yield from _unseen(report, best, verbose, width)
    if verbose:
        yield from _why(report, width)


def _hypothesis(best: Hypothesis, verbose: int, width: int) -> Iterator[str]:
    yield from _wrapped("  ", best.means, width)
    yield ""
    yield from _wrapped("Culprit   ", wording.culprits(best.culprits), width)
    shown = best.evidence if verbose else best.evidence[:PROOF]
    for index, cited in enumerate(shown):
        label = "Evidence  " if index == 0 else "          "
        yield f"{label}{wording.place(cited)}"
        yield "            " + clean(cited.text, width - 12)
    if best.explains:
        yield from _wrapped("Explains  ", ", ".join(best.explains[:6]), width)
    for line in best.against:
        yield from _wrapped("Against   ", line, width)
    for index, action in enumerate(best.actions if verbose else best.actions[:3]):
        risk = "" if action.risk == "safe" else f" [{action.risk}]"
        yield from _wrapped("Do        " if index == 0 else "          ", f"{index + 1}. {action.do}{risk}", width)
    if best.next_check:
        yield from _wrapped("Confirm   ", f"{best.next_check.command}  ->  {best.next_check.tells}", width)
    if best.playbook:
        yield f"Playbook  triage playbook show {best.playbook}"


def _others(report: Report, width: int) -> Iterator[str]:
    rest = report.hypotheses[1 : 1 + OTHERS]
    for index, other in enumerate(rest):
        label = "Or        " if index == 0 else "          "
        yield from _wrapped(label, f"{other.confidence:.2f} {other.title} ({other.cause})", width)


def _unseen(report: Report, best: Hypothesis | None, verbose: int, width: int) -> Iterator[str]:
    lines = wording.unseen(report, best)
    if not lines:
        return
    yield ""
    shown = lines if verbose else lines[:UNSEEN]
    for index, line in enumerate(shown):
        yield from _wrapped("Not seen  " if index == 0 else "          ", line, width)
    if len(lines) > len(shown):
        yield f"          … and {len(lines) - len(shown)} more (-v)"


def _why(report: Report, width: int) -> Iterator[str]:
    for hypothesis in report.hypotheses:
        yield ""
        yield f"Why {hypothesis.cause} at {hypothesis.confidence:.2f}: " + ("; ".join(hypothesis.why) or "-")
        for step in hypothesis.path:
            yield f"  {hypothesis.playbook} · {clean(step)}"
        if hypothesis.if_not_this:
            yield from _wrapped("  If it is not this: ", ", ".join(hypothesis.if_not_this), width)
    yield from _timeline(report, width)
    for episode in report.episodes if len(report.episodes) > 1 else []:
        mark = " (answered)" if episode.answered else ""
        yield f"Episode {episode.index}{mark}: {clean(episode.why)}; {', '.join(episode.signatures) or 'nothing seen'}"


def _timeline(report: Report, width: int) -> Iterator[str]:
    """Around the first failure: what came before and right after it."""
    rows = report.timeline
    first = next((index for index, row in enumerate(rows) if row.role == "root-cause"), 0)
    shown = rows[max(0, first - 4) : first + TIMELINE]
    if shown:
        yield ""
        yield "Timeline around the first failure"
    for row in shown:
        when = row.time or (f"+{row.t:.1f}s" if row.t is not None else "?")
        who = ", ".join(part for part in (row.node, f"rank {row.rank}" if row.rank is not None else None) if part)
        yield clean(f"  {when:>20}  {row.role:<12} {row.signature:<34} {who}", width)
        yield "      " + clean(f"{row.file}:{row.line or ''} {row.text}", width - 6)


def _wrapped(label: str, text: str, width: int) -> Iterator[str]:
    yield from textwrap.wrap(
        clean(text, 2000),
        width,
        initial_indent=label,
        subsequent_indent=" " * min(len(label), 12),
        break_on_hyphens=False,
    ) or [label.rstrip()]
