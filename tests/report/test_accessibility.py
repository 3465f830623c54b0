"""The page for everyone: axe-core finds no serious fault in either theme, and keys and pointers do what they say.

Chromium runs under Playwright, with Debian's binary; axe-core comes with axe-playwright-python (both for tests alone).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from report.building import pictures, report, row
from report.test_charts import mapped
from report.test_page import CHROMIUM, HOSTILE, browser

from triage.model.event import Where
from triage.model.pictures import Blocker, Memory, Pictures, Waiting
from triage.report import templating
from triage.report.documents import document
from triage.report.language import words

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AT = Where(file="a.log", line=1)
GIB = 1 << 30


def everything() -> str:
    """Every part that a page can have."""
    runs = f"a{GIB}@0,i{GIB},m{GIB}/5,u{GIB // 2},p{GIB // 2}@1"
    told = mapped(
        f"100 {4 * GIB} {runs}", f"900000 {GIB} f{GIB}", map_left=3, map_left_bytes=5,
        map_holders=[f"{GIB} 3 train.py:9 main", f"{GIB // 2} 1 loss.py:2 f"],
    )  # fmt: skip
    memory = Memory(
        gpu="GPU 0", where=AT, reserved=9 * GIB, allocated=3 * GIB, cached_free=GIB, split_waste=2 * GIB, rounding=0,
        largest_free=GIB, asked=4 * GIB, map=told,
    )  # fmt: skip
    drawn = msgspec.structs.replace(
        pictures(), memory=(memory,), blockers=(Blocker(rank=3, kind="never-arrived", why="it sleeps", where=AT),),
        waiting=(Waiting(op="all_reduce", seq="7", group="0", ranks=(0, 1, 2), where=AT),),
    )  # fmt: skip
    roles = ["root-cause", "symptom", "consequence"] * 5
    rows = [row(float(each), "boom", role, each + 1) for each, role in enumerate(roles)]
    best = msgspec.structs.replace(report().hypotheses[0], repro="rank-stalled")
    return document(report(timeline=rows, hypotheses=[best]), drawn, "html")


PAGES = {
    "everything": everything,
    "healthy": lambda: document(report(verdict="healthy", hypotheses=[], timeline=[]), Pictures(), "html"),
    "suspected in Chinese": lambda: document(report(verdict="suspected"), pictures(), "html", words("zh")),
    "hostile": lambda: document(report(HOSTILE, timeline=[row(0.0, HOSTILE, node=HOSTILE)] * 2), pictures(), "html"),
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
    with api.sync_playwright() as running:
        started = running.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture
def tab(chromium: Browser) -> Iterator[Page]:
    """A tab in which nothing may complain, and from which nothing may be fetched."""
    page = chromium.new_page(viewport={"width": 1000, "height": 900})
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda each: None if each.url.startswith(("file:", "data:")) else told.append(each.url))
    yield page
    page.close()
    assert told == []


def show(tab: Page, page: str, folder: Path) -> None:
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    tab.goto(path.as_uri())


def faults(tab: Page, **options: Any) -> list[tuple[str, str, str]]:
    """Rule, element and explanation of what axe calls serious or critical."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra dev)").Axe()
    found = axe.run(tab, options={"resultTypes": ["violations"], **options}).response
    assert found["passes"]  # it looked
    return [
        (fault["id"], node["html"][:200], node["failureSummary"])
        for fault in found["violations"]
        if fault["impact"] in {"serious", "critical"}
        for node in fault["nodes"][:3]
    ]


@browser
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_serious_fault(name: str, tab: Page, tmp_path: Path) -> None:
    show(tab, PAGES[name](), tmp_path)
    tab.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert faults(tab) == []
    tab.emulate_media(color_scheme="dark")
    assert faults(tab, runOnly=["color-contrast"]) == []


@browser
def test_axe_finds_a_fault_that_is_there(tab: Page, tmp_path: Path) -> None:
    broken = everything().replace('<label for="search">', "<label>").replace(' lang="en"', "")
    show(tab, broken, tmp_path)
    assert {rule for rule, _, _ in faults(tab)} >= {"label", "html-has-lang"}


@browser
def test_holders_light_up_their_blocks(tab: Page, tmp_path: Path) -> None:
    show(tab, everything(), tmp_path)
    told = tab.locator(".map-told")
    help_ = told.inner_text()
    tab.locator(".holders button").nth(1).focus()
    assert told.inner_text() == "512 MiB, 1 × loss.py:2 f"
    assert tab.evaluate("[...document.querySelectorAll('.block.on')].map((each) => each.dataset.holder)") == ["1"]
    tab.keyboard.press("Enter")
    tab.locator("#search").focus()
    assert told.inner_text().startswith("512 MiB")  # chosen: it stays
    tab.locator(".holders button").nth(1).click()
    tab.locator("#search").hover()
    tab.locator("#search").focus()
    assert told.inner_text() == help_
    tab.locator("path.block.active").hover()
    assert told.inner_text() == "in use: 1.00 GiB, 3 × train.py:9 main"


@browser
def test_the_keyboard_reaches_everything_in_the_order_of_the_page(tab: Page, tmp_path: Path) -> None:
    show(tab, everything(), tmp_path)
    seen: list[tuple[float, str]] = []
    for _ in range(60):
        tab.keyboard.press("Tab")
        where = "(each) => [each.getBoundingClientRect().top + scrollY, each.id || each.tagName]"
        seen.append(tuple(tab.evaluate(f"({where})(document.activeElement)")))
        if seen[-1][1] == "BODY":
            break
    names = [name for _, name in seen]
    assert seen[-1][1] == "BODY" and {"theme", "heat", "search", "SUMMARY", "BUTTON"} <= set(names)
    tops = [top for top, name in seen[1:-1]]  # the first is the link past it all, which is shown on focus only
    assert all(after >= before - 40 for before, after in pairwise(tops))


@browser
def test_without_script_it_is_all_text(chromium: Browser, tmp_path: Path) -> None:
    plain = chromium.new_page(java_script_enabled=False)
    show(plain, everything(), tmp_path)
    told = plain.locator("main").inner_text()
    plain.close()
    for text in ("1.00 GiB, 3 × train.py:9 main", "3 smaller segments", "Rank 3 holds the others up", "rank-stalled"):
        assert text in told
    assert "Search the evidence" not in told  # what needs the script is not there


COLOUR = re.compile(r"--([a-z-]+):(#[0-9a-f]{3,6})")
TEXTS = [
    ("fg", "bg"), ("fg", "card"), ("fg", "gray-bg"), ("fg", "orange-bg"), ("soft", "bg"), ("soft", "card"),
    ("soft", "orange-bg"), ("red", "bg"), ("red", "red-bg"), ("orange", "orange-bg"), ("blue", "bg"), ("blue", "card"),
    ("green", "green-bg"), ("fg", "red-bg"),
]  # fmt: skip


def themes() -> list[dict[str, str]]:
    css = (templating.OWN / "page.css").read_text()
    rows = [dict(COLOUR.findall(line)) for line in css.splitlines() if "--fg:" in line]
    assert len(rows) == 3 and rows[1] == rows[2]  # the system's dark theme is the one of the button
    return rows[:2]


def light_of(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * each for each in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("text", "ground"), TEXTS)
def test_texts_stand_out_in_both_themes(text: str, ground: str) -> None:
    """Of texts in pictures too, at which axe does not look: 4.5 to 1 (WCAG 2, AA)."""
    for theme in themes():
        dark, light = sorted((light_of(theme[text]), light_of(theme[ground])))
        assert (light + 0.05) / (dark + 0.05) >= 4.5
