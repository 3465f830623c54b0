"""Pages of the signatures: complete, linked, and nothing of a log is taken for Markdown."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from click.testing import CliRunner

from triage.cli.signature import command
from triage.matching.loading import catalogue
from triage.report.pages import index, page, path_of

LINK = re.compile(r"\]\(((?:\.\./|\w)[^)]*\.md)\)")


def test_every_signature_stands_in_the_index_and_every_link_leads_to_a_page() -> None:
    known = {path_of(name) for name in catalogue()}
    text = index(catalogue().values())
    assert set(LINK.findall(text)) == known
    for name, signature in catalogue().items():
        folder = posixpath.dirname(path_of(name))
        links = {posixpath.normpath(posixpath.join(folder, link)) for link in LINK.findall(page(signature))}
        assert links <= known, name


def test_a_page_tells_everything() -> None:
    text = page(catalogue()["gpu/xid-79-fallen-off-bus"])
    for part in ("RESTART_BM", "confused with", "Lines that match", "Lines that do not", "because:", "(disruptive)"):
        assert part in text
    assert "\n\n\n" not in text.replace("```\n\n\n", "")


def test_fences_are_closed_whatever_an_example_holds() -> None:
    for name, signature in catalogue().items():
        fences = re.findall(r"^(`{3,})(text)?$", page(signature), re.MULTILINE)
        opened = [fence for fence, word in fences if word]
        assert len(fences) == 2 * len(opened), name


def test_the_command_writes_them(tmp_path: Path) -> None:
    names = ["gpu/xid-79-fallen-off-bus", "torch/watchdog-timeout"]
    result = CliRunner().invoke(command, ["docs", "--out", str(tmp_path), *names], standalone_mode=False)
    assert result.exception is None
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")} == {
        "index.md", *(f"{name}.md" for name in names)
    }  # fmt: skip
