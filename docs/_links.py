"""Links between pages that lead nowhere."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

_FENCE = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)[^`].*?(?<!`)\1(?!`)")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def broken(pages: Mapping[str, str]) -> list[str]:
    """`page: link` for each link within the site whose page or heading is not there."""
    heads: dict[str, set[str]] = {}
    return [f"{page}: {link}" for page, text in pages.items() for link in _faults(page, text, pages, heads)]


def _faults(page: str, text: str, pages: Mapping[str, str], heads: dict[str, set[str]]) -> Iterator[str]:
    if not page.endswith(".md"):
        return
    for link in _links(text):
        path, _, anchor = link.partition("#")
        aimed = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        if aimed not in pages or (anchor and anchor not in heads.setdefault(aimed, anchors(pages[aimed]))):
            yield link


def _links(text: str) -> Iterator[str]:
    """Links of a page that stay on the site; a link's own text may be code, what stands within code is no link."""
    shown = _CODE.sub(lambda found: "x" if "](" in found[0] else found[0], _FENCE.sub("", text))
    for found in _LINK.finditer(shown):
        if not re.match(r"[a-z]+:", found[1]):
            yield found[1]


def anchors(text: str) -> set[str]:
    """Anchors of a page's headings, as the site makes them."""
    heads = re.findall(r"^#{1,6} (.+)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head.lower())).strip("-") for head in heads}
