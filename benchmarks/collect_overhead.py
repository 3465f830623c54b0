"""What collecting costs a training job: step times with collectors running and without, in alternating blocks.

    python benchmarks/collect_overhead.py PAIRS SECONDS     needs torch and a GPU; prints one JSON object

A block trains a small transformer for so many seconds; in every other one the collectors' zipapp runs beside it, again
and again. The figure is the relative difference of the blocks' median step times, with its 95 % interval over pairs.
"""

from __future__ import annotations

import json
import math
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipapp
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1] / "collectors"
T95 = {4: 3.18, 6: 2.57, 8: 2.36, 10: 2.26, 12: 2.20, 14: 2.16, 16: 2.13, 20: 2.09}  # Student's t by pairs


def packed(folder: Path) -> Path:
    """The collectors as a zipapp with an empty request."""
    source = folder / "app"
    source.mkdir()
    for path in [*ROOT.glob("*.py"), ROOT / "redaction.json"]:
        (source / path.name).write_bytes(path.read_bytes())
    (source / "request.json").write_text("{}")
    zipapp.create_archive(source, folder / "c.pyz")
    return folder / "c.pyz"


class Steps:
    """A training loop."""

    def __init__(self) -> None:
        layer = torch.nn.TransformerEncoderLayer(2048, 16, 8192, batch_first=True, dropout=0.0)
        self.model = torch.nn.TransformerEncoder(layer, 6).cuda().bfloat16()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(8, 1024, 2048, device="cuda", dtype=torch.bfloat16)

    def block(self, seconds: float) -> float:
        """Median seconds of a step over a block."""
        found, ends = [], time.perf_counter() + seconds
        while time.perf_counter() < ends:
            started = time.perf_counter()
            self.optimizer.zero_grad(set_to_none=True)
            self.model(self.batch).square().mean().backward()
            self.optimizer.step()
            torch.cuda.synchronize()
            found.append(time.perf_counter() - started)
        return statistics.median(found)


def collecting(app: Path, stop: threading.Event, runs: list[float]) -> None:
    """Run the collectors until told to stop."""
    while not stop.is_set():
        started = time.perf_counter()
        command = [sys.executable, "-I", "-S", str(app), "node", "--seconds=30"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        runs.append(time.perf_counter() - started)


def pair(steps: Steps, app: Path, seconds: float, first: bool, runs: list[float]) -> tuple[float, float]:
    """Step time without and with collecting; who comes first alternates."""
    found: dict[bool, float] = {}
    for with_it in (first, not first):
        stop = threading.Event()
        thread = threading.Thread(target=collecting, args=(app, stop, runs))
        if with_it:
            thread.start()
        found[with_it] = steps.block(seconds)
        stop.set()
        if with_it:
            thread.join()
    return found[False], found[True]


def main(pairs: int, seconds: float) -> None:
    steps, runs = Steps(), []
    steps.block(5)
    with tempfile.TemporaryDirectory() as folder:
        app = packed(Path(folder))
        found = [pair(steps, app, seconds, bool(number % 2), runs) for number in range(pairs)]
    differences = [(on - off) / off * 100 for off, on in found]
    mean = statistics.mean(differences)
    half = T95[pairs] * statistics.stdev(differences) / math.sqrt(pairs)
    answer = {
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "python": platform.python_version(),
        "pairs": pairs, "block_s": seconds, "step_ms_without": round(statistics.mean(off for off, _ in found) * 1e3, 3),
        "step_ms_with": round(statistics.mean(on for _, on in found) * 1e3, 3), "difference_percent": round(mean, 3),
        "interval_95_percent": [round(mean - half, 3), round(mean + half, 3)], "collections": len(runs),
        "collection_s": round(statistics.mean(runs), 2), "differences_percent": [round(one, 3) for one in differences],
    }  # fmt: skip
    print(json.dumps(answer, indent=1))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
