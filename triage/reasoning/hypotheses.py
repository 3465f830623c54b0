"""Ranked hypotheses: each candidate weighed, its culprits named, its evidence cited."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from triage.model.base import Scalar
from triage.model.incident import Incident, Placed
from triage.model.report import Cited, Culprit, Hypothesis, Missing
from triage.model.signature import Action, Cause, Check, Signature
from triage.reasoning import candidates, culprits, doubt
from triage.reasoning.candidates import Candidate
from triage.reasoning.confidence import TOLD, Weighing, confidence
from triage.reasoning.walking import Walk, edge_of, target
from triage.timeline import rfc3339
from triage.vocabulary import Answer

MOST = 6  # hypotheses told
CITED = 8  # pieces of evidence for each
BESIDE = 2  # remarks on the GPUs that are named
_REMARKS = frozenset({"gpu/differs-from-peers"})
_SLOT = re.compile(r"\{([a-z_]{2,20})\}")  # of a command in a signature: `lspci -s {pci}`
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/+-]{0,79}")
_SEVERITY = ("info", "warning", "error", "fatal")
# The order in which kinds of evidence are believed: what hardware or kernel say of themselves, what a program says of
# itself, what others say of it, what analyses conclude, what only waits.
_TIERS = {
    "kernel_log": 0,
    "nvidia_smi": 0,
    "fabric_manager": 0,
    "check_tools": 0,
    "slurm": 1,
    "kubernetes": 1,
    "torch_log": 1,
}


def rank(incident: Incident, causes: Mapping[str, Cause], walked: Sequence[Walk]) -> list[Hypothesis]:
    """Hypotheses, best first."""
    found = candidates.find(incident, causes, walked)
    scored = [(*_best(incident, candidate, found), candidate) for candidate in found]
    scored.sort(key=lambda row: (-row[0], _order(incident, row[2])))
    told = [row for row in scored[:MOST] if row[0] >= TOLD]
    return [
        msgspec.structs.replace(
            _hypothesis(incident, candidate, value, weighing, walked), against=doubt.against(incident, candidate, found)
        )
        for value, weighing, candidate in told
    ]


def _best(incident: Incident, candidate: Candidate, rivals: Sequence[Candidate]) -> tuple[float, Weighing]:
    """With its playbooks or by its signals alone: an unanswered question takes nothing from what a line proves."""
    others = [rival for rival in rivals if rival is not candidate]
    ways = [_weigh(incident, candidate, others)]
    if candidate.indexes and candidate.walks:
        ways.append(_weigh(incident, msgspec.structs.replace(candidate, walks=()), others))
    return max(((confidence(way), way) for way in ways), key=lambda row: row[0])


def _order(incident: Incident, candidate: Candidate) -> tuple[float, int, str]:
    first = candidates.earliest(incident, candidate.indexes)
    tier = _TIERS.get(first.signal.event.source, 2) if first else 3
    return (first.at if first and first.at is not None else float("inf"), tier, candidate.cause.id)


def _weigh(incident: Incident, candidate: Candidate, rivals: Sequence[Candidate]) -> Weighing:
    items = [incident.signals[index] for index in candidate.indexes]
    roots = [item for item in items if item.signal.signature.role == "root-cause"]
    strong = [item for item in roots if item.signal.signature.specificity == "strong"]
    best = strong or roots or items
    return Weighing(
        support=candidate.support,
        specificity="strong" if strong or (candidate.walks and not roots) else "weak",
        symptom_only=not roots and not any(walk.leaf.support == "strong" for walk in candidate.walks),
        weak_count=len({item.signal.signature.id for item in roots}),
        explains=bool(_explained(incident, candidate)),
        first=_first(incident, candidate, rivals),
        rival=_rival(incident, candidate, rivals),
        severity=max(
            (item.signal.signature.severity for item in best) if best else (walk.severity for walk in candidate.walks),
            key=_SEVERITY.index,
            default="fatal",
        ),
        survivable=bool(best) and all(item.signal.signature.progress != "fatal" for item in best),
        degrades=all(item.signal.signature.progress == "degrades" for item in best)
        and doubt.steps_after(incident, candidate)[1] > 1,
        unknown=max((walk.unknown for walk in candidate.walks), default=0),
        undecided=any(walk.missing for walk in candidate.walks) and not strong,
    )


def _first(incident: Incident, candidate: Candidate, rivals: Sequence[Candidate]) -> bool:
    """Nothing of another candidate stands before it (same file: by line; else by time beyond the uncertainty)."""
    own = candidates.earliest(incident, candidate.indexes)
    others = [candidates.earliest(incident, rival.indexes) for rival in rivals if rival is not candidate]
    return own is not None and not any(other is not None and _before(other, own) for other in others)


def _before(one: Placed, other: Placed) -> bool:
    first, second = one.signal.event.where, other.signal.event.where
    if first.file == second.file and first.line and second.line:
        return first.line < second.line
    if one.at is None or other.at is None:
        return False
    return other.at - one.at > one.uncertainty + other.uncertainty


def _rival(incident: Incident, candidate: Candidate, rivals: Sequence[Candidate]) -> bool:
    """Another strong root cause that nothing explains and that does not come later."""
    own = candidates.earliest(incident, candidate.indexes)
    for rival in rivals:
        items = [incident.signals[index] for index in rival.indexes]
        strong = any(_is_strong(item.signal.signature) for item in items)
        other = candidates.earliest(incident, rival.indexes)
        if rival is not candidate and strong and own is not None and other is not None and not _before(own, other):
            return True
    return False


def _is_strong(signature: Signature) -> bool:
    return (
        signature.role == "root-cause"
        and signature.specificity == "strong"
        and signature.severity in {"error", "fatal"}
    )


def _explained(incident: Incident, candidate: Candidate) -> list[str]:
    """Signature ids that the candidate explains: by cause edges, and by what its leaves say."""
    own, wanted = set(candidate.indexes), {name for walk in candidate.walks for name in walk.leaf.explains}
    found = set()
    for item in incident.signals:
        identity = item.signal.signature.id
        if own & set(item.effect_of) or identity in wanted:
            found.add(identity)
    return sorted(found)


def _hypothesis(
    incident: Incident, candidate: Candidate, value: float, weighing: Weighing, walked: Sequence[Walk]
) -> Hypothesis:
    signatures = _signatures(incident, candidate)
    told = candidate.walks or (_handed_over(walked, signatures) if weighing.symptom_only else [])
    walk = next(iter(told), None)
    playbook = walk.playbook.id if walk else next((each.playbook for each in signatures if each.playbook), None)
    named, evidence = culprits.name(incident, candidate), _evidence(incident, candidate)
    return Hypothesis(
        cause=candidate.cause.id,
        title=candidate.cause.title,
        means=candidate.cause.means,
        confidence=value,
        culprits=named,
        evidence=[*evidence[:1], *_beside(incident, named), *evidence[1:]],
        missing=list({each.how: each for each in [*_asked(told), *doubt.missing(incident, candidate)]}.values())[:4],
        explains=_explained(incident, candidate),
        next_check=_filled(_next_check(candidate, signatures), _known(incident, candidate)),
        actions=_actions(candidate, signatures),
        repro=walk.leaf.repro if walk else None,
        playbook=playbook,
        path=list(walk.path) if walk else [],
        not_taken=_not_taken(walk) if walk else [],
        if_not_this=_if_not_this(candidate, signatures),
        why=_why(weighing),
    )


def _asked(told: Sequence[Walk]) -> list[Missing]:
    return [each for walk in told for each in walk.missing]


def _not_taken(walk: Walk) -> list[str]:
    """For each step of the path, where the answer that was not given would have led."""
    told = []
    for step in walk.path:
        node, _, answer = step.partition(": ")
        others: tuple[Answer, ...] = ("yes", "no")
        ways = [(other, target(edge_of(walk.playbook, node, other))) for other in others if other != answer]
        told.append("; ".join(f"{other} -> {leaf or following}" for other, (following, leaf) in ways))
    return told


def _handed_over(walked: Sequence[Walk], signatures: Sequence[Signature]) -> list[Walk]:
    """Walks that began at these symptoms and could not name a cause: they say what would decide."""
    seen = {each.id for each in signatures}
    return [walk for walk in walked if walk.leaf.cause is None and seen & _starts(walk)]


def _starts(walk: Walk) -> set[str]:
    start = walk.playbook.start_when
    return {each for each in [*start.any, *start.all] if isinstance(each, str)}


def _signatures(incident: Incident, candidate: Candidate) -> list[Signature]:
    found = {incident.signals[index].signal.signature.id: incident.signals[index].signal for index in candidate.indexes}
    return [signal.signature for signal in found.values()]


def _evidence(incident: Incident, candidate: Candidate) -> list[Cited]:
    """Its own signals first (earliest, one of each signature before a second of any), then what it explains."""
    own = [incident.signals[index] for index in candidate.indexes]
    own_set = set(candidate.indexes)
    wanted = {name for walk in candidate.walks for name in walk.leaf.explains}
    others = [
        item
        for item in incident.signals
        if own_set & set(item.effect_of) or (item.signal.signature.id in wanted and item not in own)
    ]
    cited = [each for item in [*_varied(own), *_varied(others)][:CITED] for each in cite(item)]
    return list({(each.file, each.line, each.text): each for each in cited}.values())[:CITED]


def _beside(incident: Incident, named: Sequence[Culprit]) -> list[Cited]:
    """What comparisons say of the very GPUs that are named: remarks, which support and decide nothing."""
    of = {(each.node, each.pci or each.gpu) for each in named if each.pci or each.gpu is not None}
    remarks = [
        item
        for item in incident.signals
        if item.signal.signature.role == "context" and item.signal.signature.id in _REMARKS and _whose(item) & of
    ]
    return [cite(item)[0] for item in remarks[:BESIDE]]


def _whose(item: Placed) -> set[tuple[Scalar, Scalar]]:
    entity = item.signal.entity
    return {(entity.get("node"), entity.get(key)) for key in ("pci", "gpu") if entity.get(key) is not None}


def _varied(items: Sequence[Placed]) -> list[Placed]:
    turn: dict[str, int] = {}
    rows = []
    for item in sorted(items, key=lambda item: (item.at is None, item.at or 0.0, item.signal.event.where.file)):
        identity = item.signal.signature.id
        turn[identity] = turn.get(identity, 0) + 1
        rows.append((turn[identity], item))
    return [item for _, item in sorted(rows, key=lambda row: row[0])]


def cite(item: Placed) -> list[Cited]:
    """A signal as evidence: the line, and before it the conclusion that an analysis drew from it."""
    event = item.signal.event
    line = Cited(
        file=event.where.file,
        line=event.where.line,
        at=event.where.at,
        text=event.text,
        signature=item.signal.signature.id,
        time=rfc3339(event.time.seconds) if event.time and event.time.kind == "utc" else None,
    )
    if not item.signal.signature.facts or event.body == event.text:
        return [line]
    if event.where.line is None:  # of a place without lines the conclusion is all that can be shown
        return [msgspec.structs.replace(line, text=event.body)]
    at = f"concluded from line {event.where.line}"
    return [msgspec.structs.replace(line, line=None, at=at, text=event.body), line]


def _next_check(candidate: Candidate, signatures: Sequence[Signature]) -> Check | None:
    for walk in candidate.walks:
        if walk.leaf.next_check:
            return walk.leaf.next_check
    return next((each.next_check for each in signatures if each.next_check), None) or candidate.cause.next_check


def _known(incident: Incident, candidate: Candidate) -> dict[str, str]:
    """What the candidate's signals say, first wins; only words that can stand in a command as they are."""
    known: dict[str, str] = {}
    for index in candidate.indexes:
        signal = incident.signals[index].signal
        for name, value in [*signal.entity.items(), *signal.fields.items()]:
            if value is not None and _WORD.fullmatch(str(value)):
                known.setdefault(name, str(value))
    return known


def _filled(check: Check | None, known: Mapping[str, str]) -> Check | None:
    """The command with what is known of the incident; what is not known stays a name in brackets."""
    if check is None:
        return None
    command = _SLOT.sub(lambda found: known.get(found[1], f"<{found[1]}>"), check.command)
    return msgspec.structs.replace(check, command=command)


def _actions(candidate: Candidate, signatures: Sequence[Signature]) -> list[Action]:
    """The union, most specific first."""
    every = [action for walk in candidate.walks for action in walk.leaf.actions]
    every += [action for signature in signatures for action in signature.actions] + list(candidate.cause.actions)
    return list({action.do: action for action in every}.values())[:6]


def _if_not_this(candidate: Candidate, signatures: Sequence[Signature]) -> list[str]:
    leaf = [cause for walk in candidate.walks for cause in walk.leaf.if_not_this]
    return leaf or [each.id for signature in signatures for each in signature.confused_with][:4]


def _why(weighing: Weighing) -> list[str]:
    """What the confidence rests on, as `name: value` for everything that is not the default."""
    plain = Weighing(support=weighing.support)
    told = [f"support: {weighing.support}", f"specificity: {weighing.specificity}"]
    for field in msgspec.structs.fields(Weighing):
        value = getattr(weighing, field.name)
        if field.name not in {"support", "specificity"} and value != getattr(plain, field.name):
            told.append(f"{field.name}: {value}")
    return told
