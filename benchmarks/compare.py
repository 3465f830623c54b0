"""How often `triage compare` calls a difference that is none, and how often it finds one that is there.

    compare.py [PAIRS]      default 2,000 pairs a row, about forty seconds

Each side has 200 steps, noise of 3 % with an autocorrelation of 0.5 from step to step (normal, order one; the noise of
each row's heading where it says otherwise), of which comparing leaves out the first five as always. A row passes when
it keeps to its bound. The last line compares one pair through files, command line and JSON, which gives the same.

The ceiling: the standard error of the difference of two such means is 0.52 %, so a test with 5 % false alarms in equal
tails finds a change of 1 % in 49 % of pairs at most, whatever its method. That is why one direction is watched for.
"""

from __future__ import annotations

import json
import math
import random
import sys
import tempfile
from pathlib import Path

from triage.comparing.runs import Run
from triage.comparing.verdicts import compare

STEPS, NOISE, TOGETHER, MS, WARMUP = 200, 0.03, 0.5, 37.0, 5
ROWS = (  # heading, change, watched for, what is counted, bound, at most or at least, autocorrelation
    ("no change", 0.0, "worse", "called", 0.05, "<=", TOGETHER),
    ("no change, watching for better", 0.0, "better", "called", 0.05, "<=", TOGETHER),
    ("3 % slower", 0.03, "worse", "worse", 0.95, ">=", TOGETHER),
    ("3 % faster", -0.03, "worse", "better", 0.95, ">=", TOGETHER),
    ("1 % slower", 0.01, "worse", "worse", 0.50, ">=", TOGETHER),
    ("1 % faster, watching for better", -0.01, "better", "better", 0.50, ">=", TOGETHER),
    ("1 % faster, watching for worse", -0.01, "worse", "better", None, "", TOGETHER),
    ("no change, autocorrelation 0", 0.0, "worse", "called", 0.06, "<=", 0.0),
    ("no change, autocorrelation 0.8", 0.0, "worse", "called", 0.06, "<=", 0.8),
)


def steps(dice: random.Random, change: float, together: float) -> list[float]:
    """Step times in ms of one side."""
    state, fresh, out = dice.gauss(0, 1), math.sqrt(1 - together**2), []
    for _ in range(STEPS):
        out.append(MS * (1 + change) * (1 + NOISE * state))
        state = together * state + fresh * dice.gauss(0, 1)
    return out


def run(values: list[float]) -> Run:
    """A run of nothing but these steps."""
    return Run(
        name="made", steps={"step_ms": values[WARMUP:]}, unit="ms", rates=[], waits=[], memory={}, errors={}, causes=[],
        verdict="inconclusive", ranks=1, last_step=STEPS - 1, slower_from=None, settings={}, told=frozenset(),
    )  # fmt: skip


def share(pairs: int, change: float, watch: str, counted: str, together: float) -> float:
    """Part of the pairs whose verdict is the counted one; `called`: any difference."""
    dice = random.Random(20261130)
    seen = 0
    for _ in range(pairs):
        told = compare(run(steps(dice, 0.0, together)), run(steps(dice, change, together)), watch).result
        seen += told in {"worse", "better"} if counted == "called" else told == counted
    return seen / pairs


def through_files() -> bool:
    """One pair of recordings by the command line."""
    from click.testing import CliRunner

    from triage.cli.compare import command

    dice = random.Random(7)
    sides = [steps(dice, 0.0, TOGETHER), steps(dice, 0.03, TOGETHER)]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("before", "after")]
        for path, values in zip(paths, sides, strict=True):
            path.mkdir()
            rows = [json.dumps({"step": at, "rank": 0, "step_ms": ms}) for at, ms in enumerate(values)]
            (path / "steps.rank0.jsonl").write_text("\n".join(rows) + "\n")
        words = [*map(str, paths), "--format", "json", "--fail-over", "1%"]
        said = CliRunner().invoke(command, words, standalone_mode=False)
    told, pure = json.loads(said.stdout), compare(run(sides[0]), run(sides[1]))
    print(f"through files: {told['result']}, {told['why']}; exit code {said.return_value}")
    return said.return_value == 21 and told["moved"][0]["low"] == pure.moved[0].low


def main() -> int:
    """Print all rows; exit 1 when one does not keep its bound."""
    pairs = int(sys.argv[1]) if sys.argv[1:] else 2000
    good = True
    print(f"{'':<36}{'share':>8}{'bound':>10}   of {pairs} pairs")
    for heading, change, watch, counted, bound, sense, together in ROWS:
        found = share(pairs, change, watch, counted, together)
        kept = bound is None or (found <= bound if sense == "<=" else found >= bound)
        good &= kept
        limit = "" if bound is None else f"{sense} {100 * bound:.0f} %"
        print(f"{heading:<36}{100 * found:>6.1f} %{limit:>10}   {'' if kept else 'NOT KEPT'}", flush=True)
    good &= through_files()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
