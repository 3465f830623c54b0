"""The post-mortem: whole incidents against golden files, and that each sentence names a place that exists."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from report.building import pictures, report, row, span

from triage.errors import ContentError
from triage.model.pictures import Pictures
from triage.model.postmortem import PostMortem, Source
from triage.model.report import Cited, Hypothesis, Report
from triage.pipeline import illustrate
from triage.report.documents import document
from triage.report.language import ENGLISH
from triage.report.postmortem import compose

ROOT = Path(__file__).parents[2] / "fixtures/incidents"
INCIDENTS = ("stuck-rank", "gpu-off-the-bus")
_cache: dict[str, tuple[Report, Pictures]] = {}


def understood(name: str) -> tuple[Report, Pictures]:
    if name not in _cache:
        _cache[name] = illustrate([str(ROOT / name / "evidence")])
    return _cache[name]


@pytest.mark.parametrize("name", INCIDENTS)
def test_golden(name: str, request: pytest.FixtureRequest) -> None:
    answer = document(*understood(name), "md")
    golden = Path(__file__).with_name("golden") / f"{name}.md"
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(answer, encoding="utf-8")
    assert answer == golden.read_text(encoding="utf-8"), "look at the difference, then `make golden`"


@pytest.mark.parametrize("name", INCIDENTS)
def test_every_citation_exists(name: str) -> None:
    post = compose(*understood(name))
    places = [source for claim in _claims(post) for source in claim.sources]
    assert places
    for source in [*places, *(Source(file=each.file, line=each.line) for each in post.appendix)]:
        path = ROOT / name / "evidence" / source.file
        assert path.is_file(), source
        if source.line is not None:
            assert 1 <= source.line <= path.read_bytes().count(b"\n") + 1, source


@pytest.mark.parametrize("name", INCIDENTS)
def test_every_sentence_about_the_cause_has_a_place(name: str) -> None:
    post = compose(*understood(name))
    told = [*post.summary, *post.root_cause, *post.factors, *post.ruled_out]
    assert len(post.summary) == 3
    assert [claim.text for claim in told if not claim.sources] == []


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_lines_around_are_those_of_the_file(name: str) -> None:
    for exhibit in compose(*understood(name)).appendix:
        lines = (ROOT / name / "evidence" / exhibit.file).read_bytes().decode("utf-8", "replace").split("\n")
        assert all(line.strip() == lines[number - 1].strip()[: len(line)] for number, line in exhibit.context)


def test_cost_is_ranks_times_the_time_since_the_last_progress() -> None:
    impact = compose(report(), Pictures(span=span(lost=1800.0, ranks=8))).impact
    assert (impact.ranks, impact.since, impact.lost_s, impact.gpu_hours) == (8, "last progress", 1800.0, 4.0)


def test_what_is_unknown_is_said_and_not_zero() -> None:
    impact = compose(report()).impact
    assert (impact.lost_s, impact.gpu_hours, impact.since) == (None, None, None)
    assert "cannot be computed" in impact.claims[0].text


def test_a_straggler_costs_its_share_of_the_run() -> None:
    slow = msgspec.structs.replace(span(lost=0.0), slowed=0.5)
    best = msgspec.structs.replace(report().hypotheses[0], cause="performance/straggler")
    impact = compose(report(hypotheses=[best]), Pictures(span=slow)).impact
    assert (impact.since, impact.lost_s, impact.gpu_hours) == ("start", 1800.0, 4.0)


def test_healthy_costs_nothing() -> None:
    post = compose(report(verdict="healthy", hypotheses=[]), Pictures(span=span()))
    assert (post.impact.gpu_hours, post.actions, post.root_cause) == (0.0, [], [])


def test_lesser_hypotheses_are_ruled_out_with_their_reason() -> None:
    other = Hypothesis(
        cause="code/exception", title="Exception", confidence=0.4, against=["it came later"],
        evidence=[Cited(file="b.log", line=7, text="x")],
    )  # fmt: skip
    told = compose(report(hypotheses=[*report().hypotheses, other])).ruled_out
    assert ("it came later" in told[0].text, told[0].sources) == (True, [Source(file="b.log", line=7)])


def test_owners_are_left_blank() -> None:
    assert {(task.owner, task.due) for task in compose(report()).actions} == {("", "")}


def test_the_reproduction_is_the_last_action() -> None:
    best = msgspec.structs.replace(report().hypotheses[0], repro="rank-stalled")
    told = compose(report(hypotheses=[best])).actions
    assert "triage repro EVIDENCE -o repro/" in told[-1].do and "(rank-stalled)" in told[-1].do
    assert "triage repro" not in " ".join(task.do for task in compose(report()).actions)
    assert "triage repro EVIDENCE -o repro/" in document(report(hypotheses=[best]), pictures(), "html")


def test_json_is_the_contract_with_the_post_mortem_inside() -> None:
    told = msgspec.json.decode(document(report(), pictures(), "json"), type=Report)
    assert isinstance(told.postmortem, PostMortem)
    plain = msgspec.json.encode(report())
    assert b"postmortem" not in plain


def test_markdown_escapes_what_evidence_says() -> None:
    hostile = "](http://x) <b>bold</b> `code` |cell| # head"
    told = document(report(hostile), pictures(), "md")
    assert not re.search(r"(?<!\\)\]\(http", told.replace("`](http", ""))
    assert "<b>" not in re.sub(r"`[^`]*`", "", told)


def test_a_team_has_its_own_template(tmp_path: Path) -> None:
    own = tmp_path / "ours.md.j2"
    own.write_text("{{ post.title }}|{{ report.hypotheses[0].evidence[0].text }}|{{ post.impact.gpu_hours }}")
    told = document(report("*bold*"), pictures(), "md", ENGLISH, own)
    assert told.endswith("|\\*bold\\*|8.0")


@pytest.mark.parametrize(
    "attack",
    [
        "{{ post.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ words.__init__.__globals__ }}",
        "{{ report.hypotheses.clear() }}",
        "{% for each in range(999999999) %}{% endfor %}",
        "{% include '/etc/passwd' %}",
        "{% include '../../../../etc/passwd' %}",
        "{{ nothing.here }}",
        "{% if %}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
    ],
)
@pytest.mark.parametrize("form", ["md", "html"])
def test_a_template_stays_in_its_box(attack: str, form: str, tmp_path: Path) -> None:
    own = tmp_path / f"bad.{form}.j2"
    own.write_text("\n" + attack)
    with pytest.raises(ContentError, match=rf"bad\.{form}\.j2:\d+: ") as told:
        document(report(), pictures(), form, ENGLISH, own)
    assert "\n" not in str(told.value)


def test_rows_of_one_line_are_one_row() -> None:
    told = document(report(timeline=[row(0.0), row(0.0, role="consequence")]), pictures(), "md")
    assert told.count("| `a.log:1` |") == 1


def _claims(post: PostMortem) -> list:  # type: ignore[type-arg]
    return [
        *post.summary, *post.impact.claims, *post.root_cause, *post.ruled_out, *post.factors, *post.unseen,
    ]  # fmt: skip
