"""What the terminal gets beside the text, and what is said of earlier incidents."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.cli import _history, _output


def test_links_lead_to_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/rank 0.log").write_text("x")
    (tmp_path / "secret").write_text("x")
    url = _output._links(tmp_path / "logs")
    assert url is not None
    assert url("rank 0.log") == (tmp_path / "logs/rank 0.log").as_uri()
    assert url("absent.log") is None


def test_links_of_a_single_file(tmp_path: Path) -> None:
    path = tmp_path / "slurm.out"
    path.write_text("x")
    url = _output._links(path)
    assert url is not None and url("slurm.out") == path.as_uri()
    assert url("member/of/an/archive") is None
    assert _output._links(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("name", "value", "colour"), [("TERM", "dumb", False), ("NO_COLOR", "1", False), ("X", "", True)]
)
def test_colour(name: str, value: str, colour: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(name, value)
    assert _output.style(["-"]).colour is colour


def test_what_is_said_of_earlier_incidents() -> None:
    row = {"id": "3fa1" * 16, "seen": 1.8e9, "node": "node017", "gpu": None, "cause": "x", "note": None, "held": None}
    assert _history._told([row]).startswith(
        "Seen before: once on node017, last on 2027-01-15 (triage history show 3fa13fa1)"
    )
    noted = row | {"note": "swapped the riser", "held": "no"}
    assert _history._told([row, noted]).endswith("; done then: swapped the riser, which did not hold")
