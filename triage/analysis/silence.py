"""Who said nothing: nodes of the allocation without any evidence, while the others failed.

Facts: silence.node (one for each silent node, entity {node}, value: why it counts as silent); silence.nodes (how many).
Silence is no proof of anything: a collector may have failed there. It is a suspect only beside failures elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from triage.model.event import Fact
from triage.model.incident import Incident

MOST_SHARE = 0.5  # when more than half of the allocation is missing, the collection is at fault, not the nodes


def derive(incident: Incident) -> Iterator[Fact]:
    """Silent nodes of the allocation."""
    listed = _allocated(incident)
    heard = _heard(incident)
    missing = sorted(node for node in listed if _short(node) not in heard)
    if not missing or len(missing) > MOST_SHARE * len(listed) or not _others_failed(incident):
        return
    where = next(fact.where for fact in incident.facts if fact.name == "slurm.job.nodes")
    for node in missing:
        yield Fact(name="silence.node", value="no evidence", where=where, entity={"node": node}, text=_text(incident))
    yield Fact(name="silence.nodes", value=len(missing), where=where)


def _allocated(incident: Incident) -> list[str]:
    for fact in incident.facts:
        if fact.name == "slurm.job.nodes" and isinstance(fact.value, list):
            return [str(node) for node in fact.value]
    return []


def _text(incident: Incident) -> str:
    return next((fact.text for fact in incident.facts if fact.name == "slurm.job.nodes"), "")


def _heard(incident: Incident) -> set[str]:
    """Nodes with a file of their own, or whose ranks printed something."""
    nodes = {file.node for file in incident.files if file.node}
    nodes |= {
        item.signal.event.node
        for item in incident.signals
        if item.signal.event.node and _by_itself(item.signal.event.source)
    }
    return {_short(node) for node in nodes if node}


def _by_itself(source: str) -> bool:
    """The scheduler speaks about nodes; that a node is named there does not mean that it spoke."""
    return source not in {"slurm", "kubernetes"}


def _short(node: str) -> str:
    return node.split(".")[0].lower()


def _others_failed(incident: Incident) -> bool:
    return any(
        item.signal.signature.role in {"symptom", "root-cause"} for item in incident.signals if item.rule is None
    )
