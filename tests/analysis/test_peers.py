"""GPUs against their peers: figures, and silence below what a comparison needs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.analysis.build import incident
from triage.analysis import peers, stragglers
from triage.model.base import Scalar
from triage.model.event import Fact, Where
from triage.model.incident import Incident, Rank

SOUND: dict[str, Any] = {
    "gpu.name": "H200", "gpu.utilization": 99, "gpu.clock.sm_mhz": 1980.0, "gpu.temperature_c": 60.0,
    "gpu.power_limit_w": 700.0, "gpu.pcie.width_current": 16, "gpu.memory_total": 143 << 30,
    "gpu.memory_used": 90 << 30, "gpu.ecc.mode": "enabled",
}  # fmt: skip


def card(gpu: int, node: str | None = "n1", **other: Any) -> list[Fact]:
    """Readings of a card; keyword `clock__sm_mhz` stands for gpu.clock.sm_mhz."""
    values = SOUND | {f"gpu.{name.replace('__', '.')}": value for name, value in other.items()}
    entity: dict[str, Scalar] = {"gpu": gpu, "pci": f"0000:{gpu:02x}:00"} | ({"node": node} if node else {})
    return [Fact(name=n, value=v, where=Where(file="q", line=gpu + 1), entity=entity) for n, v in values.items()]


def told(*cards: list[Fact]) -> list[str]:
    return [fact.text for fact in peers.derive(incident(fact for each in cards for fact in each))]


def machine(count: int = 8, **odd: Any) -> list[str]:
    """All alike but the last; temperatures differ by their places, as they do."""
    sound = [card(gpu, temperature_c=56.0 + gpu) for gpu in range(count - 1)]
    return told(*sound, card(count - 1, **{"temperature_c": 60.0} | odd))


@pytest.mark.parametrize(
    ("reading", "value", "text"),
    [
        ("clock__sm_mhz", 1155.0, "GPU 7 of n1: SM clock 1155 MHz, its 7 peers 1980 MHz"),
        ("temperature_c", 84.0, "GPU 7 of n1: temperature 84 °C, its 7 peers 59 °C (56 to 62 °C)"),
        ("power_limit_w", 500.0, "GPU 7 of n1: power limit 500 W, its 7 peers 700 W"),
        ("pcie__width_current", 4, "GPU 7 of n1: PCIe lanes 4, its 7 peers 16"),
        ("memory_total", 140 << 30, "GPU 7 of n1: memory 143360 MiB, its 7 peers 146432 MiB"),
        ("memory_used", 120 << 30, "GPU 7 of n1: memory in use 122880 MiB, its 7 peers 92160 MiB"),
        ("ecc__mode", "disabled", "GPU 7 of n1: ECC mode disabled, its 7 peers enabled"),
    ],
)
def test_one_that_differs(reading: str, value: Any, text: str) -> None:
    assert machine(**{reading: value}) == [text]


def test_all_that_differs_on_a_card_is_told_at_once() -> None:
    (both,) = machine(clock__sm_mhz=1155.0, power_limit_w=500.0)
    assert both == "GPU 7 of n1: SM clock 1155 MHz, its 7 peers 1980 MHz; power limit 500 W, its 7 peers 700 W"


@pytest.mark.parametrize(
    ("reading", "value"),
    [("clock__sm_mhz", 1900.0), ("clock__sm_mhz", 2100.0), ("temperature_c", 66.0), ("pcie__width_current", None)],
)
def test_within_what_peers_show(reading: str, value: Any) -> None:
    assert machine(**{reading: value}) == []


def test_four_peers_are_the_least() -> None:
    assert machine(5, clock__sm_mhz=1155.0) != []
    assert machine(4, clock__sm_mhz=1155.0) == []


def test_an_idle_card_is_no_peer_of_busy_ones() -> None:
    assert machine(utilization=3, clock__sm_mhz=345.0, temperature_c=28.0) == []


def test_nodes_that_have_too_few_are_compared_with_each_other() -> None:
    nodes = [card(gpu, f"n{node}") for node in range(2) for gpu in range(4)]
    slow = card(3, "n1", power_limit_w=500.0)
    assert told(*nodes[:-1], slow) == ["GPU 3 of n1: power limit 500 W, its 7 peers 700 W"]


def test_two_kinds_of_limits_are_a_choice() -> None:
    assert told(*[card(gpu, power_limit_w=500.0 if gpu > 3 else 700.0) for gpu in range(8)]) == []


def test_another_model_is_no_peer() -> None:
    assert told(*[card(gpu) for gpu in range(6)], card(6, name="L4", memory_total=24 << 30)) == []


def slow_job(**odd: Any) -> Incident:
    facts = [fact for gpu in range(8) for fact in (card(gpu) if gpu < 7 else card(gpu, **odd))]
    for rank in range(8):
        ms = [100.0 if rank < 7 else 160.0] * 60
        for name, values in (("step", list(range(60))), ("fwd_ms", ms), ("step_ms", [200.0] * 60)):
            where = Where(file=f"steps.rank{rank}.jsonl")
            facts.append(Fact(name=f"steps.series.{name}", value=values, where=where, entity={"rank": rank}))
    ranks = {rank: Rank(rank=rank, node="n1", gpu=rank, pci=f"0000:{rank:02x}:00") for rank in range(8)}
    return incident(facts, ranks=ranks)


@pytest.mark.parametrize(("odd", "kinds"), [({"clock__sm_mhz": 1155.0}, ["clock"]), ({}, [])])
def test_beside_a_rank_that_computes_slowly(odd: dict[str, Any], kinds: list[str]) -> None:
    found = list(stragglers.derive(slow_job(**odd)))
    assert [fact.value for fact in found if fact.name == "straggler.culprit"] == ["compute"]
    assert [fact.value for fact in found if fact.name == "straggler.gpu_differs"] == kinds
