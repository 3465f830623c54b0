"""The README shows what the program really prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from triage.cli import cli

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"(<!-- transcript -->\n).*?(<!-- /transcript -->)", re.DOTALL)


def test_the_transcript_is_what_the_demo_prints(request: pytest.FixtureRequest) -> None:
    answer = CliRunner().invoke(cli, ["explain", "--demo"], standalone_mode=False)
    assert answer.exception is None
    shown = f"```console\n$ triage explain --demo\n{answer.output}```\n"
    text = README.read_text(encoding="utf-8")
    now = BLOCK.sub(lambda found: found[1] + shown + found[2], text)
    if request.config.getoption("--update-golden"):
        README.write_text(now, encoding="utf-8")
    assert now == README.read_text(encoding="utf-8"), "`make golden` brings the README up to date"


def test_the_test_command_is_what_ci_runs() -> None:
    command = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]' && make check"
    assert command in README.read_text(encoding="utf-8")
    assert command in README.with_name(".ci").joinpath("run").read_text(encoding="utf-8")
