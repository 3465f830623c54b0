"""The terminal answer: plain when piped, more on a terminal."""

from __future__ import annotations

import msgspec
from report.building import pictures, report, row

from triage.report import terminal
from triage.report.render import md, text
from triage.report.terminal import Style


def test_plain_has_no_sequences() -> None:
    told = text.render(report("\x1b]8;;http://evil\x1b\\click\x07"), verbose=1, pictures=pictures())
    assert "\x1b" not in told and "\x07" not in told


def test_colour_and_links_only_when_asked() -> None:
    style = Style(colour=True, link=lambda file: f"file:///logs/{file}", charts=True)
    told = text.render(report(), style=style, pictures=pictures())
    assert told.startswith("\x1b[1;31mDiagnosed")
    assert "\x1b]8;;file:///logs/a.log\x1b\\a.log:1\x1b]8;;\x1b\\" in told


def test_the_strip_of_ranks_shows_the_slow_one() -> None:
    told = text.render(report(), style=Style(charts=True), pictures=pictures())
    strip = next(line for line in told.splitlines() if line.startswith("Ranks"))
    blocks = strip.split()[1]
    assert len(blocks) == 8 and blocks[3] == "█" and "█" not in blocks[:3] + blocks[4:]


def test_sparklines() -> None:
    assert terminal.sparkline([1, 2, 3, 8], 10) == "▁▂▃█"
    assert terminal.sparkline([5, 5, 5], 10) == "▁▁▁"
    assert len(terminal.sparkline(list(range(1000)), 40)) <= 40
    assert terminal.sparkline([], 10) == ""


def test_long_lines_keep_to_the_width() -> None:
    told = text.render(report("word " * 500, timeline=[row(0.0, "word " * 500)]), verbose=1, width=80)
    assert max(map(len, told.splitlines())) <= 80


def test_how_to_provoke_it_again() -> None:
    best = msgspec.structs.replace(report().hypotheses[0], repro="rank-stalled")
    other = msgspec.structs.replace(best, cause="code/exception", confidence=0.4)
    both = report(hypotheses=[best, other])
    assert "triage repro" not in text.render(both)
    told = text.render(both, verbose=1)
    assert "Reproduce triage repro EVIDENCE -o repro/  (rank-stalled)" in told
    assert "Reproduce: triage repro EVIDENCE --cause code/exception -o repro/" in told
    assert "triage repro" not in text.render(report(), verbose=1)
    written = md.render(both)
    assert "`triage repro EVIDENCE -o repro/`" in written
    assert "`triage repro EVIDENCE --cause code/exception -o repro/`" in written


def test_a_file_name_paints_no_screen() -> None:
    best = msgspec.structs.replace(report().hypotheses[0], repro="rank-stalled")
    told = text.render(report(hypotheses=[best]), verbose=1, style=Style(evidence="'\x1b[2Ja.log'"))
    assert "\x1b" not in told and "a.log' -o repro/" in told
