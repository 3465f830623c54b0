"""Languages: complete where they must be, English where they are not."""

from __future__ import annotations

import string

import pytest
from report.building import report

from triage.errors import UsageError
from triage.report import language
from triage.report.columns import columns, wrapped
from triage.report.phrases import PHRASES
from triage.report.render import md, text


@pytest.mark.parametrize("tag", language.languages())
def test_translations_are_complete(tag: str) -> None:
    assert language.faults(tag) == []


@pytest.mark.parametrize("tag", ["zh", "zh-CN", "zh_CN.UTF-8", "ZH"])
def test_tags_of_chinese(tag: str) -> None:
    assert language.words(tag).tag == "zh"


@pytest.mark.parametrize("tag", [None, "", "en", "en_US.UTF-8", "C", "C.UTF-8", "POSIX"])
def test_everything_else_is_english(tag: str | None) -> None:
    assert language.words(tag).tag == "en"


@pytest.mark.parametrize("tag", ["xx", "../../etc", "zh/../en"])
def test_an_unknown_language_is_refused(tag: str) -> None:
    if language.re.split(r"[-_.@]", tag)[0] not in {"zh", ""}:
        with pytest.raises(UsageError, match="zh"):
            language.words(tag)


def test_phrases_have_named_slots_only() -> None:
    for phrase in PHRASES.values():
        names = [name for _, name, _, _ in string.Formatter().parse(phrase) if name is not None]
        assert all(name.isidentifier() for name in names)


def test_the_answer_in_chinese() -> None:
    told = text.render(report(), words=language.words("zh"))
    assert told.startswith("已确诊：GPU 从 PCIe 总线上掉线（gpu/fallen-off-bus，置信度 0.90）")
    assert "1. 排空节点并断电重启（热重启后卡常常仍不出现）[会中断服务]".replace("）[", "） [") in told.replace(
        "\n          ", ""
    )
    assert "Drain it [会中断服务]" in text.render(report(), 1, words=language.words("zh"))  # not translated: English
    assert "已确诊" in md.render(report(), words=language.words("zh"))


def test_wide_characters_take_two_columns() -> None:
    lines = wrapped("处理      ", "该卡在 PCIe 上不再应答，" * 10, 40)
    assert len(lines) > 3
    assert all(columns(line) <= 41 for line in lines)  # a closing mark may hang over
    assert all(not line.strip().startswith("，") for line in lines)


def test_a_command_is_never_broken() -> None:
    command = "nvidia-smi --query-gpu=index,clocks.sm --format=csv -l 5"
    assert wrapped("Confirm   ", "-> the slow one", 40, command) == [
        f"Confirm   {command}",
        " " * 10 + "-> the slow one",
    ]
    assert wrapped("Not seen  ", "clocks of the slow GPU", 70, last=f"-> {command}") == [
        "Not seen  clocks of the slow GPU",
        f"{' ' * 10}-> {command}",
    ]
    assert all(columns(line) <= 40 for line in wrapped("Not seen  ", "clocks", 40, last=f"-> {command}"))
    assert wrapped("Confirm   ", "-> the slow one", 90, command) == [f"Confirm   {command} -> the slow one"]


def test_the_lint_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PHRASES, "new.phrase", "{what} is new")
    assert "i18n/zh.yaml: wording new.phrase is untranslated" in language.faults("zh")
