"""The terminal answer: one screen, plain when piped; -v tells why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from triage.model.pictures import Pictures
from triage.model.report import Hypothesis, Report
from triage.report import terminal, wording
from triage.report.clean import clean, indented
from triage.report.columns import padded, wrapped
from triage.report.language import ENGLISH, Words
from triage.report.postmortem import who_of
from triage.report.terminal import PLAIN, Style

NAME = "text"
SUFFIXES = (".txt",)
PROOF = 3  # lines of evidence on the first screen
OTHERS = 3
UNSEEN = 4
TIMELINE = 15
LABEL = 10  # columns


def render(
    report: Report,
    verbose: int = 0,
    width: int = 100,
    words: Words = ENGLISH,
    style: Style = PLAIN,
    pictures: Pictures | None = None,
) -> str:
    """The report for a person, `width` columns wide; `verbose` 1 adds the reasoning."""
    return "\n".join(_Screen(report, verbose, width, words, style, pictures).lines()) + "\n"


class _Screen:
    def __init__(
        self, report: Report, verbose: int, width: int, words: Words, style: Style, pictures: Pictures | None
    ) -> None:
        self.report, self.verbose, self.width = report, verbose, width
        self.words, self.style, self.pictures = words, style, pictures

    def lines(self) -> Iterator[str]:
        yield self.style.verdict(wording.headline(self.report, self.words), self.report.verdict)
        best = self.report.hypotheses[0] if self.report.hypotheses else None
        if best is not None:
            yield from self._hypothesis(best)
            yield from self._others()
        elif self.report.verdict == "inconclusive":
            yield ""
            yield from self._told(self._label("do"), self.words("more.evidence"))
        else:
            yield from self._earlier()
        yield from self._unseen(best)
        if self.verbose:
            yield from self._why()

    def _earlier(self) -> Iterator[str]:
        """Runs that failed before one that is healthy."""
        failed = [each for each in self.report.episodes if each.cause]
        if failed:
            yield ""
        for each in failed:
            key = "earlier" if each.last_line else "earlier.attempt"
            yield self.words(key, index=each.index, file=clean(each.file), line=each.last_line, cause=each.cause)

    def _label(self, name: str, first: bool = True) -> str:
        return padded(self.words(f"label.{name}"), LABEL) if first else " " * LABEL

    def _told(self, label: str, text: str, command: str = "", last: str = "") -> Iterator[str]:
        """A labelled paragraph; the label is styled after wrapping, so that it takes no columns."""
        head, *rest = wrapped(label, text, self.width, command, last)
        yield self.style.label(label) + head[len(label) :] if head.startswith(label) else head
        yield from rest

    def _list(self, name: str, rows: Sequence[str]) -> Iterator[str]:
        for index, row in enumerate(rows):
            yield from self._told(self._label(name, index == 0), row)

    def _hypothesis(self, best: Hypothesis) -> Iterator[str]:
        yield from wrapped("  ", self.words.text(best.means), self.width)
        yield ""
        yield from self._told(self._label("culprit"), wording.culprits(best.culprits, self.words))
        yield from self._charts()
        yield from self._evidence(best)
        if best.explains:
            yield from self._told(self._label("explains"), ", ".join(best.explains[:6]))
        for line in best.against:
            yield from self._told(self._label("against"), self.words.text(line))
        actions = wording.actions(best, self.words)[: None if self.verbose else 3]
        risks = ["" if each.risk == "safe" else f" [{self.words(f'risk.{each.risk}')}]" for each in actions]
        told = [f"{at + 1}. {self.words.text(each.do)}{risks[at]}" for at, each in enumerate(actions)]
        yield from self._list("do", told)
        if check := best.next_check:
            yield from self._told(self._label("confirm"), f"-> {self.words.text(check.tells)}", check.command)
        if best.playbook:
            yield self.style.label(self._label("playbook")) + f"triage playbook show {best.playbook}"
        if self.verbose and (command := wording.repro(best, evidence=self.style.evidence)):
            yield self.style.label(self._label("repro")) + f"{command}  ({best.repro})"

    def _evidence(self, best: Hypothesis) -> Iterator[str]:
        for index, cited in enumerate(best.evidence if self.verbose else best.evidence[:PROOF]):
            label = self.style.label(self._label("evidence", index == 0))
            yield label + self.style.place(wording.place(cited), cited.file)
            yield "            " + clean(cited.text, self.width - 12)

    def _charts(self) -> Iterator[str]:
        """A block a rank, and the steps of the median rank."""
        heat = self.pictures.heat if self.pictures and self.style.charts else None
        if heat is None:
            return
        room = self.width - LABEL - 24
        told = f" {heat.ranks[0]}-{heat.ranks[-1]}, {heat.phase}"
        yield self.style.label(self._label("ranks")) + terminal.ranks(heat, room) + told
        if heat.phase == "step_ms":
            known = [value for value in heat.medians if value == value]
            if known:
                told = f" {heat.steps[0]}-{heat.steps[-1]}, {min(known):.0f}-{max(known):.0f} ms"
                yield self.style.label(self._label("steps")) + terminal.sparkline(known, room) + told

    def _others(self) -> Iterator[str]:
        rest = self.report.hypotheses[1 : 1 + OTHERS]
        told = [f"{each.confidence:.2f} {self.words.text(each.title)} ({each.cause})" for each in rest]
        yield from self._list("or", told)

    def _unseen(self, best: Hypothesis | None) -> Iterator[str]:
        lines = wording.unseen(self.report, best, self.words)
        if not lines:
            return
        yield ""
        shown = lines if self.verbose else lines[:UNSEEN]
        for index, row in enumerate(shown):
            what, arrow, how = row.partition(" -> ")
            yield from self._told(self._label("unseen", index == 0), what, last=f"{arrow} {how}" if how else "")
        if len(lines) > len(shown):
            yield " " * LABEL + self.words("more", count=len(lines) - len(shown))

    def _why(self) -> Iterator[str]:
        for at, hypothesis in enumerate(self.report.hypotheses):
            yield ""
            told = "; ".join(hypothesis.why) or "-"  # by their names, as JSON has them; another language has words
            reasons = told if self.words.tag == "en" else wording.reasons(hypothesis.why, self.words)
            confidence = f"{hypothesis.confidence:.2f}"
            yield self.words("why", cause=hypothesis.cause, confidence=confidence, reasons=reasons)
            for step, other in zip_longest(hypothesis.path, hypothesis.not_taken, fillvalue=""):
                yield f"  {hypothesis.playbook} · {clean(step):<28} " + (f"({clean(other)})" if other else "")
            if hypothesis.if_not_this:
                others = self.words("if-not-this", others=", ".join(hypothesis.if_not_this))
                yield from wrapped("  ", others, self.width)
            if at and (command := wording.repro(hypothesis, False, self.style.evidence)):
                yield f"  {self.words('label.repro')}: {command}"
        yield from self._timeline()
        for episode in self.report.episodes if len(self.report.episodes) > 1 else []:
            seen = ", ".join(episode.signatures) or self.words("nothing-seen")
            key = "episode.answered" if episode.answered else "episode"
            yield self.words(key, index=episode.index, why=clean(episode.why), seen=seen)

    def _timeline(self) -> Iterator[str]:
        """Around the first failure: what came before and right after it."""
        rows = self.report.timeline
        first = next((index for index, row in enumerate(rows) if row.role == "root-cause"), 0)
        shown = rows[max(0, first - 4) : first + TIMELINE]
        if shown:
            yield ""
            yield self.words("timeline.around")
        zero = rows[first].t if rows else None
        for row in shown:
            when = row.time or (f"{row.t - zero:+.1f} s" if row.t is not None and zero is not None else "?")
            role = padded(self.words(f"role.{row.role}"), 12)
            rule = f"  ({row.rule})" if row.rule else ""
            yield indented(f"  {when:>20}  {role} {row.signature:<34} {who_of(row)}{rule}", self.width).rstrip()
            place = clean(wording.where(row.file, row.line), self.width - 20)
            text = clean(row.text, max(8, self.width - 7 - len(place)))
            yield f"      {self.style.place(place, row.file)} {text}"
