"""The page: self-contained, harmless whatever the evidence says, and alive in a real browser."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from report.building import pictures, report, row
from report.test_charts import mapped

from triage.model.event import Where
from triage.model.pictures import Memory
from triage.model.report import Report
from triage.pipeline import illustrate
from triage.report.charts.memory import MAPS
from triage.report.documents import document
from triage.report.language import words

CHROMIUM = Path("/usr/bin/chromium")
HOSTILE = (
    "<script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
    "</style></pre>\"'><svg onload=alert(1)> {{ 7*7 }} \x1b[31m\u202eevil\u2066 &lt;b&gt; </script>"
)


class Page(HTMLParser):
    """Tags, attributes and the texts of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inner: dict[str, list[str]] = {"script": [], "style": []}
        self.within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.within = tag if tag in self.inner else ""

    def handle_endtag(self, tag: str) -> None:
        self.within = ""

    def handle_data(self, data: str) -> None:
        if self.within:
            self.inner[self.within].append(data)


def made(told: Report | None = None, ranks: int = 8, steps: int = 16) -> str:
    return document(told or report(), pictures(ranks, steps), "html")


def policy(page: Page) -> str:
    found = [attrs for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    return str(found[0]["content"])


def test_the_policy_lets_only_our_script_and_style_run() -> None:
    page = Page(made())
    told = policy(page)
    assert told.startswith("default-src 'none'; ")
    for kind in ("script", "style"):
        assert len(page.inner[kind]) == 1
        digest = base64.b64encode(hashlib.sha256(page.inner[kind][0].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in told
    assert "unsafe" not in told


def test_nothing_points_outside() -> None:
    for tag, attrs in Page(made()).tags:
        for name in ("src", "href", "action", "data", "poster", "srcset", "formaction", "xlink:href"):
            assert (attrs.get(name) or "#").startswith(("#", "data:image/png;base64,")), (tag, name)
        assert "style" not in attrs  # the policy would refuse it
        assert not [name for name in attrs if name.startswith("on")]


def test_evidence_is_text() -> None:
    calm, hostile = Page(made(report("x"))), Page(made(report(HOSTILE, timeline=[row(0.0, HOSTILE, node=HOSTILE)] * 2)))
    assert {tag for tag, _ in hostile.tags} <= {tag for tag, _ in calm.tags}
    assert hostile.inner == calm.inner
    told = made(report(HOSTILE))
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", told)
    assert "{{ 7*7 }}" in told  # shown, not evaluated


def test_a_page_for_a_thousand_ranks_is_small() -> None:
    rows = [row(float(at), "NCCL WARN " + "x" * 300, "symptom", at + 1, node=f"node{at:03d}") for at in range(200)]
    assert len(made(report(ranks=1024, timeline=rows), 1024, 512).encode()) < 2_000_000


@pytest.mark.long
def test_full_maps_of_memory_beside_a_thousand_ranks_are_small() -> None:
    runs = ",".join(f"{'ai'[at % 2]}{1 << 20}@{at % 24}" for at in range(133))
    holders = [f"{1 << 30} 9 /a/long/path/to/a/module/of/the/training/code/layer_{at}.py:7 forward" for at in range(24)]
    full = mapped(*[f"{at:x} {133 << 20} {runs}" for at in range(192)], map_holders=holders)
    one = Memory(
        gpu="GPU 0", where=Where(file="s"), reserved=1 << 36, allocated=1, cached_free=1, split_waste=1, rounding=0,
        map=full,
    )  # fmt: skip
    drawn = msgspec.structs.replace(pictures(1024, 512), memory=(one,) * MAPS)
    assert len(document(report(ranks=1024), drawn, "html").encode()) < 2_000_000


def test_it_reads_without_script() -> None:
    told = re.sub(r"<script>.*?</script>|<style>.*?</style>", "", made(), flags=re.S)
    for text in ("GPU fell off the PCIe bus", "node01, rank 3, GPU 3", "Drain it", "a.log:1", "GPU-hours"):
        assert text in told


def test_a_page_in_chinese_says_so() -> None:
    told = document(report(), pictures(), "html", words("zh_CN.UTF-8"))
    assert '<html lang="zh-CN">' in told and "已确诊" in told


@pytest.fixture(scope="module")
def hostile_evidence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    lines = [
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "/src/train.py", line 3, in <module>',
        f"[rank0]: RuntimeError: {HOSTILE * (10_000_000 // len(HOSTILE))}",  # cited, and ten megabytes long
        "x " * 5_000_000,
    ]
    (folder / "rank0.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_hostile_lines_from_end_to_end(hostile_evidence: Path) -> None:
    told, drawn = illustrate([str(hostile_evidence)])
    assert told.hypotheses and "<script>" in told.hypotheses[0].evidence[0].text
    page = document(told, drawn, "html")
    assert len(page) < 200_000
    assert len(Page(page).inner["script"]) == 1


def browse(page: str, fragment: str = "") -> tuple[str, str]:
    """The page's text after its script ran, and what the browser logged."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(page, encoding="utf-8")
        done = subprocess.run(
            [
                CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-component-update",
                "--disable-background-networking", "--disable-sync", f"--user-data-dir={folder}/profile",
                "--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom", f"{path.as_uri()}{fragment}",
            ],
            capture_output=True, text=True, timeout=60, check=True, env=os.environ | {"HOME": folder},
        )  # fmt: skip
    return done.stdout, done.stderr


browser = pytest.mark.skipif(not CHROMIUM.exists(), reason="no /usr/bin/chromium (Debian: apt-get install chromium)")


@browser
def test_the_page_lives_in_a_browser() -> None:
    dom, log = browse(made(report(HOSTILE)), "#q=nowhere-to-be-found")
    assert 'data-ready="yes"' in dom  # the heat map was read
    assert "0 shown" in dom  # the search ran
    assert "<title>Diagnosed" in dom
    assert not re.search(r"CONSOLE|Refused|violates", log)


@browser
def test_hostile_evidence_does_nothing_in_a_browser(hostile_evidence: Path) -> None:
    dom, log = browse(document(*illustrate([str(hostile_evidence)]), "html"), "#q=traceback")
    assert "<title>pwned" not in dom
    assert {tag for tag, _ in Page(dom).tags} <= {tag for tag, _ in Page(made()).tags}
    assert not re.search(r"CONSOLE|Refused|violates", log)


def test_chromium_is_there_or_the_skip_says_why() -> None:
    assert CHROMIUM.exists() or shutil.which("chromium") is None
