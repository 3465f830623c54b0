"""Evidence recorded from our own reproductions: explained again, it names what was planted and gives its script."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from triage import explain
from triage.cli.repro import command

LOOP = sorted(Path(__file__).parents[2].joinpath("fixtures/closed_loop").iterdir())


@pytest.mark.parametrize("folder", LOOP, ids=lambda path: path.name)
def test_the_first_hypothesis_is_what_was_planted(folder: Path) -> None:
    truth = yaml.safe_load((folder / "truth.yaml").read_text())
    best = explain(folder / "evidence").hypotheses[0]
    assert best.cause == truth["cause"]
    if "rank" in truth:
        ranks = {each.rank for each in best.culprits if each.rank is not None}
        assert ranks == {truth["rank"]} or (truth.get("either") and ranks == {0, 1})


@pytest.mark.parametrize("folder", LOOP, ids=lambda path: path.name)
def test_the_loop_closes(folder: Path) -> None:
    """From the evidence the same reproduction is made again, with the planted rank in it."""
    truth = yaml.safe_load((folder / "truth.yaml").read_text())
    done = CliRunner().invoke(command, [str(folder / "evidence"), "--dry-run"])
    assert done.exit_code == 0, done.exception
    assert f"Template: `{truth['template']}`" in done.output or truth["template"] == "missing-call"
    if "rank" in truth and not truth.get("either"):
        assert f"CULPRIT = {truth['rank']} " in done.output
