"""A storm that goes on for many chunks: soon only its ends and what is not part of it are looked at."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.matching.building import Plain, matched, signature
from triage.matching import engines, matcher, scanner
from triage.matching.engines import FAST
from triage.matching.matcher import Matched
from triage.matching.sampling import Sampler
from triage.matching.scanner import Scanner

LOST = signature("gpu/lost", r"card (?P<gpu>\d+) is lost", fields={"gpu": {"type": "int", "entity": "gpu"}})
WAIT = signature("nccl/wait", r"[Ww]aiting for rank (?P<rank>\d+)", fields={"rank": {"type": "int"}})
CHUNK = 40_000
LINES = [f"card {number % 7} is lost, try {number:05d}" for number in range(20_000)]
LINES[9_000] = "Waiting for rank 5"
LINES[12_000:12_250] = ["Waiting for rank 6"] * 250  # more than is read of one signature
TEXT = "\n".join([*LINES, "calm", *(f"step {number} of the next run" for number in range(5_000)), LINES[0]]) + "\n"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything a hundredth of its size. The engine that RE2 stands in for reports no storms."""
    monkeypatch.setattr(engines, "STORM", 300)
    monkeypatch.setattr(scanner, "STORM", 300)
    monkeypatch.setattr(scanner, "_SIEVE", 1_000)
    monkeypatch.setattr(scanner, "_ENDS", 1_000)
    monkeypatch.setattr(scanner, "_FEW", 10)
    monkeypatch.setattr(matcher, "FULL", 100)


def found(threads: int = 1) -> Matched:
    return matched({"a.log": TEXT}, [LOST, WAIT], size=CHUNK, threads=threads)


@pytest.mark.skipif(not FAST, reason="hyperscan is not installed")
def test_the_answer_does_not_depend_on_who_was_left_out_when(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []
    for again in (0, 50_000, 1 << 40):  # at once, after a while, never
        monkeypatch.setattr(scanner, "_AGAIN", again)
        answers += [found(threads) for threads in (1, 2, 5)]
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.skipif(not FAST, reason="hyperscan is not installed")
def test_what_is_not_part_of_the_storm_is_found_in_its_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    without = scanner._Part.without
    monkeypatch.setattr(scanner, "_AGAIN", 50_000)
    monkeypatch.setattr(scanner._Part, "without", lambda self, dull: made.append(len(dull)) or without(self, dull))
    signals = found().signals
    assert made  # the way that is tested was taken
    assert [signal.event.where.line for signal in signals if signal.signature.id == "nccl/wait"][:1] == [9_001]
    lost = [signal.event.where.line for signal in signals if signal.signature.id == "gpu/lost"]
    assert {1, TEXT.count("\n")} <= set(lost)
    assert "further lines that look like gpu/lost" in found().gaps[0].what


@pytest.mark.skipif(not FAST, reason="hyperscan is not installed")
def test_engines_are_made_seldom_however_the_storm_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [signature(f"gpu/kind{number}", rf"kind {number:02d} of trouble") for number in range(40)]
    text = "".join(f"kind {at // 1_500:02d} of trouble\n" for at in range(60_000))
    made = Counter[str]()
    without = scanner._Part.without
    monkeypatch.setattr(scanner, "_AGAIN", 50_000)
    monkeypatch.setattr(scanner._Part, "without", lambda self, dull: made.update(["made"]) or without(self, dull))
    answer = matched({"a.log": text}, kinds, size=CHUNK)
    assert made["made"] <= 6
    assert {signal.signature.id for signal in answer.signals} == {each.id for each in kinds}


def test_ends_of_a_chunk_are_whole_lines() -> None:
    data = "".join(f"{line}\n" for line in LINES[:200]).encode()
    first, last = scanner._inside(data)
    assert 0 < first < last < len(data)
    assert data[first - 1 : first] == data[last - 1 : last] == b"\n"
    assert scanner._inside(b"x" * 9) == (9, 9)
    assert scanner._inside(b"") == (0, 0)
    assert Scanner([LOST]).scan(b"card 1 is lost\n" * 400, None, dull=lambda: frozenset([0]), stormy=True).stormy


def test_of_each_kind_of_mark_a_file_has_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triage.matching.sampling.FILE", 500)
    monkeypatch.setattr(Plain, "MARKS", (("restart", r"try (?P<attempt>\d+)"),))
    read: list[int] = []
    mark = Sampler._mark
    monkeypatch.setattr(
        Sampler, "_mark", lambda self, view, hit, reader: read.append(1) or mark(self, view, hit, reader)
    )
    assert found().marks
    assert len(read) < 900  # without a share it is half as many again


@pytest.mark.skipif(not FAST, reason="hyperscan is not installed")
def test_a_chunk_gives_the_same_with_and_without_an_engine_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [*LINES[:4_000], *["Waiting for rank 6"] * 250, *LINES[4_000:8_000]]
    data = "".join(f"{line}\n" for line in lines).encode()
    answers = []
    for again in (0, 1 << 40):
        monkeypatch.setattr(scanner, "_AGAIN", again)
        answers.append(Scanner([LOST, WAIT]).scan(data, None, lambda number: 5, lambda: frozenset([0]), stormy=True))
    assert answers[0] == answers[1]
    assert answers[0].more[1] == 1
    assert sum(hit.number == 1 for hit in answers[0].hits) == 10
