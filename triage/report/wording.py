"""The sentences that all renderers share, so that terminal, Markdown and HTML say the same thing."""

from __future__ import annotations

from collections.abc import Sequence

from triage.model.report import Cited, Culprit, Hypothesis, Report
from triage.report.clean import clean

VERDICTS = {
    "diagnosed": "Diagnosed",
    "suspected": "Suspected",
    "inconclusive": "Inconclusive",
    "healthy": "Healthy",
}
CULPRITS = 6  # culprits told one by one before they are counted


def headline(report: Report) -> str:
    """The verdict in one line."""
    if report.verdict == "healthy":
        return "Healthy: nothing in this evidence points to a fault."
    if not report.hypotheses:
        return "Inconclusive: nothing here names a cause."
    best = report.hypotheses[0]
    return f"{VERDICTS[report.verdict]}: {clean(best.title)} ({best.cause}, confidence {best.confidence:.2f})"


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


def culprits(all_of: Sequence[Culprit]) -> str:
    """All culprits in one line; many are counted."""
    if not all_of:
        return "nothing in particular (shared, or not shown by this evidence)"
    told = "; ".join(culprit(one) for one in all_of[:CULPRITS])
    return told + (f"; and {len(all_of) - CULPRITS} more" if len(all_of) > CULPRITS else "")


def place(cited: Cited) -> str:
    """`file:line`, or `file (at)` for binary sources."""
    name = clean(cited.file, 200)
    if cited.line is not None:
        return f"{name}:{cited.line}"
    return f"{name} ({clean(cited.at, 80)})" if cited.at else name


def unseen(report: Report, hypothesis: Hypothesis | None) -> list[str]:
    """What was not seen: what the hypothesis misses, then the gaps."""
    lines = [f"{clean(each.what)} -> {clean(each.how)}" for each in (hypothesis.missing if hypothesis else [])]
    for gap in report.gaps:
        where = gap.file or gap.node
        lines.append(
            f"{clean(gap.what)}: {gap.why}" + (f" ({clean(where, 120)})" if where and where not in gap.what else "")
        )
    return lines
