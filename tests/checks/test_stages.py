"""The stages on made-up and on recorded measurements: no GPU and no torch is needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from triage.checks import expected, judging, listing, stages
from triage.checks.children import Ended, Job
from triage.checks.stages import Plan, first_host, place
from triage.errors import UsageError
from triage.model.check import Outcome, Raw

H200 = Path(__file__).resolve().parents[2] / "fixtures/checks/h200"
RECORDED = [msgspec.json.decode(line, type=Raw) for line in (H200 / "measured.jsonl").read_bytes().splitlines()]


def runner(
    cards: int = 1, change: Callable[[int, Raw], Raw | None] = lambda index, raw: raw, **more: Ended
) -> stages.Run:
    """Plays the recorded card as often as wanted; `change` sees each line; `more` answers jobs of other modes."""

    def lines(index: int) -> list[Raw]:
        told = [msgspec.structs.replace(raw, on=f"gpu {index}") for raw in RECORDED if raw.name != "gpu"]
        return [row for raw in told if (row := change(index, raw)) is not None]

    def run(jobs: Sequence[Job], folder: Path, limit: float) -> list[Ended]:
        assert folder.is_dir()
        assert 0 < limit < 3600
        return [one(job) for job in jobs]

    def one(job: Job) -> Ended:
        if job.words[1] == "look":
            gpus = [msgspec.structs.replace(RECORDED[0], on=f"gpu {index}") for index in range(cards)]
            return more.get("look", Ended(job.name, gpus))
        if job.words[1] == "measure":
            return Ended(job.name, lines(int(job.words[3])))
        if job.words[1] in more:
            return more[job.words[1]]
        pairs = [(a, b) for a in range(cards) for b in range(cards) if a != b]
        if job.visible:
            pairs = [(a, b) for a, b in pairs if max(a, b) < len(job.visible.split(","))]
        copies = [Raw(name="copy", on=f"gpu {a} > gpu {b}", value=380.0, unit="GB/s") for a, b in pairs]
        return Ended(job.name, copies if job.words[1] == "pairs" else [])

    return run


def states(outcome: Outcome) -> list[str]:
    return [stage.state for stage in outcome.stages]


def failures(outcome: Outcome) -> set[tuple[str, str]]:
    found = [figure for stage in outcome.stages for figure in stage.figures]
    return {(figure.on, figure.name) for figure in found if figure.state == "failed"}


def test_the_recorded_card_prints_what_it_printed() -> None:
    outcome = stages.check(Plan(last="gpu"), runner())
    told = re.sub(r"\(\d+ s\)", "(21 s)", listing.table(outcome)).replace(f"{outcome.node}:", "vm:", 1)
    assert told == (H200 / "table.txt").read_text()
    assert outcome.state == "passed"


def test_a_wrong_product_fails_the_first_stage_and_nothing_follows() -> None:
    def spoil(index: int, raw: Raw) -> Raw:
        bad = index == 1 and raw.name == "matrix product"
        return msgspec.structs.replace(raw, ok=False, value=1.0) if bad else raw

    outcome = stages.check(Plan(), runner(4, spoil))
    assert states(outcome) == ["failed", "not run", "not run"]
    assert failures(outcome) == {("gpu 1", "matrix product")}
    assert "failed at stage gpu: gpu 1: matrix product" in listing.table(outcome)


def test_a_card_slower_than_its_peers_fails_though_its_model_allows_it() -> None:
    def slow(index: int, raw: Raw) -> Raw:
        speed = index == 3 and raw.name == "product speed"
        return msgspec.structs.replace(raw, value=raw.value * 0.8) if speed and raw.value else raw

    assert failures(stages.check(Plan(last="gpu"), runner(8, slow))) == {("gpu 3", "product speed")}
    assert not failures(stages.check(Plan(last="gpu", gpus=(3, 4)), runner(8, slow))), "two cannot say which is slow"


def test_without_figures_for_the_model_peers_decide_and_alone_it_is_unknown() -> None:
    def other(index: int, raw: Raw) -> Raw:
        return msgspec.structs.replace(raw, text="NVIDIA Z900") if raw.name == "device" else raw

    alone = stages.check(Plan(last="gpu"), runner(1, other)).stages[0]
    assert {f.name: f.state for f in alone.figures}["memory bandwidth"] == "unknown"
    four = stages.check(Plan(last="gpu"), runner(4, other)).stages[0]
    assert {f.state for f in four.figures if f.name == "memory bandwidth"} == {"passed"}


def test_a_slowed_clock_and_a_narrow_slot_fail() -> None:
    def worn(index: int, raw: Raw) -> Raw:
        values = {"clock under load": 700.0, "host to gpu": 12.0}
        return msgspec.structs.replace(raw, value=values[raw.name]) if raw.name in values else raw

    found = failures(stages.check(Plan(), runner(1, worn)))
    assert found == {("gpu 0", "clock under load"), ("gpu 0", "host to gpu")}


def test_what_was_not_measured_is_unknown_and_a_child_that_hangs_fails() -> None:
    def cut(index: int, raw: Raw) -> Raw | None:
        return None if raw.name == "host to gpu" else raw

    outcome = stages.check(Plan(last="gpu"), runner(1, cut))
    assert {f.name: f.state for f in outcome.stages[0].figures}["host to gpu"] == "unknown"
    hung = Ended("rank 1", [], "gave no answer within 150 s")
    outcome = stages.check(Plan(), runner(2, ranks=hung))
    assert states(outcome) == ["passed", "failed", "not run"]
    assert "rank 1 gave no answer within 150 s" in outcome.stages[1].why


def test_a_lost_link_shows_among_the_pairs() -> None:
    copies = [Raw(name="copy", on=f"gpu {a} > gpu {b}", value=20.0 if (a, b) == (0, 1) else 380.0, unit="GB/s")
              for a in range(3) for b in range(3) if a != b]  # fmt: skip
    outcome = stages.check(Plan(), runner(3, pairs=Ended("pairs", copies)))
    assert failures(outcome) == {("gpu 0 > gpu 1", "copy")}
    assert states(outcome) == ["passed", "failed", "not run"]


def test_slow_pairs_of_nodes() -> None:
    rates = {"a + b": 46.0, "c + d": 21.0, "a + c": 45.0, "b + d": 47.0, "all": 40.0}
    pairs = [Raw(name="all-reduce", on=on, value=rate, unit="GB/s") for on, rate in rates.items()]
    plan = Plan(nodes=4, rendezvous="a:1")
    outcome = stages.check(plan, runner(1, ranks=Ended("ranks", pairs)))
    assert failures(outcome) == {("c + d", "all-reduce")}
    assert states(outcome) == ["passed", "not run", "failed"]


def test_refusals() -> None:
    used = [Raw(name="gpu", on="gpu 0", ok=False, text="NVIDIA H200"), Raw(name="busy", on="gpu 0", text="process 41")]
    with pytest.raises(UsageError, match=r"gpu 0 is in use \(process 41\); --force"):
        stages.check(Plan(), runner(look=Ended("look", used)))
    assert stages.check(Plan(force=True, last="gpu"), runner(look=Ended("look", used))).state == "passed"
    with pytest.raises(UsageError, match="no GPU can be used: ended with exit code 1: RuntimeError: no driver"):
        stages.check(Plan(), runner(look=Ended("look", [], "ended with exit code 1: RuntimeError: no driver")))
    with pytest.raises(UsageError, match="no GPU 5: torch finds 0, 1"):
        stages.check(Plan(gpus=(5,)), runner(2))


def test_places_among_nodes() -> None:
    slurm = {"SLURM_STEP_NUM_NODES": "4", "SLURM_PROCID": "2", "SLURM_STEP_NODELIST": "node[017-019,030]"}
    assert place(slurm | {"SLURM_STEP_NUM_TASKS": "4"}) == (4, 2, "node017:29517")
    with pytest.raises(UsageError, match="32 checks were started on 4 nodes"):
        place(slurm | {"SLURM_STEP_NUM_TASKS": "32"})
    run = {"GROUP_WORLD_SIZE": "2", "GROUP_RANK": "1", "MASTER_ADDR": "10.0.3.17", "MASTER_PORT": "29500"}
    assert place(run | {"WORLD_SIZE": "2"}) == (2, 1, "10.0.3.17:29501")
    with pytest.raises(UsageError, match="16 checks were started on 2 nodes"):
        place(run | {"WORLD_SIZE": "16"})
    assert place({"SLURM_NNODES": "4", "SLURM_NODEID": "0"}) == (1, 0, ""), "a batch script runs on one node"
    assert [first_host(text) for text in ("a,b", "n[3,5]-ib", "login1")] == ["a", "n3-ib", "login1"]


def test_only_the_wanted_cards_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str]] = []
    play = runner(8)

    def run(jobs: Sequence[Job], folder: Path, limit: float) -> list[Ended]:
        seen.extend((job.words[1], job.visible) for job in jobs)
        return play(jobs, folder, limit)

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    outcome = stages.check(Plan(gpus=(1, 3)), run)
    assert [figure.on for figure in outcome.stages[1].figures] == ["gpu 1 > gpu 3", "gpu 3 > gpu 1"]
    assert set(seen) == {("look", ""), ("measure", ""), ("pairs", "5,7"), ("ranks", "5,7")}


def test_two_linked_cards_as_measured() -> None:
    """Two H200 of one host over NVLink: each figure is judged, none fails."""
    told = (H200.parent / "h200-two" / "measured.jsonl").read_bytes().splitlines()
    found = [msgspec.json.decode(line, type=Raw) for line in told]
    figures = judging.between(found, expected.model("NVIDIA H200"), one_node=True)
    assert [figure.state for figure in figures] == ["passed"] * 6
    assert [figure.on for figure in figures if figure.name == "copy"] == ["gpu 0 > gpu 1", "gpu 1 > gpu 0"]
