"""The halving of the pairwise measurement, with a modelled network in place of a real one."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from triage.repro.building import build
from triage.repro.evidence import Found


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 13, 16])
def test_any_slow_pair_is_found_in_few_rounds(count: int) -> None:
    script = build("pairwise-bandwidth", "network/congestion", Found())["repro.py"]
    search = script[script.index("def within(") : script.index("def main(")]
    for slow in itertools.combinations(range(count), 2):
        rounds = []

        def measure(sets: Any, slow: tuple[int, int] = slow, rounds: list[Any] = rounds) -> list[float]:
            members = [node for each in sets for node in each]
            assert len(members) == len(set(members)), "sets of one round are measured at the same time"
            rounds.append(sets)
            return [0.3 if set(slow) <= set(each) else 1.0 for each in sets]

        space: dict[str, Any] = {"measure": measure, "SLOW": 0.85}
        exec(search, space)
        assert set(space["within"](list(range(count)))[1]) == set(slow)
        assert len(rounds) <= 2 * math.ceil(math.log2(count)) + 1
