"""Texts of the content in other languages: never stale, never of something else, English where there is none."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from report.building import report

from triage.cli.playbook import command as playbook
from triage.model.playbook import Playbook
from triage.model.signature import Signature
from triage.reasoning import doubt
from triage.reasoning.loading import causes, playbooks
from triage.report import language, translations
from triage.report.phrases import PHRASES
from triage.report.render import text

ZH = language.folder() / "zh"
XID = "gpu/xid-79-fallen-off-bus"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A language's folder with one signature, whose digest is right."""
    record = translations.english("signatures", XID)
    assert record is not None
    (tmp_path / "signatures").mkdir()
    path = tmp_path / "signatures/gpu.yaml"
    path.write_text(f"xid-79-fallen-off-bus:\n  of: {translations.digest(record)}\n  title: T\n  actions: [A, B]\n")
    yield tmp_path
    translations._tree.cache_clear()


def test_texts_of_a_signature() -> None:
    record = translations.english("signatures", XID)
    assert isinstance(record, Signature)
    found = translations.texts(record)
    assert found["title"] == record.title
    assert found["actions.1"] == record.actions[1].do
    assert record.next_check is not None
    assert found["tells"] == record.next_check.tells


def test_texts_of_a_playbook_hold_all_that_a_person_reads() -> None:
    for name, tree in playbooks().items():
        record = translations.english("playbooks", name)
        assert isinstance(record, Playbook)
        found = set(translations.texts(record).values())
        assert {node.ask for node in tree.nodes.values()} | {tree.title, tree.look_first} <= found
        assert {each.do for leaf in tree.leaves.values() for each in leaf.actions} <= found
        assert {leaf.next_check.tells for leaf in tree.leaves.values() if leaf.next_check} <= found


def test_a_translation_by_text(folder: Path) -> None:
    record = translations.english("signatures", XID)
    assert isinstance(record, Signature)
    found = translations.told(folder, "signatures", XID)
    assert found == {record.title: "T", record.actions[0].do: "A", record.actions[1].do: "B"}
    assert translations.told(folder, "signatures", "gpu/none") == {}
    assert list(translations.faults(folder, "signatures")) == []
    assert "means is untranslated" in translations.missing(folder, "signatures")[XID]


def test_english_that_has_changed_is_shown_in_english(folder: Path) -> None:
    path = folder / "signatures/gpu.yaml"
    path.write_text(path.read_text().replace("of: ", "of: x"))
    translations._tree.cache_clear()
    assert translations.told(folder, "signatures", XID) == {}
    said = translations.missing(folder, "signatures")[XID]
    assert len(said) == 1
    assert said[0].startswith("the English has changed")


def test_what_makes_no_sense_is_a_fault(folder: Path) -> None:
    path = folder / "signatures/gpu.yaml"
    record = translations.english("causes", "gpu/fallen-off-bus")
    assert record is not None
    path.write_text(path.read_text() + "  colour: red\nno-such-one: {of: x, title: T}\n")
    (folder / "causes.yaml").write_text(f"gpu/fallen-off-bus: {{of: {translations.digest(record)}, tells: ein}}\n")
    translations._tree.cache_clear()
    assert set(translations.faults(folder, "signatures")) == {
        f"signatures {XID}: no text colour",
        "signatures gpu/no-such-one: no such id",
    }
    assert list(translations.faults(folder, "causes")) == [
        "causes gpu/fallen-off-bus: tells must have the places ['`rev ff`']"
    ]


@pytest.mark.parametrize("tag", language.languages())
def test_shares_of_what_is_translated(tag: str) -> None:
    found = language.shares(tag)
    assert found["causes"] == (len(causes()), len(causes()))
    few_of = dict.fromkeys(translations.TABLES, 9) | {"playbooks": 5, "signatures": 45}
    for kind, few in few_of.items():  # what is new may wait for its translation
        done, every = found[kind]
        assert done >= every - few, "`triage signature lint --lang` lists what is missing"


def test_a_report_tells_actions_of_signatures_and_leaves() -> None:
    found = report()
    best = found.hypotheses[0]
    leaf = playbooks()["gpu-lost"].leaves["off-the-bus"]
    import msgspec

    best = msgspec.structs.replace(best, playbook="gpu-lost", actions=leaf.actions, next_check=leaf.next_check)
    found = msgspec.structs.replace(found, hypotheses=[best])
    words = language.words("zh")
    plain, told = (text.render(found, 1, words=each) for each in (words, words.about(found)))
    assert "Drain the node, save the kernel log" in plain
    assert "Drain the node" not in told
    assert "排空节点，保存内核日志" in told
    assert "rev ff 即可确认" in told


def test_english_knows_nothing() -> None:
    assert language.ENGLISH.about(report()) is language.ENGLISH
    assert language.ENGLISH.asks("gpu-lost") == {}


def run(*words: str, keys: str = "") -> str:
    result = CliRunner().invoke(playbook, list(words), input=keys, standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.output


def test_playbooks_in_chinese() -> None:
    for name in playbooks():
        told = run("show", name, "--lang", "zh")
        record = translations.english("playbooks", name)
        assert record is not None
        if translations.by_key(ZH, "playbooks", name):
            english = [each for each in translations.texts(record).values() if each in told]
            assert english == [], name
        assert f"triage playbook walk {name}" in told
    assert run("show", "gpu-lost") == run("show", "gpu-lost", "--lang", "en")
    assert run("show", "gpu-lost", "--format", "json", "--lang", "zh").isascii()


def test_a_walk_in_chinese_takes_the_same_answers() -> None:
    told = run("walk", "gpu-lost", "--lang", "zh", keys="no\nyes\nno\n")
    assert "GPU 从 PCIe 总线上掉线" in told
    assert "Path: bus-first: no; off-bus: yes; power-first: no" in told


def test_sentences_of_reasoning_are_found_by_their_form() -> None:
    words = language.words("zh")
    made = "It does not explain gpu/xid-79 (gpu/fallen-off-bus) at nodes/a (1)/dmesg.txt:7"
    assert words.text(made) == "它不能解释 nodes/a (1)/dmesg.txt:7 处的 gpu/xid-79（gpu/fallen-off-bus）"
    assert words.text("Training went on: 12 steps are logged after it in a.log").endswith("还记录了 12 步")
    assert words.text("the kernel log of the nodes around that time") == "那段时间各节点的内核日志"
    assert words.text("Something else") == "Something else"
    assert language.ENGLISH.text(made) == made
    assert words.text("Training went on: " + "x" * 100_000) == "Training went on: " + "x" * 100_000


def test_their_forms_are_those_that_reasoning_uses() -> None:
    source = inspect.getsource(doubt)
    for key, phrase in PHRASES.items():
        if key.startswith("sentence."):
            parts = re.split(r"{\w+}", phrase)
            assert all(part in source for part in parts), key
