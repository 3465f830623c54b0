"""Is the cost of a slow worker, stage or kind of operation told as published? Figures, not a test.

    python -m benchmarks.what_if [FOLDER]

FOLDER holds `trace-NAME.parquet` (operations of steps: dp_rank, stage, step, optype, start_ts, duration, seq_id, mc),
`result-NAME.json` with the published slowdowns and `mw-NAME.json`, `ms-NAME.json` with the shares of the slowest
workers and of the last stage. Needs pyarrow. Without the folder or pyarrow nothing is measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from triage.analysis._what_if import Op, answer

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "bench" / "straggleranalysis"
NEAR = 0.05


def read(path: Path) -> Iterator[Op]:
    """The operations of a trace."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    names = ("dp_rank", "stage", "step", "optype", "start_ts", "duration", "seq_id", "mc")
    for dp, stage, step, kind, start, duration, seq, chunk in zip(
        *(table[name].to_pylist() for name in names), strict=True
    ):
        yield Op(dp, stage, step, str(kind), start, duration, seq, chunk)


def compare(path: Path) -> bool:
    """Prints ours beside the published ones; whether the slowdown is near and the culprit the same."""
    name = path.stem.removeprefix("trace-")
    told = json.loads((path.parent / f"result-{name}.json").read_text())
    found = answer(read(path))
    if found is None:
        print(f"{name}: the steps do not fit together")
        return False
    published = told["blocking_slowdown"]
    stages = {int(stage): value for stage, value in told["blocking_decompose_by_stage"].items()}
    ranks = {int(rank): value for rank, value in told["blocking_decompose_by_dp_rank"].items()}
    print(f"{name}: slowdown {found.slowdown:.3f} (published {published:.3f}), waste {found.waste:.3f}")
    print(f"  slowest workers' share {found.workers_share:.3f} ({_share(path, 'mw', name)}), "
          f"last stage's {found.last_stage_share:.3f} ({_share(path, 'ms', name)})")  # fmt: skip
    for heading, ours, theirs in (("dp rank", found.by_dp, ranks), ("stage", found.by_stage, stages)):
        print(f"  by {heading}: " + ", ".join(f"{one} {ours[one]:.3f} ({theirs[one]:.3f})" for one in sorted(ours)))
    kinds = sorted(found.by_kind.items(), key=lambda item: -item[1])[:3]
    print("  by kind: " + ", ".join(f"{kind} {value:.3f}" for kind, value in kinds))
    print(f"  verdict: {found.verdict} {found.culprit}")
    same = max(stages, key=lambda one: stages[one]) == found.worker[1]
    same &= found.verdict != "worker" or max(ranks, key=lambda one: ranks[one]) == found.worker[0]
    return same and abs(found.slowdown / published - 1) <= NEAR


def _share(path: Path, kind: str, name: str) -> str:
    file = path.parent / f"{kind}-{name}.json"
    return f"{json.loads(file.read_text())['rem']:.3f}" if file.exists() else "unknown"


def main() -> None:
    """All traces of the folder."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    traces = sorted(folder.glob("trace-*.parquet")) if folder.is_dir() else []
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        traces = []
    if not traces:
        print("nothing measured: no traces, or no pyarrow")
        return
    results = [compare(path) for path in traces]
    print("as published" if all(results) else "NOT as published")


if __name__ == "__main__":
    main()
