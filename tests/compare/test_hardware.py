"""What GPUs say of themselves on both sides of a comparison."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tests.analysis.build import incident
from tests.compare.making import noisy, run
from triage.cli.compare import command
from triage.comparing.hardware import Machine, changed, state
from triage.comparing.verdicts import compare
from triage.model.base import Scalar, Value
from triage.model.event import Fact, Where

QUERY = (
    "index, uuid, pci.bus_id, ecc.errors.uncorrected.aggregate.total, pcie.link.width.current, pcie.link.width.max\n"
)


def machine(*facts: tuple[str, Value, dict[str, Scalar]]) -> Machine:
    return state(incident(Fact(name=n, value=v, where=Where(file="x", line=1), entity=e) for n, v, e in facts))


def rows(before: Machine, after: Machine) -> list[tuple[str, ...]]:
    return [(row.device, row.reading, row.before, row.after, row.result) for row in changed(before, after)]


def test_counters_that_grew_and_links_that_went_down() -> None:
    card: dict[str, Scalar] = {"uuid": "GPU-a", "gpu": 3, "node": "n1"}
    one = machine(("gpu.ecc.aggregate_uncorrectable", 0, card), ("nvlink.state", "active", {**card, "link": "4"}))
    two = machine(("gpu.ecc.aggregate_uncorrectable", 2, card), ("nvlink.state", "inactive", {**card, "link": "4"}))
    assert rows(one, two) == [
        ("GPU 3 of n1", "gpu.ecc.aggregate_uncorrectable", "0", "2", "worse"),
        ("GPU 3 of n1", "nvlink.state of link 4", "active", "inactive", "worse"),
    ]
    assert rows(two, one) == [("GPU 3 of n1", "nvlink.state of link 4", "inactive", "active", "better")]


def test_a_card_moved_to_another_slot_is_the_same_and_one_in_the_same_slot_is_not() -> None:
    old = machine(("gpu.pcie.replays", 3, {"uuid": "GPU-a", "pci": "0000:3b:00", "node": "n1"}))
    moved = machine(("gpu.pcie.replays", 9, {"uuid": "GPU-a", "pci": "0000:9b:00", "node": "n1"}))
    other = machine(("gpu.pcie.replays", 9, {"uuid": "GPU-b", "pci": "0000:3b:00", "node": "n1"}))
    assert [row[1:4] for row in rows(old, moved)] == [("gpu.pcie.replays", "3", "9")]
    assert [row[1:] for row in rows(old, other)] == [("listed", "yes", "no", "worse")]


def test_an_adapter_is_no_gpu() -> None:
    """lspci says where a device sits; that one is a GPU is said by others."""
    adapter: dict[str, Scalar] = {"pci": "0000:ca:00", "node": "n1"}
    one, two = (machine(("pcie.width_state", state_, adapter)) for state_ in ("full", "reduced"))
    assert rows(one, two) == [("device 0000:ca:00 of n1", "pcie.width_state", "full", "reduced", "worse")]
    card = machine(("pcie.width_state", "full", adapter), ("gpu.pcie.replays", 1, {**adapter, "gpu": 3}))
    assert [label for label, _, _ in card.values()] == ["GPU 3 of n1"]


def test_what_one_side_did_not_read_is_no_change() -> None:
    card: dict[str, Scalar] = {"uuid": "GPU-a", "gpu": 3, "node": "n1"}
    assert rows(machine(("gpu.remap.pending", "no", card)), machine(("gpu.pcie.replays", 4, card))) == []
    assert rows(machine(("gpu.remap.pending", "no", card)), machine()) == [], "a node that tells of no GPU at all"
    assert rows(machine(("gpu.remap.pending", None, card)), machine(("gpu.remap.pending", "yes", card))) == []


def test_it_stands_beside_the_result() -> None:
    card: dict[str, Scalar] = {"uuid": "GPU-a", "gpu": 0}
    machines = [machine(("gpu.remap.pending", value, card)) for value in ("no", "yes")]
    told = compare(run(noisy(1), hardware=machines[0]), run(noisy(2), hardware=machines[1]))
    assert (told.result, [row.reading for row in told.hardware]) == ("no difference", ["gpu.remap.pending"])


def test_from_files(tmp_path: Path) -> None:
    for name, errors, width in (("before", 0, 16), ("after", 7, 4)):
        (tmp_path / name).mkdir()
        line = f"0, GPU-0a1b2c3d-0000-0000-0000-000000000001, 00000000:3B:00.0, {errors}, {width}, 16\n"
        (tmp_path / name / "gpu.csv").write_text(QUERY + line)
    out = CliRunner().invoke(command, [str(tmp_path / "before"), str(tmp_path / "after"), "-q"]).stdout
    told = [" ".join(line.split()) for line in out.splitlines()]
    assert "GPU 0 gpu.ecc.aggregate_uncorrectable 0 -> 7 worse" in told
    assert "GPU 0 gpu.pcie.width_state full -> reduced worse" in told
