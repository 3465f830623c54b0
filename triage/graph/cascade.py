"""Cause edges: which signal is only the effect of another.

Rules come from data/causality.yaml and join signatures by `covers`. Beside them stand three general ones: an echo
(role consequence) never causes; steps seen after a survivable signal make it noise; a symptom that began after a
root cause of the same job is its effect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import msgspec

from triage import content
from triage.model.base import Scalar, Spec
from triage.model.incident import Placed
from triage.vocabulary import Scope, Support

MOST_CAUSES = 64  # candidates tried for one effect: earliest first, so that a storm of one message stays linear


class Rule(Spec, frozen=True, kw_only=True):
    """One causality rule; `window` in seconds from cause to effect."""

    id: str
    cause: list[str]
    effect: list[str]
    window: tuple[float, float]
    scope: Scope
    strength: Support
    why: str = ""


@cache
def rules() -> tuple[Rule, ...]:
    """The rules of data/causality.yaml."""
    return tuple(content.load(content.data("causality.yaml"), list[Rule]))


def demote(placed: Sequence[Placed]) -> list[Placed]:
    """The same signals with `effect_of` and `rule` filled in. Demoted signals keep their place in the list."""
    edges = _by_rules(placed)
    return [
        msgspec.structs.replace(item, effect_of=tuple(sorted({cause for cause, _ in found})), rule=found[0][1])
        if (found := edges.get(index)) and item.rule is None
        else item
        for index, item in enumerate(placed)
    ]


def _by_rules(placed: Sequence[Placed]) -> dict[int, list[tuple[int, str]]]:
    by_fact: dict[str, list[int]] = defaultdict(list)
    for index, item in enumerate(placed):
        for fact in item.signal.signature.covers:
            by_fact[fact].append(index)
    edges: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for rule in rules():
        if rule.strength == "weak":
            continue
        causes = sorted({index for fact in rule.cause for index in by_fact[fact] if _may_cause(placed[index])})
        known = _Causes(placed, rule.scope, causes[:MOST_CAUSES])
        for effect in sorted({index for fact in rule.effect for index in by_fact[fact]}):
            for cause in known.of(placed[effect]):
                if _explains(rule, placed[cause], placed[effect]) and not _reaches(edges, cause, effect):
                    edges[effect].append((cause, rule.id))
    return edges


class _Causes:
    """Some causes, by what tells most of them apart: of ten thousand ranks' effects each has its own rank's alone."""

    def __init__(self, placed: Sequence[Placed], scope: Scope, causes: list[int]) -> None:
        entities = {index: placed[index].signal.entity for index in causes}
        self._all, self._by = causes, defaultdict[Scalar, list[int]](list)
        several = {key: len({each.get(key) for each in entities.values()}) for key in _KEYS[scope]}
        self._key = max(several, key=lambda key: several[key], default=None)
        for index, entity in entities.items():
            self._by[entity.get(self._key or "")].append(index)

    def of(self, effect: Placed) -> list[int]:
        """All that may be near it, ascending; what either does not say cannot keep them apart."""
        value = effect.signal.entity.get(self._key) if self._key else None
        if value is None:
            return self._all
        return sorted([*self._by.get(None, ()), *self._by.get(value, ())])


def _may_cause(item: Placed) -> bool:
    return item.rule is None and item.signal.signature.role != "consequence"


def _reaches(edges: dict[int, list[tuple[int, str]]], start: int, goal: int) -> bool:
    """Would an edge goal <- start close a circle: is `goal` already among the causes of `start`?"""
    stack, seen = [start], set()
    while stack:
        index = stack.pop()
        if index == goal:
            return True
        if index not in seen:
            seen.add(index)
            stack += [cause for cause, _ in edges.get(index, [])]
    return False


def _explains(rule: Rule, cause: Placed, effect: Placed) -> bool:
    if cause.signal.signature.id == effect.signal.signature.id or cause.episode != effect.episode:
        return False
    if effect.signal.signature.role == "root-cause" and cause.signal.signature.role != "root-cause":
        return False  # what names a cause by itself is not explained by what only hints
    return near(rule.scope, cause.signal.entity, effect.signal.entity) and _in_time(rule, cause, effect)


def _in_time(rule: Rule, cause: Placed, effect: Placed) -> bool:
    first, last = cause.signal.event.where, effect.signal.event.where
    if cause.at is not None and effect.at is not None:
        slack = cause.uncertainty + effect.uncertainty if first.file != last.file else 1.0
        return rule.window[0] - slack <= effect.at - cause.at <= rule.window[1] + slack
    if first.file == last.file and first.line and last.line:
        return first.line <= last.line or rule.window[0] < 0
    return rule.strength == "strong"


_KEYS: dict[Scope, tuple[str, ...]] = {
    "same-process": ("node", "rank", "pid"),
    "same-rank": ("node", "rank"),
    "same-gpu": ("node", "pci", "gpu"),
    "same-pci-tree": ("node",),
    "same-link": ("node",),
    "same-node": ("node",),
    "same-container": ("node",),
    "same-mount": ("node", "mount"),
    "same-group": (),
    "same-rail": (),
    "same-job": (),
    "next-start": (),
}


def near(scope: Scope, one: dict[str, Scalar], other: dict[str, Scalar]) -> bool:
    """Do two entities agree as far as a scope asks? What one of them does not say cannot disagree."""
    for key in _KEYS[scope]:  # asked millions of times in a job of ten thousand ranks
        mine = one.get(key)
        if mine is not None and (theirs := other.get(key)) is not None and mine != theirs:
            return False
    return True


def chain(placed: Sequence[Placed], index: int) -> Iterator[int]:
    """All indexes that `index` explains, directly or through others."""
    effects: dict[int, list[int]] = defaultdict(list)
    for effect, item in enumerate(placed):
        for cause in item.effect_of:
            effects[cause].append(effect)
    yield from _walk(effects, index)


def _walk(effects: dict[int, list[int]], start: int) -> Iterable[int]:
    stack, seen = list(effects[start]), set()
    while stack:
        index = stack.pop()
        if index not in seen:
            seen.add(index)
            yield index
            stack += effects[index]
