"""The catalogue that is kept in the cache is the one that its files hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from triage.errors import ContentError
from triage.matching.loading import catalogue, fingerprint

OWN = """\
id: host/own
title: Our own message
means: Something of ours.
layer: host
role: symptom
severity: error
sources: [torch_log]
match:
  - regex: 'our own message'
examples:
  matches: [{text: our own message}]
  does_not_match: [{text: another message, why: it is another}]
"""


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TRIAGE_CONTENT", str(tmp_path / "content"))
    monkeypatch.delenv("TRIAGE_CACHE", raising=False)
    (tmp_path / "content" / "signatures" / "host").mkdir(parents=True)
    catalogue.cache_clear()
    yield tmp_path
    catalogue.cache_clear()


def write(folder: Path, text: str) -> None:
    (folder / "content" / "signatures" / "host" / "own.yaml").write_text(text)
    catalogue.cache_clear()


def test_what_was_stored_equals_what_was_read(folders: Path) -> None:
    read = catalogue()
    assert list((folders / "cache" / "triage").iterdir())
    catalogue.cache_clear()
    assert catalogue() == read


def test_a_changed_file_is_seen_at_once(folders: Path) -> None:
    before = fingerprint("catalogue")
    assert "host/own" not in catalogue()
    write(folders, OWN)
    assert fingerprint("catalogue") != before
    assert catalogue()["host/own"].title == "Our own message"
    write(folders, OWN.replace("Our own message", "Ours"))
    assert catalogue()["host/own"].title == "Ours"


def test_faults_are_told_although_an_older_state_is_stored(folders: Path) -> None:
    catalogue()
    write(folders, OWN.replace("severity: error", "severity: grave"))
    with pytest.raises(ContentError, match="grave"):
        catalogue()


@pytest.mark.parametrize("damage", [b"", b"x" * 100])
def test_damage_is_noticed(folders: Path, damage: bytes) -> None:
    read = catalogue()
    for path in (folders / "cache" / "triage").iterdir():
        path.write_bytes(damage)
    catalogue.cache_clear()
    assert catalogue() == read
