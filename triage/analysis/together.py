"""What was seen beside each other: so that a signature can ask for two lines, or for a line and a setting.

seen.<signature id>   a signature was seen, with dots for slashes (`seen.pcie.acs-on`): the text that it matched
env.<VARIABLE>        an environment variable that the job printed: its value
job.<signature id>    as `seen`, for the whole job

`seen` and `env` have the entity {node} when their lines name one, else none: lines of one node, or of a log without
nodes, are beside each other. What belongs to another run of the job, or lies outside its time, is left out. A signature
takes them by `facts:`; all of its conditions must hold on one entity.
"""

from __future__ import annotations

from collections.abc import Iterator

from triage.model.base import Scalar
from triage.model.event import Event, Fact
from triage.model.incident import Incident

NODES = 64  # on which one signature or variable is told: what holds on more is told by these too
_OTHER = frozenset({"other-episode", "outside-window"})


def derive(incident: Incident) -> Iterator[Fact]:
    """Signatures and variables, each once a node."""
    told: dict[str, set[Scalar]] = {}
    for placed in incident.signals:
        if placed.rule not in _OTHER:
            event, name = placed.signal.event, placed.signal.signature.id.replace("/", ".")
            node = placed.signal.entity.get("node", event.node)
            if _first(told, f"job.{name}", None):
                yield _fact(f"job.{name}", event.text, event, {})
            if _first(told, f"seen.{name}", node):
                yield _fact(f"seen.{name}", event.text, event, {} if node is None else {"node": node})
    for mark in incident.marks:
        variable, node = mark.fields.get("name"), mark.event.node
        if mark.kind == "env" and isinstance(variable, str) and _first(told, f"env.{variable}", node):
            value = str(mark.fields.get("value") or "").strip("'\"")
            yield _fact(f"env.{variable}", value, mark.event, {} if node is None else {"node": node})


def _first(told: dict[str, set[Scalar]], name: str, node: Scalar) -> bool:
    """Is it told of this node for the first time, and not of too many before?"""
    nodes = told.setdefault(name, set())
    if node in nodes or len(nodes) >= NODES:
        return False
    nodes.add(node)
    return True


def _fact(name: str, value: str, event: Event, entity: dict[str, Scalar]) -> Fact:
    return Fact(
        name=name, value=value, where=event.where, entity=entity, text=event.text, time=event.time,
        evidence=(event.where,),
    )  # fmt: skip
