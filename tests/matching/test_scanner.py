"""Scanning: the right lines, the same from both engines, bounded whatever comes."""

from __future__ import annotations

import random

import pytest

from tests.matching.building import signature
from triage.errors import ContentError
from triage.matching import scanner as module
from triage.matching.engines import STORM, Hyperscan, Re2, best, sound
from triage.matching.extract import compiled, fields
from triage.matching.loading import catalogue
from triage.matching.scanner import STRIDE, Marker, Scanner

LOST = signature("gpu/lost", r"card (?P<gpu>\d+) is lost")
WAIT = signature("nccl/wait", r"(?i)waiting[^\n]{0,40}? for rank (?P<rank>\d+)")
BOTH = (Hyperscan, Re2)


def places(scan: Scanner, data: bytes) -> list[tuple[int, int, int]]:
    return [(hit.start, hit.end, hit.number) for hit in scan.scan(data).hits]


@pytest.mark.parametrize("engine", BOTH)
def test_lines_and_numbers(engine: type) -> None:
    scan = Scanner([LOST, WAIT], [Marker("plain", "start", "world size")], engine)
    data = b"card 12345 is lost\nnothing\nWaiting for rank 7 while card 2 is lost\nworld size 8"
    assert places(scan, data) == [(0, 18, 0), (27, 66, 0), (27, 66, 1), (67, 79, 2)]
    assert places(scan, b"") == []


@pytest.mark.parametrize("engine", BOTH)
def test_a_match_across_lines_is_none_once_extracted(engine: type) -> None:
    odd = signature("gpu/odd", r"card\s+lost")
    hits = Scanner([odd], (), engine).scan(b"card\nlost\ncard lost\n").hits
    lines = [b"card\nlost\ncard lost\n"[hit.start : hit.end].decode() for hit in hits]
    assert [line for line in lines if fields(odd, line, line) is not None] == ["card lost"]


def test_a_faulty_build_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(best([]), Hyperscan if sound() else Re2)
    monkeypatch.setattr("triage.matching.engines.sound", lambda: False)
    assert isinstance(best([]), Re2)


def test_frequent_marks_are_kept_apart() -> None:
    scan = Scanner([LOST], [Marker("plain", "step", r"step \d+")])
    data = b"".join(b"step %d\n" % number for number in range(200_000)) + b"card 1 is lost\n"
    assert len(scan.scan(data).hits) == 1
    assert len(scan.scan_often(data).hits) == 200_000
    assert 2 <= len(scan.scan_often(data, STRIDE).hits) <= 10


@pytest.mark.parametrize("engine", BOTH)
def test_first_and_last_are_kept_of_too_many(engine: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 10)
    data = b"".join(b"card %d is lost\n" % number for number in range(100)) + b"Waiting for rank 3\n"
    found = Scanner([LOST, WAIT], (), engine).scan(data)
    kept = [int(data[hit.start : hit.end].split()[1]) for hit in found.hits if hit.number == 0]
    assert kept == [*range(10), *range(90, 100)]
    assert found.more == {0: 80}
    assert [hit.number for hit in found.hits].count(1) == 1


def test_a_storm_keeps_the_same_lines_and_misses_nothing_else() -> None:
    lines = [b"card %d is lost" % number for number in range(STORM * 2)]
    lines[STORM] = b"waiting for rank 5"
    data = b"\n".join(lines) + b"\n"
    fast, slow = Scanner([LOST, WAIT], (), Hyperscan).scan(data), Scanner([LOST, WAIT], (), Re2).scan(data)
    assert [hit[:3] for hit in fast.hits] == [hit[:3] for hit in slow.hits]
    assert sum(hit.number == 1 for hit in fast.hits) == 1
    assert 0 < fast.more[0] <= slow.more[0]


def test_a_line_without_end_that_matches_everywhere() -> None:
    data = b"card 1 is lost " * 100_000
    assert [hit[:3] for hit in Scanner([LOST]).scan(data).hits] == [(0, len(data), 0)]


def test_refused_regexes_are_content_errors() -> None:
    with pytest.raises(ContentError, match="refuses"):
        Scanner([signature("gpu/bad", r"x*")], (), Hyperscan).scan(b"x")
    with pytest.raises(ContentError, match="refuses"):
        Scanner([signature("gpu/bad", r"x(")], (), Re2)


@pytest.mark.parametrize("engine", BOTH)
def test_look_around_goes_in_as_a_prefilter(engine: type) -> None:
    odd = signature("gpu/odd", match=[{"regex": r"card \d+(?! is fine)", "prefilter": "look-ahead"}])
    assert places(Scanner([odd], (), engine), b"card 1 is lost\nno\n") == [(0, 14, 0)]


@pytest.mark.skipif(not sound(), reason="this build of hyperscan skips matches")
@pytest.mark.long
def test_both_engines_agree_on_the_catalogue() -> None:
    """All examples of both polarities among noise."""
    signatures = [each for each in catalogue().values() if each.match]
    examples = [
        example.text for each in signatures for example in (*each.examples.matches, *each.examples.does_not_match)
    ]
    chance = random.Random(7)
    noise = [f"step {number} loss 2.{number} rank {number % 8} GPU {number % 8} error 0" for number in range(500)]
    mixed = [line for example in examples for line in [chance.choice(noise), *example.splitlines()]]
    fast, slow = Scanner(signatures, (), Hyperscan), Scanner(signatures, (), Re2)
    data = "\n".join(mixed).encode()
    assert _confirmed(fast, data) == _confirmed(slow, data)


def _confirmed(scan: Scanner, data: bytes) -> list[tuple[int, str]]:
    out = []
    for hit in scan.scan(data).hits:
        line, each = data[hit.start : hit.end].decode(), scan.signatures[hit.number]
        if any(compiled(pattern.regex).search(line) for pattern in each.match):
            out.append((hit.start, each.id))
    return sorted(out)
