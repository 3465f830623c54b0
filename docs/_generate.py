"""The documentation as it is published: hand-written pages, the reference made from code and YAML, and manual pages.

python docs/_generate.py site OUT     Markdown and zensical.toml, from which `zensical build` makes the site
python docs/_generate.py man OUT      roff, a page a command
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import _commands
import _content
import _links
import _man

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs"
# pages of the repository's root and where they stand on the site
ROOT_PAGES = {
    "README.md": "index.md", "README.zh.md": "zh.md", "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md", "benchmarks/RESULTS.md": "figures.md",
}  # fmt: skip
TASKS = ("explain", "collect", "report", "record", "repro", "check", "compare", "history", "lookup", "playbooks", "signatures", "mcp")  # fmt: skip  # noqa: E501
REFERENCE = (
    ("Commands", "reference/commands/index.md"), ("Exit codes", "reference/exit-codes.md"),
    ("Signatures", "reference/signatures/index.md"), ("Causes", "reference/causes/index.md"),
    ("Playbooks", "reference/playbooks/index.md"), ("Evidence", "reference/evidence/index.md"),
    ("Collectors", "reference/collectors.md"), ("JSON Schemas", "reference/schemas/index.md"),
    ("Verified wordings", "reference/verified.md"),
)  # fmt: skip
ABOUT = ("contributing.md", "security.md", "changelog.md", "figures.md", "zh.md")
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?\)")


def site() -> Iterator[tuple[str, str]]:
    """Every page of the site: its path below the site, and its text."""
    yield from _written()
    yield from _commands.command_pages()
    yield _commands.exit_code_page()
    yield _commands.collector_page(ROOT / "collectors")
    yield from _commands.schema_pages()
    yield from _content.signature_pages()
    yield from _content.cause_pages()
    yield from _content.playbook_pages()
    yield from _content.evidence_pages()
    yield _content.verified_page()


def _written() -> Iterator[tuple[str, str]]:
    for name, page in ROOT_PAGES.items():
        yield page, moved((ROOT / name).read_text(encoding="utf-8"), name, page)
    for path in sorted((ROOT / DOCS).glob("[a-z]*.md")):
        yield path.name, moved(path.read_text(encoding="utf-8"), f"{DOCS}/{path.name}", path.name)


def moved(text: str, source: str, page: str) -> str:
    """Links of a page of the repository, as they are on the site. The folder of the docs is the list of how-tos."""

    def one(found: re.Match[str]) -> str:
        if "://" in found[2] or found[2].startswith("mailto:"):
            return found[0]
        aimed = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[2]))
        there = ROOT_PAGES.get(aimed) or ("tasks.md" if aimed == DOCS else aimed.removeprefix(f"{DOCS}/"))
        return f"{found[1]}{posixpath.relpath(there, posixpath.dirname(page) or '.')}{found[3] or ''})"

    return _LINK.sub(one, text)


def tasks(pages: dict[str, str]) -> str:
    """The list of how-tos, those that nobody has put into an order last."""
    others = sorted(name.removesuffix(".md") for name in pages if "/" not in name and name not in _named())
    names = [*(name for name in TASKS if f"{name}.md" in pages), *(name for name in others if name not in TASKS)]
    return "# How to\n\n" + "".join(f"- [{_title(pages[f'{name}.md'])}]({name}.md)\n" for name in names)


def _named() -> set[str]:
    return {*ROOT_PAGES.values(), "tour.md", "versions.md", "tasks.md"}


def _title(text: str) -> str:
    return next(line[2:] for line in text.splitlines() if line.startswith("# "))


def settings(pages: dict[str, str]) -> str:
    """zensical.toml. No font of another host, no address of ours: the site is read from a disk as well."""
    how = list(re.findall(r"\]\(([^)]+)\)", pages["tasks.md"]))
    nav = ['  {"Start" = "index.md"}', '  {"A tour" = "tour.md"}', _group("How to", ["tasks.md", *how])]
    rows = ", ".join(f'{{"{title}" = "{page}"}}' for title, page in REFERENCE)
    nav += [f'  {{"Reference" = [{rows}]}}', '  {"Versions" = "versions.md"}', _group("About", list(ABOUT))]
    return (
        '[project]\nsite_name = "triage"\nsite_description = "Why did the GPU training job fail?"\n'
        'docs_dir = "pages"\nsite_dir = "site"\nuse_directory_urls = false\n'
        "nav = [\n" + ",\n".join(nav) + "\n]\n"
        '[project.theme]\nfont = false\nfeatures = ["navigation.top", "search.highlight", "content.code.copy"]\n'
    )


def _group(title: str, pages: list[str]) -> str:
    return f'  {{"{title}" = [' + ", ".join(f'"{page}"' for page in pages) + "]}"


def whole() -> dict[str, str]:
    """All pages with the list of how-tos."""
    pages = dict(site())
    return pages | {"tasks.md": tasks(pages)}


def write_site(out: Path) -> int:
    """Write all pages below OUT/pages, and OUT/zensical.toml. What lay there before goes. The number of pages."""
    pages = whole()
    if faults := _links.broken(pages):
        raise SystemExit("\n".join(["links that lead nowhere:", *faults]))
    shutil.rmtree(out / "pages", ignore_errors=True)
    for name, text in pages.items():
        path = out / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (out / "zensical.toml").write_text(settings(pages), encoding="utf-8")
    return len(pages)


def write_man(out: Path) -> int:
    """Write the manual pages into OUT/man1. The number of pages."""
    folder = out / "man1"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages = dict(_man.man_pages())
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return len(pages)


if __name__ == "__main__":
    kinds = {"site": write_site, "man": write_man}
    if len(sys.argv) != 3 or sys.argv[1] not in kinds:
        sys.exit(f"usage: {sys.argv[0]} site|man OUT")
    sys.stdout.write(f"{kinds[sys.argv[1]](Path(sys.argv[2]))} pages in {sys.argv[2]}\n")
