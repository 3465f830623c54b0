"""YAML becomes typed records; every fault of a file is found at once and says its line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from triage import content
from triage.errors import ContentError


class Part(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    count: int = 0


class Whole(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    parts: list[Part] = []
    table: dict[str, Part] = {}
    words: dict[str, str] = {}


def loaded(tmp_path: Path, text: str) -> Whole:
    (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
    return content.load(tmp_path / "x.yaml", Whole)


def faults(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ContentError) as error:
        loaded(tmp_path, text)
    assert error.value.exit_code == 2
    return [fault.removeprefix(f"{tmp_path / 'x.yaml'}:") for fault in error.value.faults]


def test_scalars_stay_text_until_a_type_asks(tmp_path: Path) -> None:
    text = "{version: 550.10, on: off, yes: 0777, date: 2026-08-01, big: 1_000, empty: '', tilde: '~'}\n"
    assert loaded(tmp_path, f"id: no\nwords: {text}").words == {
        "version": "550.10", "on": "off", "yes": "0777", "date": "2026-08-01",
        "big": "1_000", "empty": "", "tilde": "~",
    }  # fmt: skip
    assert loaded(tmp_path, "id: x\nparts: [{name: 12, count: 3}]").parts == [Part("12", 3)]


def test_key_that_yaml_takes_for_a_boolean(tmp_path: Path) -> None:
    assert loaded(tmp_path, "id: x\nwords:\n  on: always\n  n: m\n").words == {"on": "always", "n": "m"}


def test_duplicate_keys(tmp_path: Path) -> None:
    assert faults(tmp_path, "id: x\nwords:\n  a: b\n  c: d\n  a: e\nid: y\n") == [
        "5: key 'a' stands twice", "6: key 'id' stands twice",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["a: " + "[" * 900 + "]" * 900, "{a: " * 300 + "}" * 300, "- " * 600])
def test_deep_nesting_is_one_fault(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    (fault,) = content.read(path).faults
    assert "x.yaml:1: " in fault
    assert "deep" in fault or "nest" in fault


def test_aliases_are_refused(tmp_path: Path) -> None:
    found = faults(tmp_path, "id: x\nparts:\n  - &one {name: a}\n  - *one\n")
    assert any("aliases are not allowed" in fault for fault in found)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("id: x\nnmae: y\n", 1),
        ("id: x\nparts:\n  - name: a\n  - name: b\n    cuont: 3\n", 4),
        ("id: x\nparts:\n  - name: a\n    count: many\n", 4),
        ("parts: []\n", 1),
        ("id: [x]\n", 1),
        ("", 1),
        ("- x\n", 1),
        ("id: x\nwords: {a: b\n", 3),
        ("id: 'x\n", 2),
        ("id: x\n\tparts: []\n", 2),
    ],
)
def test_fault_names_its_line(tmp_path: Path, text: str, line: int) -> None:
    found = faults(tmp_path, text)
    assert [int(fault.split(":")[0]) for fault in found] == [line]


def test_unknown_field_is_named(tmp_path: Path) -> None:
    assert "nmae" in faults(tmp_path, "id: x\nnmae: y\n")[0]


def test_nearest_name() -> None:
    assert content.nearest("kernel_lgo", ["kernel_log", "slurm"]) == " (did you mean kernel_log?)"
    assert content.nearest("zebra", ("kernel_log", "slurm")) == ""


def test_faults_of_all_files_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "things/deep").mkdir(parents=True)
    (tmp_path / "things/a.yaml").write_text("id: x\nid: y\n")
    (tmp_path / "things/b.yaml").write_text("id: good\n")
    (tmp_path / "things/deep/c.yaml").write_text("parts: x\n")
    monkeypatch.setenv("TRIAGE_CONTENT", str(tmp_path))
    with pytest.raises(ContentError) as error:
        list(content.load_all("things", Whole))
    assert [Path(fault.split(":")[0]).name for fault in error.value.faults] == ["a.yaml", "c.yaml"]


def test_content_of_a_team_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "things").mkdir()
    (tmp_path / "things/a.yaml").write_text("id: ours\n")
    monkeypatch.setenv("TRIAGE_CONTENT", str(tmp_path))
    assert [record.id for _, record in content.load_all("things", Whole)] == ["ours"]


def test_digest_is_stable_and_moves_with_content(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = content.digest()
    assert before == content.digest()
    (tmp_path / "signatures").mkdir()
    (tmp_path / "signatures/a.yaml").write_text("id: ours\n")
    monkeypatch.setenv("TRIAGE_CONTENT", str(tmp_path))
    assert content.digest() != before
