"""The post-mortem draft: the report in sentences, each with the places that it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from triage import content
from triage.model.event import Where
from triage.model.pictures import Demoted, Pictures, Point
from triage.model.playbook import Playbook
from triage.model.postmortem import Claim, Exhibit, Impact, PostMortem, Source, Task
from triage.model.report import Cited, Hypothesis, Report, TimelineEntry
from triage.report import wording
from triage.report.clean import clean
from triage.report.language import ENGLISH, Words

TEXT = 160  # characters quoted in a sentence
SOURCES = 3  # places named for one sentence
FACTORS = 6
STILL_S = 1.0  # progress that ends less than this before the end did not stop
NO_PICTURES = Pictures()
_NO_EFFECTS = {
    "progress": "say.progress-went-on",
    "outside-window": "say.outside-window",
    "other-episode": "say.other-episode",
}


def compose(report: Report, pictures: Pictures = NO_PICTURES, words: Words = ENGLISH) -> PostMortem:
    """Sentences from the report; impact, context lines and what was demoted come from the pictures."""
    writer = _Writer(report, pictures, words)
    return PostMortem(
        title=wording.headline(report, words),
        summary=writer.summary(),
        impact=writer.impact(),
        root_cause=list(writer.root_cause()),
        ruled_out=list(writer.ruled_out()),
        factors=list(writer.factors()),
        unseen=list(writer.unseen()),
        actions=list(writer.actions()),
        appendix=list(writer.appendix()),
    )


class _Writer:
    def __init__(self, report: Report, pictures: Pictures, words: Words) -> None:
        self.report, self.pictures, self.words = report, pictures, words
        self.best = report.hypotheses[0] if report.hypotheses else None
        self.proof = _sources(self.best.evidence) if self.best else []

    def summary(self) -> list[Claim]:
        """What, who and when, and what it cost."""
        impact = self.impact()
        who = [self._who(self.best)] if self.best else []
        return [self._what(), *who, *impact.claims[:1]]

    def _what(self) -> Claim:
        if self.best is None:
            span = self.pictures.span
            well = _at(span.well) if span.well else _of_points(span.last_progress)
            if self.report.verdict == "healthy":
                return Claim(text=self.words("say.healthy"), sources=well)
            return Claim(text=self.words("say.no-cause"))
        title, means = self.words.text(self.best.title), self.words.text(self.best.means)
        return Claim(text=self.words("say.cause", title=clean(title), means=clean(means)), sources=self.proof)

    def _who(self, best: Hypothesis) -> Claim:
        """The culprits, and the first thing that says so."""
        told = self.words("say.culprit", culprits=wording.culprits(best.culprits, self.words))
        if not best.evidence:
            return Claim(text=told)
        first, rows = best.evidence[0], {(row.file, row.line): row for row in self.report.timeline}
        row = next((rows[at] for each in best.evidence if (at := (each.file, each.line)) in rows), None)
        values = {"text": clean(first.text, TEXT), "who": (row and who_of(row)) or clean(first.file, 120)}
        if row is not None and row.time:
            sign = self.words("say.first", time=row.time, **values)
        else:
            sign = self.words("say.first-undated", **values)
        # A conclusion has no line of its own; the next piece of evidence is the line that it was drawn from.
        return Claim(text=f"{told} {sign}", sources=_sources(best.evidence[: 1 if first.line else 2]))

    def impact(self) -> Impact:
        """GPU-hours from the last progress to the end; unknown stays unknown."""
        span = self.pictures.span
        if self.report.verdict == "healthy":
            return Impact(ranks=span.ranks, lost_s=0.0, gpu_hours=0.0, claims=self._nothing_lost())
        since, name = self._since()
        lost = round(span.end.at - since.at, 3) if span.end and since else None
        if lost is not None and name == "start":
            lost = round(lost * (span.slowed or 0.0), 3)
        hours = round(span.ranks * lost / 3600, 2) if span.ranks and lost is not None else None
        return Impact(
            ranks=span.ranks,
            since=name if lost is not None else None,
            lost_s=lost,
            gpu_hours=hours,
            claims=[self._cost(lost, hours), *self._spans(lost)],
        )

    def _nothing_lost(self) -> list[Claim]:
        span = self.pictures.span
        if span.last_progress is None:
            return []
        return [Claim(text=self.words("say.no-stop"), sources=_of_points(span.last_progress, span.end))]

    def _since(self) -> tuple[Point | None, str]:
        """From where the loss counts: a slow job loses a share of its whole run, a stopped one all since it stopped."""
        span = self.pictures.span
        if span.slowed is not None and self.best is not None and self.best.cause.startswith("performance/"):
            return span.start, "start"
        return (span.last_progress, "last progress") if span.last_progress else (span.first_failure, "first failure")

    def _cost(self, lost: float | None, hours: float | None) -> Claim:
        span = self.pictures.span
        if lost is None or hours is None:
            lacking = "cost.times" if lost is None else "cost.ranks"
            return Claim(text=self.words("say.cost-unknown", what=self.words(lacking)))
        since, name = self._since()
        if lost < STILL_S:
            return Claim(text=self.words("say.no-stop"), sources=_of_points(span.last_progress, span.end))
        key = {"start": "say.cost-slow", "first failure": "say.cost-failure"}.get(name, "say.cost")
        told = self.words(key, ranks=span.ranks, time=wording.duration(lost), hours=f"{hours:.2f}")
        return Claim(text=told, sources=_of_points(since, span.end))

    def _spans(self, lost: float | None) -> Iterator[Claim]:
        span = self.pictures.span
        if span.last_progress and span.last_step is not None:
            told = self.words("say.progress", step=span.last_step, time=span.last_progress.label)
            yield Claim(text=told, sources=_of_points(span.last_progress))
        if span.end:
            yield Claim(text=self.words("say.end", time=span.end.label), sources=_of_points(span.end))
        if lost is not None and lost >= STILL_S and self._since()[1] != "start":
            yield Claim(text=self.words("say.restart"))

    def root_cause(self) -> Iterator[Claim]:
        """The cause, what its confidence rests on, each proof, and what speaks against it."""
        best = self.best
        if best is None:
            return
        yield self._what()
        reasons = wording.reasons(best.why, self.words)
        told = self.words("say.confidence", confidence=f"{best.confidence:.2f}", reasons=reasons)
        yield Claim(text=told, sources=self.proof)
        for one in best.culprits[: wording.CULPRITS]:
            if one.why:
                why = self.words(
                    "say.why-culprit", culprit=wording.culprit(one), why=clean(self.words.text(one.why)).rstrip(".")
                )
                yield Claim(text=why, sources=self.proof)
        for cited in best.evidence:
            yield Claim(text=self.words("say.proof", text=clean(cited.text, TEXT)), sources=_sources([cited]))
        yield from self._explained(best)
        yield from (
            Claim(text=self.words("say.against", text=clean(self.words.text(line))), sources=self.proof)
            for line in best.against
        )

    def _explained(self, best: Hypothesis) -> Iterator[Claim]:
        if best.explains:
            names = ", ".join(self._title(identity) for identity in best.explains[:8])
            rows = [row for row in self.report.timeline if row.signature in best.explains]
            sources = [Source(file=row.file, line=row.line) for row in rows[:SOURCES]] or self.proof
            told = self.words("say.explains", count=len(best.explains), names=clean(names))
            yield Claim(text=told, sources=sources)

    def _title(self, identity: str) -> str:
        return self.words.signature(identity, self.pictures.titles.get(identity, identity))

    def ruled_out(self) -> Iterator[Claim]:
        """Questions of the playbook, lesser hypotheses, and messages that are only effects."""
        best = self.best
        if best and best.playbook:
            yield from self._asked(best.playbook, best.path)
        for other in self.report.hypotheses[1:]:
            yield self._lesser(other)
        for each in self.pictures.demoted:
            yield Claim(text=self._demoted(each), sources=_at(each.where))

    def _asked(self, playbook: str, path: list[str]) -> Iterator[Claim]:
        """The questions on the way to the leaf, each as it is put in the playbook, with its answer."""
        asks = questions(playbook) | self.words.asks(playbook)
        for step in path:
            node, _, answer = step.partition(": ")
            key = f"answer.{answer}"
            told = self.words(key) if self.words.has(key) else clean(answer, 60)
            question = clean(asks.get(node, f"{node}:"))
            yield Claim(
                text=self.words("say.path", playbook=playbook, question=question, answer=told), sources=self.proof
            )

    def _lesser(self, other: Hypothesis) -> Claim:
        values = {
            "title": clean(self.words.text(other.title)),
            "cause": other.cause,
            "confidence": f"{other.confidence:.2f}",
        }
        if other.against:
            told = self.words(
                "say.other-against", against=clean("; ".join(map(self.words.text, other.against))), **values
            )
        else:
            told = self.words("say.other", best=f"{self.best.confidence:.2f}" if self.best else "", **values)
        return Claim(text=told, sources=_sources(other.evidence))

    def _demoted(self, each: Demoted) -> str:
        title = clean(self.words.signature(each.signature, each.title))
        if key := _NO_EFFECTS.get(each.rule):
            return self.words(key, title=title)
        return self.words(
            "say.demoted",
            title=title,
            by=clean(self.words.text(each.by)) or each.rule,
            why=clean(self.words.text(each.why)),
        ).strip()

    def factors(self) -> Iterator[Claim]:
        """Other faults of the same run that nothing explains, one of each kind."""
        own = {each.signature for each in self.best.evidence} if self.best else set()
        places = {(each.file, each.line) for each in self.best.evidence} if self.best else set()
        seen: set[str] = set()
        for row in self.report.timeline:
            if (row.file, row.line) in places or row.signature in own | seen or len(seen) >= FACTORS:
                continue
            if row.role == "root-cause":
                seen.add(row.signature)
                role, text = self.words(f"role.{row.role}"), clean(row.text, TEXT)
                told = self.words("say.factor", title=clean(self._title(row.signature)), role=role, text=text)
                yield Claim(text=told, sources=[Source(file=row.file, line=row.line)])

    def unseen(self) -> Iterator[Claim]:
        """Gaps, and what the hypothesis would need."""
        for each in self.best.missing if self.best else []:
            yield Claim(text=self.words("say.missing", what=clean(self.words.text(each.what)), how=clean(each.how)))
        for gap in self.report.gaps:
            why = self.words(f"gap.{gap.why}")
            sources = [Source(file=gap.file)] if gap.file else []
            yield Claim(text=self.words("say.gap", what=clean(gap.what), why=why), sources=sources)

    def actions(self) -> Iterator[Task]:
        """The confirming check first, then the actions, then the reproduction; owners are for people."""
        best = self.best
        if best is None:
            return
        if best.next_check:
            tells = clean(self.words.text(best.next_check.tells))
            yield Task(do=self.words("say.confirm", command=clean(best.next_check.command), tells=tells))
        yield from (
            Task(do=clean(self.words.text(each.do)), risk=each.risk) for each in wording.actions(best, self.words)
        )
        if command := wording.repro(best):
            yield Task(do=self.words("say.repro", command=command, name=best.repro))

    def appendix(self) -> Iterator[Exhibit]:
        """Every cited line of every hypothesis, with the lines around it."""
        every = [each for hypothesis in self.report.hypotheses for each in hypothesis.evidence]
        for each in {(one.file, one.line, one.text): one for one in every}.values():
            context = self.pictures.contexts.get((each.file, each.line or 0), ())
            yield Exhibit(
                file=each.file, line=each.line, at=each.at, text=each.text, signature=each.signature,
                title=self._title(each.signature) if each.signature else "", context=list(context),
            )  # fmt: skip


@cache
def questions(playbook: str) -> dict[str, str]:
    """What each node of a playbook asks; empty when there is no such playbook (a report of another version)."""
    path = next((path for path in content.files("playbooks") if path.stem == playbook), None)
    return {name: node.ask for name, node in content.load(path, Playbook).nodes.items()} if path else {}


def who_of(row: TimelineEntry) -> str:
    """`node017, rank 3`; empty when neither is known."""
    parts = (clean(row.node, 80) if row.node else None, f"rank {row.rank}" if row.rank is not None else None)
    return ", ".join(part for part in parts if part)


def _sources(cited: Iterable[Cited]) -> list[Source]:
    places = [Source(file=each.file, line=each.line, at=None if each.line else each.at) for each in cited]
    return _distinct(places)[:SOURCES]


def _of_points(*points: Point | None) -> list[Source]:
    return _distinct([source for point in points if point for source in _at(point.where)])


def _at(where: Where) -> list[Source]:
    return [Source(file=where.file, line=where.line, at=None if where.line else where.at)] if where.file else []


def _distinct(places: Iterable[Source]) -> list[Source]:
    return list({(each.file, each.line, each.at): each for each in places}.values())
