"""From files to signals: joining, choosing, counting, and the same answer on any machine."""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.matching.building import Plain, catalogue, cut, matched, parser, signature
from triage.errors import BundleError
from triage.matching import matcher as module
from triage.matching.matcher import Matched, cores, match
from triage.model.bundle import Chunk, File, Window
from triage.model.event import Event
from triage.model.lines import Counted

LOST = signature("gpu/lost", r"card (?P<gpu>\d+) is lost", fields={"gpu": {"type": "int", "entity": "gpu"}})


def told(found: Matched) -> list[tuple[str, int | None, int]]:
    return [(signal.signature.id, signal.event.where.line, signal.count) for signal in found.signals]


def test_a_signal_has_fields_entity_and_place() -> None:
    (signal,) = matched({"a.log": "fine\n[rank5] t=12 card 3 is lost\n"}, [LOST]).signals
    assert signal.fields == {"gpu": 3}
    assert signal.entity == {"gpu": 3, "rank": 5}
    assert (signal.event.where.file, signal.event.where.line, signal.last_line) == ("a.log", 2, 2)
    assert signal.event.text == "[rank5] t=12 card 3 is lost"


def test_what_the_path_says_is_the_fallback() -> None:
    file = File(path="r.log", size=9, node="node017", rank=7, local_rank=1)
    found = match([file], lambda file: cut("card 3 is lost\n", file), catalogue(LOST), parser, ["plain"])
    assert found.signals[0].entity == {"gpu": 3, "node": "node017", "rank": 7, "local_rank": 1}


@pytest.mark.parametrize("size", [18, 25, 1000])
def test_a_message_is_joined_over_chunk_borders(size: int) -> None:
    deep = signature("gpu/deep", match=[{"regex": "card died", "message": r"reason (?P<why>\w+)"}], fields={"why": {}})
    text = "head\ncard died\n  more\n  reason heat\nend\n"
    (signal,) = matched({"a.log": text}, [deep], size).signals
    assert signal.fields == {"why": "heat"}


def test_unless_refuses_by_the_message() -> None:
    picky = signature("gpu/picky", match=[{"regex": "card died", "unless": "planned"}])
    text = "card died\n  planned\nother\ncard died\n  in use\n"
    assert told(matched({"a.log": text}, [picky])) == [("gpu/picky", 4, 1)]


def test_repeats_are_counted_and_the_last_is_kept() -> None:
    text = "".join(f"card {number % 2} is lost\nwaiting\n" for number in range(10))
    found = matched({"a.log": text}, [LOST])
    assert told(found) == [("gpu/lost", 1, 5), ("gpu/lost", 3, 5), ("gpu/lost", 17, 1), ("gpu/lost", 19, 1)]
    assert [signal.last_line for signal in found.signals] == [17, 19, 17, 19]


def test_ranks_are_kept_apart_however_many() -> None:
    text = "".join(f"[rank{rank}] card 0 is lost\n" for rank in range(1024))
    assert len(matched({"a.log": text}, [LOST]).signals) == 1024


def test_of_one_rank_only_so_many_are_told_apart() -> None:
    text = "".join(f"card {number} is lost\n" for number in range(200))
    assert len(matched({"a.log": text}, [LOST]).signals) == 50


def test_the_specific_one_wins_on_a_line() -> None:
    general = signature("gpu/general", r"card \d+")
    specific = signature("gpu/specific", r"card \d+ is lost", suppresses=["gpu/general"])
    text = "card 3 is lost\ncard 4 is slow\n"
    assert told(matched({"a.log": text}, [general, specific])) == [("gpu/specific", 1, 1), ("gpu/general", 2, 1)]


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("order", [("Error: x", "  card 3 is lost"), ("card 3 is lost", "  Error: x")])
def test_the_specific_one_wins_in_a_message(order: tuple[str, str], size: int) -> None:
    general = signature("gpu/general", r"Error: \w")
    specific = signature("gpu/specific", r"card \d+ is lost", suppresses=["gpu/general"])
    found = matched({"a.log": "\n".join(order) + "\nError: y\n"}, [general, specific], size)
    assert sorted(signal.event.text for signal in found.signals) == ["Error: y", "card 3 is lost"]


def test_another_rank_is_not_suppressed() -> None:
    general = signature("gpu/general", "Error")
    specific = signature("gpu/specific", "lost", suppresses=["gpu/general"])
    found = matched({"a.log": "[rank0] lost\n[rank1] Error\n"}, [general, specific])
    assert [signal.signature.id for signal in found.signals] == ["gpu/specific", "gpu/general"]


def test_a_suppressor_that_does_not_hold_suppresses_nothing() -> None:
    general = signature("gpu/general", r"card \d+")
    specific = signature("gpu/specific", match=[{"regex": r"card \d+", "message": "heat"}], suppresses=["gpu/general"])
    assert told(matched({"a.log": "card 3\n"}, [general, specific])) == [("gpu/general", 1, 1)]


@pytest.mark.parametrize(("sources", "count"), [("kernel_log", 1), ("training_log", 0), ("", 1)])
def test_weak_ones_need_their_source(sources: str, count: int) -> None:
    weak = signature("gpu/weak", "lost", specificity="weak")
    assert len(matched({"a.log": "lost\n"}, [weak], sources=sources).signals) == count


@pytest.mark.parametrize("source", ["slurm", "training_log", "nccl_log"])
def test_a_job_output_mixes_what_launcher_and_libraries_print(source: str) -> None:
    weak = signature("gpu/weak", "lost", specificity="weak", sources=["torch_log"])
    assert len(matched({"a.log": "lost\n"}, [weak], sources=source).signals) == 1


@pytest.mark.parametrize(
    ("times", "seen"), [([0, 10, 20], True), ([0, 10, 2000], False), ([0, 10], False), ([None] * 3, True)]
)
def test_flaps_count_only_within_their_time(times: list[int | None], seen: bool) -> None:
    flap = signature(
        "network/flap", r"port (?P<port>\d+) down", fields={"port": {"entity": "port"}},
        repeat={"at_least": 3, "within": "10m", "by": "port"},
    )  # fmt: skip
    text = "".join((f"t={time} " if time is not None else "") + "port 1 down\n" for time in times) + "port 2 down\n"
    found = matched({"a.log": text}, [flap])
    assert bool(found.signals) == seen
    assert all(signal.entity == {"port": "1"} for signal in found.signals)


def test_the_answer_is_the_same_for_any_order_and_number_of_threads() -> None:
    lines = [f"step {n}\ncard {n % 3} is lost\n" for n in range(160)]
    texts = {f"rank{rank}.log": "".join(f"[rank{rank}] {line}" for line in lines) for rank in range(9)}
    files = [File(path=name, size=len(text)) for name, text in texts.items()]

    def answer(order: list[File], threads: int, size: int) -> Matched:
        chunks = functools.partial(_chunks, texts, size)
        return match(order, chunks, catalogue(LOST), parser, ["plain"], threads=threads)

    answers = itertools.starmap(answer, itertools.product([files, files[::-1]], [1, 2, 5], [100_000, 1_200]))
    first, *others = answers
    assert all(other == first for other in others)
    assert len(first.signals) == 54


def _chunks(texts: dict[str, str], size: int, file: File) -> Iterator[Chunk]:
    return cut(texts[file.path], file, size)


def test_a_flood_is_read_at_its_ends_only_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FULL", 20)
    monkeypatch.setattr(module, "ENDS", 2)
    text = "".join(f"card {number} is lost\n" for number in range(2_000))
    found = matched({"a.log": text}, [LOST], size=10_000)
    assert len(found.signals) <= 50
    (gap,) = found.gaps
    assert gap.why == "truncated"
    assert "further lines that look like gpu/lost" in gap.what


def test_a_parser_that_fails_costs_one_gap() -> None:
    class Broken(Plain):
        @staticmethod
        def parse(window: Window) -> Event:
            raise RuntimeError("odd line")

    file = File(path="a.log", size=9, sources=("kernel_log",))
    found = match([file], lambda file: cut("card 3 is lost\n", file), catalogue(LOST), lambda _: Broken, ["plain"])
    assert told(found) == [("gpu/lost", 1, 1)]
    assert [gap.why for gap in found.gaps] == ["unparsable"]


def test_a_regex_that_runs_out_of_time_costs_a_gap_and_not_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A team's own signature that lint has not seen: the answer lacks it and says so, and soon asks it no more."""
    for name in ("extract", "readings"):
        monkeypatch.setattr(f"triage.matching.{name}.TIMEOUT", 0.02)
    slow = signature("gpu/slow", r"(?:a|aa)+b is late")
    hard = f"card 3 is lost {'a' * 60}c aab is late\n"
    begin = time.process_time()
    found = matched({"a.log": hard * 300 + "aab is late\n"}, [LOST, slow])
    assert time.process_time() - begin < 5
    assert {signal.signature.id for signal in found.signals} == {"gpu/lost"}
    (gap,) = found.gaps
    assert (gap.what, gap.why) == ("lines that the regex of gpu/slow takes too long to read, line 1", "unparsable")


def test_a_mark_that_runs_out_of_time_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triage.matching.sampling.TIMEOUT", 0.02)
    monkeypatch.setattr(Plain, "MARKS", (("step", r"(?:a|aa)+b step (?P<step>\d+)"),))
    found = matched({"a.log": f"{'a' * 60}c aab step 7\n"}, [LOST])
    assert (tuple(found.marks), len(found.gaps)) == ((), 1)
    assert "plain (step) takes too long" in found.gaps[0].what


def test_a_file_that_breaks_off_costs_one_gap() -> None:
    def broken(file: File) -> Iterator[Chunk]:
        yield Chunk(file=file, data=b"card 3 is lost\n", lines=Counted(1, b"card 3 is lost\n"))
        raise BundleError("the archive ends here")

    found = match([File(path="a.log", size=9)], broken, catalogue(LOST), parser, ["plain"])
    assert told(found) == [("gpu/lost", 1, 1)]
    assert found.gaps[0].file == "a.log"
    assert found.summaries[0].last_line == 1


def test_unknown_sources_and_sources_without_lines_are_read_plainly() -> None:
    def some(source: str) -> Any:
        if source == "unknown":
            raise ImportError(source)
        return parser(source)

    odd = signature("gpu/odd", "lost", sources=["unknown", "documents"])
    found = match([File(path="a.log", size=5)], lambda file: cut("lost\n", file), catalogue(odd), some, ["plain"])
    assert (found.signals[0].event.text, found.signals[0].event.source) == ("lost", "unknown")


def test_binary_files_are_left_alone() -> None:
    found = match([File(path="a", size=5, text=False)], lambda _: iter(()), catalogue(LOST), parser, ["plain"])
    assert found == Matched(signals=(), marks=(), gaps=(), summaries=())


def test_marks_have_typed_fields() -> None:
    found = matched({"a.log": "world size 8\n[rank1] step 7\n"}, [LOST])
    assert [(mark.kind, mark.fields, mark.event.rank) for mark in found.marks] == [
        ("start", {"world_size": 8}, None), ("step", {"step": 7}, 1),
    ]  # fmt: skip


def test_marks_of_a_long_file_are_sampled_with_the_first_and_last_of_each_rank() -> None:
    lines = [f"[rank{number % 8}] step {number // 8}" for number in range(40_000)]
    lines.insert(20_000, "[rank9] step 5")
    found = matched({"a.log": "\n".join(lines)}, [LOST], size=200_000)
    assert 1_000 < len(found.marks) < 12_000
    for rank in range(8):
        steps = [mark.fields["step"] for mark in found.marks if mark.event.rank == rank]
        assert (steps[0], steps[-1]) == (0, 4_999)
    assert [mark.fields["step"] for mark in found.marks if mark.event.rank == 9] == [5]


@pytest.mark.parametrize("size", [28, 1000])
def test_summaries(size: int) -> None:
    found = matched({"a.log": "\nt=5 first\nmiddle\nt=9 last\nbye\n\n", "b.log": ""}, [LOST], size)
    one, other = found.summaries
    assert (one.file, one.lines, one.last_line, one.last_text) == ("a.log", 6, 5, "bye")
    assert one.first is not None and one.first.seconds == 5
    assert one.last is not None and one.last.seconds == 9
    assert (other.file, other.lines, other.last_line) == ("b.log", None, None)


def test_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_CORES", "3")
    assert cores() == 3
    monkeypatch.setenv("TRIAGE_CORES", "many")
    assert cores() >= 1


@pytest.mark.parametrize("size", ["9" * 400 + " GiB", "9" * 308 + " TiB"])
def test_a_size_beyond_floats_is_no_match(size: str) -> None:
    tried = signature("memory/tried", r"Tried to allocate (?P<size>\S+ \w+)", fields={"size": {"type": "bytes"}})
    assert matched({"a.log": f"Tried to allocate {size}\n"}, [tried]).signals == ()
    assert len(matched({"a.log": "Tried to allocate 2 GiB\n"}, [tried]).signals) == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes are not bound to processors here")
def test_threads_are_as_many_as_processors_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIAGE_CORES", raising=False)
    every = os.sched_getaffinity(0)
    assert module.cores() == len(every)
    os.sched_setaffinity(0, {min(every)})
    try:
        assert module.cores() == 1
    finally:
        os.sched_setaffinity(0, every)
    monkeypatch.setenv("TRIAGE_CORES", "5")
    assert module.cores() == 5
