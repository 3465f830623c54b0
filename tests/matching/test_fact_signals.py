"""Signatures of facts."""

from __future__ import annotations

from typing import Any

from tests.matching.building import catalogue, signature
from triage.matching.fact_signals import match_facts
from triage.model.event import Fact, Where

REMAP = signature(
    "gpu/remap", match=[], sources=["nvidia_smi"],
    facts=[{"name": "gpu.remap.pending", "value": "yes"}, {"name": "gpu.ecc", "op": "gt", "value": "0"}],
)  # fmt: skip
HANG = signature("collective/hang", match=[], facts=[{"name": "hang.culprit", "op": "in", "value": ["never-arrived"]}])


def fact(name: str, value: Any, file: str = "smi.txt", **more: Any) -> Fact:
    return Fact(name=name, value=value, where=Where(file=file, line=more.pop("line", 4)), **more)


def test_all_conditions_on_one_entity_of_one_file() -> None:
    facts = [
        fact("gpu.remap.pending", "Yes", entity={"gpu": 0}), fact("gpu.ecc", 3, entity={"gpu": 0}, line=9),
        fact("gpu.remap.pending", "yes", entity={"gpu": 1}), fact("gpu.ecc", 0, entity={"gpu": 1}),
        fact("gpu.remap.pending", "yes", entity={"gpu": 2}), fact("gpu.ecc", 5, "other.txt", entity={"gpu": 2}),
        fact("gpu.remap.pending", "yes", entity={"gpu": 3}), fact("gpu.ecc", None, entity={"gpu": 3}),
    ]  # fmt: skip
    (signal,) = match_facts(facts, catalogue(REMAP, HANG))
    assert signal.signature.id == "gpu/remap"
    assert signal.entity == {"gpu": 0}
    assert (signal.event.where.file, signal.event.where.line, signal.event.source) == ("smi.txt", 4, "gpu")


def test_derived_facts_stand_where_their_evidence_is() -> None:
    proof = (Where(file="nodes/a/fr.pkl", at="entry 7"), Where(file="b.log", line=2))
    facts = [
        fact("hang.culprit", "never-arrived", "", entity={"rank": 3}, evidence=proof, text="rank 3 is at 11 of 12")
    ]
    (signal,) = match_facts(facts, catalogue(REMAP, HANG))
    assert signal.event.where == proof[0]
    assert (signal.event.text, signal.event.rank) == ("rank 3 is at 11 of 12", 3)


def test_order_of_facts_changes_nothing() -> None:
    facts = [fact("hang.culprit", "never-arrived", entity={"rank": rank}) for rank in range(20)]
    assert match_facts(facts, catalogue(HANG)) == match_facts(facts[::-1], catalogue(HANG))
