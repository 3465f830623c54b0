"""Is `triage check` right on this machine? Needs a GPU that nothing uses, and torch.

    check.py [RAW]      RAW: where to keep the lines that the measuring process wrote

Runs the single-GPU stage, measures torch's own product and copy in a process of its own and prints both side by side,
then shows that a planted wrong product, a planted wrong word of memory and a card in use are noticed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec

from triage.checks import children, listing, stages
from triage.errors import UsageError
from triage.model.check import Outcome, Raw

ALLOWED = 0.10
SECONDS = 6.0


def own() -> None:
    """What plain torch gets: `TFLOP/s GB/s`, the product of the best of three sizes, the copy read and written."""
    import torch

    rates = []
    for size in (4096, 8192, 16384):
        left, right = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        rates.append(2e-12 * size**3 / timed(lambda left=left, right=right: left @ right))
    source, target = (torch.empty(4 << 30, device="cuda", dtype=torch.uint8) for _ in range(2))
    print(max(rates), 2e-9 * (4 << 30) / timed(lambda: target.copy_(source)))


def timed(work: object) -> float:
    """Seconds of one of twenty, after three."""
    import torch

    for _ in range(3):
        work()  # type: ignore[operator]
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(20):
        work()  # type: ignore[operator]
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / 20


def hold() -> None:
    """Use the card until killed."""
    import torch

    print(torch.ones(1 << 30, device="cuda").sum().item(), flush=True)
    time.sleep(60)


def checked(kept: list[Raw], **plan: object) -> Outcome:
    """The outcome of the single-GPU stage on GPU 0; what its child wrote goes to `kept`."""

    def run(jobs: object, folder: Path, limit: float) -> list[children.Ended]:
        ended = children.run(jobs, folder, limit)  # type: ignore[arg-type]
        kept.extend(raw for one in ended for raw in one.found)
        return ended

    return stages.check(stages.Plan(gpus=(0,), last="gpu", **plan), run)  # type: ignore[arg-type]


def against(outcome: Outcome, product: float, copy: float) -> bool:
    """Print both beside torch's own."""
    figures = {figure.name: figure.value or 0.0 for figure in outcome.stages[0].figures}
    good = outcome.state == "passed"
    for name, plain, unit in (("product speed", product, "TFLOP/s"), ("memory bandwidth", copy, "GB/s")):
        off = figures[name] / plain - 1
        good &= abs(off) <= ALLOWED
        print(f"{name:<18} check {figures[name]:8.1f}   torch {plain:8.1f} {unit:<8} {100 * off:+.1f} %")
    return good


def refused() -> bool:
    """A card in use."""
    holder = subprocess.Popen([sys.executable, __file__, "hold"], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        checked([])
    except UsageError as error:
        print(f"in use: {error}")
        return True
    finally:
        holder.kill()
        holder.wait()
    return False


def main() -> int:
    """Print all, exit 1 when something is not as promised."""
    kept: list[Raw] = []
    outcome = checked(kept, seconds=SECONDS)
    if sys.argv[1:]:
        Path(sys.argv[1]).write_bytes(b"".join(msgspec.json.encode(raw) + b"\n" for raw in kept))
    print(listing.table(outcome))
    plain = subprocess.run([sys.executable, __file__, "own"], capture_output=True, text=True, check=True).stdout.split()
    good = against(outcome, float(plain[0]), float(plain[1]))
    for plant in ("product", "memory"):
        spoiled = checked([], seconds=1.0, plant=plant)
        bad = [figure for figure in spoiled.stages[0].figures if figure.state == "failed"]
        print(f"planted {plant}: {spoiled.state}: " + "; ".join(f"{figure.name}: {figure.why}" for figure in bad))
        good &= spoiled.state == "failed" and bool(bad)
    good &= refused()
    print("as promised" if good else "NOT as promised")
    return 0 if good else 1


if __name__ == "__main__":
    if sys.argv[1:] in (["own"], ["hold"]):
        {"own": own, "hold": hold}[sys.argv[1]]()
        sys.exit(0)
    sys.exit(main())
