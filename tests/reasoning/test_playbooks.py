"""The playbooks that are shipped, and how they are walked."""

from __future__ import annotations

import msgspec
import pytest
from making import event, incident, signal, signature

from triage.matching.loading import catalogue
from triage.model.event import Fact, Where
from triage.model.incident import Incident
from triage.model.playbook import Edge, FactQuestion, Leaf, Node, OperatorQuestion, Playbook, SignalQuestion, Start
from triage.model.report import Hypothesis
from triage.reasoning import hypotheses
from triage.reasoning.lint import lint
from triage.reasoning.loading import causes, playbooks
from triage.reasoning.questions import View
from triage.reasoning.walking import BROKEN, Walk, walk, walks

NAMES = [
    "cloud-fabrics",
    "collective-timeout",
    "cuda-out-of-memory",
    "data-loading",
    "driver-and-libraries",
    "ecc-and-row-remapping",
    "fail-slow",
    "fragmentation",
    "gpu-lost",
    "hang-without-timeout",
    "host-memory",
    "infiniband-and-roce",
    "low-utilisation",
    "memory-leak",
    "nan-and-divergence",
    "nvlink-and-fabric-manager",
    "pcie-and-p2p",
    "process-exit",
    "rendezvous-and-initialisation",
    "scheduler-and-preemption",
    "shared-memory",
    "storage-and-checkpoint",
    "stragglers",
]
TIMEOUT = signature("torch/timeout", role="symptom", cause="collective/rank-stalled", severity="fatal")
LOST = signature("gpu/lost")
KNOWN = {each.id: each for each in (TIMEOUT, LOST)}


def test_every_shipped_playbook_is_without_fault() -> None:
    assert lint(catalogue()) == []


def test_the_families_of_failures_are_covered() -> None:
    assert set(NAMES) <= playbooks().keys()


@pytest.mark.parametrize("name", NAMES)
def test_with_nothing_known_no_tree_is_sure(name: str) -> None:
    found = walk(playbooks()[name], lambda _, __: "unknown")
    assert found.leaf.cause is None or found.leaf.support != "strong"


def tree(**changes: object) -> Playbook:
    """Was it lost? Yes names the GPU; else a person is asked."""
    values: dict[str, object] = {
        "id": "small",
        "title": "small",
        "look_first": "",
        "start_when": Start(any=["torch/timeout"]),
        "nodes": {
            "lost": node(SignalQuestion(any=["gpu/lost"]), "yes-lost", "asked", collect=["kernel_log"]),
            "asked": node(OperatorQuestion(text="Is it warm?"), "yes-lost", "open"),
        },
        "leaves": {
            "yes-lost": Leaf(cause="gpu/fallen-off-bus", support="strong", explains=["torch/timeout"]),
            "open": Leaf(title="open"),
        },
        "examples": [],
    }
    return Playbook(**values | changes)  # type: ignore[arg-type]


def node(
    question: SignalQuestion | FactQuestion | OperatorQuestion, yes: str, no: str, collect: list[str] | None = None
) -> Node:
    """Names of leaves hold a hyphen or are `open`."""

    def edge(name: str, **more: object) -> Edge:
        return Edge(**({"leaf": name} if name in {"yes-lost", "open"} else {"node": name}), **more)  # type: ignore[arg-type]

    unknown = edge(no, collect=collect, why="whether it was lost") if collect else edge(no)
    return Node(ask="?", question=question, if_yes=edge(yes), if_no=edge(no), if_unknown=unknown)


def view(built: Incident) -> View:
    return View(built, KNOWN)


def timeout(rank: int = 0) -> Incident:
    return incident([signal(TIMEOUT, event(rank=rank))])


def test_the_path_and_what_was_missing_are_remembered() -> None:
    (found,) = walks({"small": tree()}, view(timeout()))
    assert (found.name, found.path) == ("open", ("lost: no", "asked: unknown"))
    assert found.unknown == 0  # only a person could have answered
    built = msgspec.structs.replace(timeout(), files=())
    (blind,) = walks({"small": tree()}, view(built))
    assert blind.unknown == 1
    assert [(each.what, each.how) for each in blind.missing] == [
        ("whether it was lost", "triage collect --only kernel_log")
    ]


def test_a_playbook_starts_on_what_nothing_explains() -> None:
    assert walks({"small": tree()}, view(timeout()))
    assert not walks({"small": tree()}, view(incident([signal(LOST, event())])))
    assert not walks({"small": tree()}, view(explained(timeout())))


def explained(built: Incident) -> Incident:
    """The same with every signal the effect of another."""
    signals = [msgspec.structs.replace(item, effect_of=(0,), rule="some-rule") for item in built.signals]
    return msgspec.structs.replace(built, signals=tuple(signals))


def test_facts_start_a_playbook_too() -> None:
    from triage.model.signature import Condition

    start = Start(all=["torch/timeout", Condition(name="hang.verdict", value="mismatch")])
    fact = Fact(name="hang.verdict", value="mismatch", where=Where(file="x"))
    assert not walks({"small": tree(start_when=start)}, view(timeout()))
    assert walks({"small": tree(start_when=start)}, view(msgspec.structs.replace(timeout(), facts=(fact,))))


@pytest.mark.parametrize(
    "nodes",
    [
        {"lost": node(OperatorQuestion(text=""), "lost", "lost")},
        {
            "lost": node(OperatorQuestion(text=""), "asked", "asked"),
            "asked": node(OperatorQuestion(text=""), "lost", "lost"),
        },
        {"lost": node(OperatorQuestion(text=""), "nowhere", "nowhere")},
        {},
    ],
)
def test_a_tree_that_leads_nowhere_ends(nodes: dict[str, Node]) -> None:
    found = walk(tree(nodes=nodes), lambda _, __: "unknown")
    assert found.name == BROKEN
    assert found.leaf.cause is None
    assert len(found.path) == len(nodes)


def ranked(built: Incident, found: list[Walk]) -> list[Hypothesis]:
    return hypotheses.rank(built, causes(), found)


def test_a_leaf_names_a_cause_and_explains_its_symptoms() -> None:
    built = timeout()
    found = walk(tree(), lambda name, _: "yes" if name == "lost" else "unknown")
    best = ranked(built, [found])[0]
    assert (best.cause, best.playbook, best.path) == ("gpu/fallen-off-bus", "small", ["lost: yes"])
    assert best.explains == ["torch/timeout"]


def test_what_is_explained_by_something_else_is_no_cause_by_a_leaf() -> None:
    built = explained(incident([signal(LOST, event())]))
    assert ranked(built, [walk(tree(), lambda _, __: "yes")]) == []


def test_unanswered_questions_take_nothing_from_a_line_that_proves_its_cause() -> None:
    built = incident([signal(LOST, event(rank=0))])
    alone = ranked(built, [])[0].confidence
    unknown = Walk(
        playbook=tree(),
        name="yes-lost",
        leaf=Leaf(cause="gpu/fallen-off-bus", support="moderate"),
        path=("lost: unknown",) * 3,
        unknown=3,
        missing=(),
    )
    assert ranked(built, [unknown])[0].confidence == alone
    sure = walk(tree(), lambda _, __: "yes")
    assert ranked(built, [sure])[0].confidence > alone


def test_a_tree_that_hands_over_says_what_would_decide() -> None:
    built = msgspec.structs.replace(timeout(), files=())
    best = ranked(built, walks({"small": tree()}, view(built)))[0]
    assert best.cause == "collective/rank-stalled"
    assert best.playbook == "small"
    asked, wanted = best.missing
    assert asked.how == "triage collect --only kernel_log"  # the tree's own question comes first
    assert wanted.what.endswith("(flight recorder)")


def test_conclusions_and_warnings_are_no_events_in_an_order() -> None:
    from triage.model.playbook import OrderQuestion, Selector
    from triage.model.signature import Condition

    question = OrderQuestion(first=Selector(role="root-cause"), before="end")
    derived = signature("collective/derived", facts=[Condition(name="hang.verdict", value="x")])
    warning = signature("pcie/acs", severity="warning")
    assert view(incident([signal(LOST, event())])).answer(question) == "yes"  # without any stamp
    assert view(incident([signal(derived, event())])).answer(question) == "no"
    assert view(incident([signal(warning, event())])).answer(question) == "no"
    assert view(explained(incident([signal(LOST, event())]))).answer(question) == "no"


def test_any_of_several_may_be_the_first() -> None:
    from triage.model.playbook import OrderQuestion, Selector

    question = OrderQuestion(first=Selector(signature="gpu/lost"), before="hang_start", within="300s")
    early, near = signal(LOST, event("a.log", at=1000.0)), signal(LOST, event("b.log", at=4900.0))
    hung = signal(
        signature("torch/timeout", role="symptom", covers=["torch-watchdog-timeout"]),
        event("c.log", at=5600.0, rank=1),
        {"ran_ms": 600000},
    )
    assert view(incident([early, hung])).answer(question) == "no"
    assert view(incident([early, near, hung])).answer(question) == "yes"


def test_each_step_says_where_the_other_answer_would_have_led() -> None:
    built = incident([signal(signature("torch/watchdog-timeout", role="symptom", cause=None), event())])
    found = walk(tree(), lambda _, __: "yes")
    best = ranked(built, [found])[0]
    assert len(best.not_taken) == len(best.path)
    assert all("no -> " in other for other in best.not_taken)
