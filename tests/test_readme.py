"""The README shows what the program really prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from triage.cli import cli

README = Path(__file__).parents[1] / "README.md"
CHINESE = README.with_name("README.zh.md")
BLOCK = re.compile(r"(<!-- transcript -->\n).*?(<!-- /transcript -->)", re.DOTALL)


@pytest.mark.parametrize(
    ("page", "words"), [(README, "triage explain --demo"), (CHINESE, "triage explain --demo --lang zh")]
)
def test_the_transcript_is_what_the_demo_prints(page: Path, words: str, request: pytest.FixtureRequest) -> None:
    answer = CliRunner().invoke(cli, words.split()[1:], standalone_mode=False)
    assert answer.exception is None
    shown = f"```console\n$ {words}\n{answer.output}```\n"
    text = page.read_text(encoding="utf-8")
    now = BLOCK.sub(lambda found: found[1] + shown + found[2], text)
    if request.config.getoption("--update-golden"):
        page.write_text(now, encoding="utf-8")
    assert now == page.read_text(encoding="utf-8"), "`make golden` brings the README up to date"


def commands(page: Path) -> set[str]:
    """Command lines of a page, without what is said of them."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = (line.partition("  #")[0].rstrip() for block in blocks for line in block.splitlines())
    return {line for line in lines if line.startswith("triage ")}


def test_the_chinese_page_keeps_up() -> None:
    assert commands(README) - commands(CHINESE) == set()
    english, chinese = (page.read_text(encoding="utf-8").count("\n|") for page in (README, CHINESE))
    assert english == chinese, "rows of tables"


def test_the_test_command_is_what_ci_runs() -> None:
    command = "python3 -m venv .venv && .venv/bin/pip install -q --no-compile -e '.[dev]' && make check"
    assert command in README.read_text(encoding="utf-8")
    assert command in README.with_name(".ci").joinpath("run").read_text(encoding="utf-8")
