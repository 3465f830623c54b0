"""The playbook: a complete decision tree that evidence, or a person, can walk. Written in YAML in playbooks/."""

from __future__ import annotations

import msgspec

from triage.model.base import Spec
from triage.model.signature import Action, Check, Condition
from triage.vocabulary import EntityKind, Op, Role, Scope, Spread, Support


class Selector(Spec, frozen=True, kw_only=True):
    """Which signals: by id, by role, by layer; any one of what is given must hold for each of the keys present."""

    signature: str | None = None
    role: Role | None = None
    layer: str | None = None
    cause: str | None = None
    scope: EntityKind | None = None


class SignalQuestion(Spec, frozen=True, kw_only=True, tag="signal", tag_field="kind"):
    """Was any (or were all) of these signatures seen? Unknown when a source they need was not collected."""

    any: list[str] = []
    all: list[str] = []
    scope: Scope | None = None


class FactQuestion(Spec, frozen=True, kw_only=True, tag="fact", tag_field="kind"):
    """Does a fact hold? Unknown when nothing says."""

    name: str
    op: Op = "eq"
    value: str | list[str] | None = None


class OrderQuestion(Spec, frozen=True, kw_only=True, tag="order", tag_field="kind"):
    """Did `first` come before the moment `before` (hang_start, first_failure, end, or a signature id)?"""

    first: Selector
    before: str
    within: str | None = None
    scope: Scope | None = None


class SpreadQuestion(Spec, frozen=True, kw_only=True, tag="spread", tag_field="kind"):
    """On how much of the job is the signature `of` seen?"""

    of: str
    is_: Spread = msgspec.field(name="is")


class OperatorQuestion(Spec, frozen=True, kw_only=True, tag="operator", tag_field="kind"):
    """Only a person can answer; `answers` maps each word to yes, no or unknown."""

    text: str
    answers: dict[str, str] = {}


Question = SignalQuestion | FactQuestion | OrderQuestion | SpreadQuestion | OperatorQuestion


class Edge(Spec, frozen=True, kw_only=True):
    """Where an answer leads: a node or a leaf. For unknown also what to collect and why."""

    node: str | None = None
    leaf: str | None = None
    collect: list[str] = []
    why: str | None = None
    then: Edge | None = None


class Node(Spec, frozen=True, kw_only=True):
    """A question with all three ways on."""

    ask: str
    question: Question
    if_yes: Edge
    if_no: Edge
    if_unknown: Edge
    how: str | None = None


class Leaf(Spec, frozen=True, kw_only=True):
    """An end: a cause with its support, or `cause: null` where the tree hands over (see `if_not_this`)."""

    support: Support = "moderate"
    cause: str | None = None
    title: str | None = None
    culprits: dict[str, str] = {}
    explains: list[str] = []
    actions: list[Action] = []
    next_check: Check | None = None
    repro: str | None = None
    if_not_this: list[str] = []


class Start(Spec, frozen=True, kw_only=True):
    """When the playbook is walked: signature ids or fact conditions."""

    any: list[str | Condition] = []
    all: list[str | Condition] = []


class PlaybookExample(Spec, frozen=True, kw_only=True):
    """Evidence that must lead to a leaf: signature ids, and facts as `{name: value}`."""

    leaf: str
    evidence: list[str | dict[str, str]] = []
    answers: dict[str, str] = {}


class Playbook(Spec, frozen=True, kw_only=True):
    """A decision tree; the first node is the root."""

    id: str
    title: str
    start_when: Start
    look_first: str
    nodes: dict[str, Node]
    leaves: dict[str, Leaf]
    examples: list[PlaybookExample]
    means: str = ""
