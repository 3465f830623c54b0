"""The sentences that all renderers share, so that terminal, Markdown and HTML say the same thing."""

from __future__ import annotations

from collections.abc import Sequence

from triage.model.report import Cited, Culprit, Hypothesis, Report
from triage.model.signature import Action
from triage.report.clean import clean
from triage.report.language import ENGLISH, Words

EVIDENCE = "EVIDENCE"  # stands for the paths that were opened
CULPRITS = 6  # culprits told one by one before they are counted


def headline(report: Report, words: Words = ENGLISH) -> str:
    """The verdict in one line."""
    if report.verdict == "healthy":
        return words("headline.healthy")
    if not report.hypotheses:
        return words("headline.nothing")
    best = report.hypotheses[0]
    return words(
        "headline",
        verdict=words(f"verdict.{report.verdict}"),
        title=clean(words.text(best.title)),
        cause=best.cause,
        confidence=f"{best.confidence:.2f}",
    )


def culprit(one: Culprit) -> str:
    """`node017, rank 137, GPU 3 (0000:9b:00)`."""
    parts = [clean(one.node, 80)] if one.node else []
    parts += [f"rank {one.rank}"] if one.rank is not None else []
    if one.gpu is not None:
        kind = "CUDA device" if one.gpu_kind == "cuda-ordinal" else "GPU"
        parts.append(f"{kind} {one.gpu}" + (f" ({clean(one.pci, 40)})" if one.pci else ""))
    elif one.pci:
        parts.append(f"PCI {clean(one.pci, 40)}")
    for name in ("uuid", "link", "nic", "port", "mount", "group"):
        if (value := getattr(one, name)) is not None and not (name == "uuid" and one.gpu is not None):
            parts.append(f"{name} {clean(value, 120)}")
    return ", ".join(parts)


def culprits(all_of: Sequence[Culprit], words: Words = ENGLISH) -> str:
    """All culprits in one line; many are counted."""
    if not all_of:
        return words("culprit.none")
    told = "; ".join(culprit(one) for one in all_of[:CULPRITS])
    more = len(all_of) - CULPRITS
    return words("culprit.more", told=told, count=more) if more > 0 else told


def place(cited: Cited) -> str:
    """`file:line`, or the file and where in it."""
    return where(cited.file, cited.line, cited.at)


def where(file: str, line: int | None = None, at: str | None = None) -> str:
    """`file:line`, or the file and where in it."""
    name = clean(file, 200)
    if line is not None:
        return f"{name}:{line}"
    return f"{name} ({clean(at, 80)})" if at else name


def unseen(report: Report, hypothesis: Hypothesis | None, words: Words = ENGLISH) -> list[str]:
    """What was not seen: what the hypothesis misses, then the gaps."""
    missing = hypothesis.missing if hypothesis else []
    lines = [f"{clean(words.text(each.what))} -> {clean(each.how)}" for each in missing]
    for gap in report.gaps:
        named = gap.file or gap.node
        tail = f" ({clean(named, 120)})" if named and named not in gap.what else ""
        lines.append(f"{clean(gap.what)}: {words(f'gap.{gap.why}')}{tail}")
    return lines


def actions(hypothesis: Hypothesis, words: Words = ENGLISH) -> list[Action]:
    """What to do, the most specific first; in another language the cause's own actions, which are translated, lead."""
    own = words.actions(hypothesis.cause)
    return own + [each for each in hypothesis.actions if each.do not in {one.do for one in own}]


def repro(hypothesis: Hypothesis, first: bool = True, evidence: str = EVIDENCE) -> str | None:
    """The command that writes a script to provoke the fault again; None when there is no reproduction.

    evidence: the paths as a shell takes them; a report does not know from where it was opened, so that a word stands
    for them. first: is it the first hypothesis, which the command takes without being told?
    """
    if hypothesis.repro is None:
        return None
    return f"triage repro {clean(evidence)} {'' if first else f'--cause {hypothesis.cause} '}-o repro/"


def reasons(why: Sequence[str], words: Words = ENGLISH) -> str:
    """What a confidence rests on: `name: value` of the weighing, in words where there are any."""
    told = []
    for each in why:
        name, _, value = each.partition(": ")
        key = f"reason.{name}"
        said = words(f"value.{value}") if words.has(f"value.{value}") else clean(value, 60)
        told.append(words(key, value=said) if words.has(key) else clean(each, 120))
    return "; ".join(told) or "-"


def duration(seconds: float) -> str:
    """`43 s`, `12 min 05 s`, `3 h 07 min`, `2 d 4 h`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 172800:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
