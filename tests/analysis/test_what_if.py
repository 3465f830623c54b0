"""Steps played again: what a slow worker, stage or kind of operation costs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from triage.analysis._what_if import Answer, Op, answer

DATA, STAGES, BATCHES = 4, 2, 4
Took = Callable[[int, int, int, str], float]
Now = dict[tuple[int, int], float]


def usual(dp: int, stage: int, step: int, kind: str) -> float:
    return {"forward-compute": 1.0, "backward-compute": 2.0}.get(kind, 0.01)


def played(took: Took, steps: int = 3) -> Answer | None:
    """All forward passes, then all backward passes, then the sum of the gradients; starts as they would be."""
    ops: list[Op] = []
    for step in range(steps):
        now = {(dp, stage): 0.0 for dp in range(DATA) for stage in range(STAGES)}

        def work(dp: int, stage: int, kind: str, batch: int, now: Now = now, step: int = step) -> None:
            length = took(dp, stage, step, kind)
            ops.append(Op(dp, stage, step, kind, now[dp, stage], length, batch))
            now[dp, stage] += length

        for dp in range(DATA):
            for way, first, last in (("forward", 0, 1), ("backward", 1, 0)):
                for batch in range(BATCHES):
                    work(dp, first, f"{way}-compute", batch)
                    through = max(now[dp, 0], now[dp, 1]) + 0.01
                    for kind, stage in ((f"{way}-send", first), (f"{way}-recv", last)):
                        ops.append(Op(dp, stage, step, kind, now[dp, stage], through - now[dp, stage], batch))
                        now[dp, stage] = through
                    work(dp, last, f"{way}-compute", batch)
        for (dp, stage), end in now.items():
            through = max(now[d, stage] for d in range(DATA)) + 0.05
            ops.append(Op(dp, stage, step, "grads-reduce-scatter", end, through - end, 0))
    return answer(ops)


def test_nothing_to_blame() -> None:
    found = played(usual)
    assert found is not None
    assert found.slowdown == pytest.approx(1.0, abs=0.01)
    assert (found.verdict, found.waste) == ("none", pytest.approx(0.0, abs=0.01))


def test_a_slow_worker() -> None:
    found = played(lambda dp, stage, *rest: usual(dp, stage, *rest) * (3.0 if (dp, stage) == (2, 0) else 1.0))
    assert found is not None
    assert (found.verdict, found.worker) == ("worker", (2, 0))
    assert found.workers_share > 0.9
    assert found.waste == pytest.approx(1 - 1 / found.slowdown)


def test_a_slow_last_stage() -> None:
    found = played(lambda dp, stage, *rest: usual(dp, stage, *rest) * (1.6 if stage == 1 else 1.0))
    assert found is not None
    assert (found.verdict, found.culprit) == ("stage", "1")
    assert found.workers_share < 0.5


def test_a_slow_kind_of_operation() -> None:
    def took(dp: int, stage: int, step: int, kind: str) -> float:
        uneven = 1.0 + 0.8 * ((dp + stage + step) % 3 == 0)
        return usual(dp, stage, step, kind) * (uneven if kind == "backward-compute" else 1.0)

    found = played(took)
    assert found is not None
    assert max(found.by_kind, key=lambda kind: found.by_kind[kind]) == "backward-compute"


def test_what_cannot_end_has_no_answer() -> None:
    assert answer([]) is None
    crossed = [
        Op(0, 0, 0, "forward-send", 0.0, 1.0, 0), Op(0, 0, 0, "backward-recv", 1.0, 1.0, 0),
        Op(0, 1, 0, "backward-send", 0.0, 1.0, 0), Op(0, 1, 0, "forward-recv", 1.0, 1.0, 0),
    ]  # fmt: skip
    assert answer(crossed) is None
