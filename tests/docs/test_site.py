"""The published documentation: every command, parser, playbook, cause and signature has its page, no link is broken."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
sys.path.append(str(DOCS))  # a program of the checkout, not of the package

import _commands  # noqa: E402
import _generate  # noqa: E402
import _links  # noqa: E402
import _man  # noqa: E402
import _text  # noqa: E402

from triage.cli import cli  # noqa: E402
from triage.matching.loading import catalogue  # noqa: E402
from triage.reasoning import loading  # noqa: E402
from triage.vocabulary import LAYERS, sources  # noqa: E402


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return _generate.whole()


@pytest.fixture(scope="module")
def manual() -> dict[str, str]:
    return dict(_man.man_pages())


def names() -> list[str]:
    return [one.path for one in _commands.commands()]


def test_everything_has_its_page(pages: dict[str, str]) -> None:
    wanted = {f"reference/commands/{name}.md" for name in names() if " " not in name}
    wanted |= {f"reference/evidence/{name}.md" for name in sources()}
    wanted |= {f"reference/playbooks/{name}.md" for name in loading.playbooks()}
    wanted |= {f"reference/causes/{name}.md" for name in loading.causes()}
    wanted |= {f"reference/signatures/{name}.md" for name in catalogue()}
    wanted |= {f"reference/signatures/{layer}/index.md" for layer in LAYERS}
    wanted |= {f"{name}.md" for name in ("tour", "versions", "security", "contributing", "zh", *_generate.TASKS)}
    assert sorted(wanted - set(pages)) == []
    assert set(cli.list_commands(_commands.top())) == {name for name in names() if " " not in name}


def test_no_link_leads_nowhere(pages: dict[str, str]) -> None:
    assert _links.broken(pages) == []
    links = [link for page, text in pages.items() for link in _links._links(text)]
    assert len(links) > 5000, "the links are seen"


def test_broken_links_are_seen() -> None:
    pages = {
        "index.md": "# One\n[a](b/c.md#there-is) [b](b/none.md) [c](#one) [d](#two) `[e](none.md)` [`f`](x.md)\n",
        "b/c.md": "# C\n## There is!\n[up](../index.md) [out](https://x.y/none.md)\n```\n[in code](none.md)\n```\n",
    }
    assert _links.broken(pages) == ["index.md: b/none.md", "index.md: #two", "index.md: x.md"]


def test_commands_are_told_in_full(pages: dict[str, str]) -> None:
    for one in _commands.commands():
        text = pages[f"reference/commands/{one.path.split()[0]}.md"]
        assert one.usage in text
        for spelling, _ in one.options:
            assert f"`{spelling}`" in text, one.path
        assert one.examples, f"triage {one.path} has no example"
        assert all(line in text for line in one.examples.splitlines())


def test_playbooks_are_told_in_full(pages: dict[str, str]) -> None:
    for name, tree in loading.playbooks().items():
        text = pages[f"reference/playbooks/{name}.md"]
        assert len(re.findall(r"^## Question \d+$", text, re.M)) == len(tree.nodes)
        assert len(re.findall(r"^## End \w+$", text, re.M)) == len(tree.leaves)
        assert all(_text.plain(node.ask) in text for node in tree.nodes.values())
        assert all(_text.plain(each.do) in text for leaf in tree.leaves.values() for each in leaf.actions)


def test_exit_codes_are_those_of_the_code(pages: dict[str, str]) -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", pages["reference/exit-codes.md"], re.M)}
    assert told == {0, 1, 2, 3, 4, 6, 10, 11, 12, 20, 21, 22, 23, 130, 141}


def test_texts_are_no_markup() -> None:
    assert _text.plain("a|b *c* <d> `e|f`\n[g]") == "a&#124;b &#42;c&#42; &#60;d&#62; `e|f` &#91;g&#93;"
    assert _text.block("```\nx\n```")[1] == "````text"


def test_settings_name_pages_that_are_there(pages: dict[str, str]) -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has none")
    found = tomllib.loads(_generate.settings(pages))["project"]
    named = re.findall(r"'([\w/.-]+\.md)'", str(found["nav"]))
    assert set(named) <= set(pages)
    assert {"index.md", "tour.md", "versions.md", "explain.md", "check.md"} <= set(named)
    assert found["theme"]["font"] is False, "a font of another host"


def test_what_was_there_before_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_generate, "whole", lambda: {"index.md": "# A\n", "tasks.md": "# B\n"})
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/old.md").write_text("old")
    assert _generate.write_site(tmp_path) == 2
    assert sorted(path.name for path in (tmp_path / "pages").iterdir()) == ["index.md", "tasks.md"]
    monkeypatch.setattr(_generate, "whole", lambda: {"index.md": "[a](none.md)\n", "tasks.md": "# B\n"})
    with pytest.raises(SystemExit, match=r"index\.md: none\.md"):
        _generate.write_site(tmp_path)


# ---- manual pages ----


def test_every_command_has_a_manual_page(manual: dict[str, str]) -> None:
    assert set(manual) == {"triage.1", *(f"triage-{name.replace(' ', '-')}.1" for name in names())}
    for name, text in manual.items():
        assert text.startswith(".TH "), name
        assert ".SH EXAMPLES" in text, name
    assert all(f"triage\\-{name}(1)" in manual["triage.1"] for name in names() if " " not in name)


def test_words_that_roff_would_take_for_its_own() -> None:
    assert _man.text(".so /etc/passwd") == "\\&.so /etc/passwd"
    assert _man.text("a\\b 'c' --d") == "a\\eb \\(aqc\\(aq \\-\\-d"
    assert _man._line(".x") == "\\&.x"


def test_roff_is_valid(manual: dict[str, str], tmp_path: Path) -> None:
    if not (groff := shutil.which("groff")):
        pytest.skip("groff is not installed")
    for name, text in manual.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    paths = sorted(tmp_path.glob("*.1"))
    done = subprocess.run([groff, "-ww", "-z", "-man", *paths], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    shown = subprocess.run(
        [groff, "-Tascii", "-man", tmp_path / "triage-explain.1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert "kubectl logs trainer-0 | triage explain -" in re.sub(r"\x1b\[\d*m|.\x08", "", shown)
