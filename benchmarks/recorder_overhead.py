"""What the recorder costs: alternating blocks of steps with and without it, in one process on one GPU, or in DDP.

    python3 benchmarks/recorder_overhead.py [OUT.json]        needs torch; of triage only recorder/
    torchrun --nproc-per-node 2 benchmarks/recorder_overhead.py [OUT.json]        rank 0 measures, all ranks record

BLOCKS blocks of STEPS steps of about TARGET_MS, in pairs, on and off in random order within a pair. Printed: the mean
difference in percent of a step and its 95 % interval (Student's t over the pairs). Off means off: all hooks are taken
out, the allocator's history too.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "triage" / "recorder"
BLOCKS, STEPS, WARM, TARGET_MS = 20, 100, 400, 37.0
T_95 = {9: 2.262, 10: 2.228, 19: 2.093}  # Student's t, two-sided, by degrees of freedom


def load(name):
    """A file of the recorder, as sitecustomize loads it."""
    spec = importlib.util.spec_from_file_location(f"_bench_{name}", ROOT / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Switch:
    """Puts the hooks in and takes them out again."""

    def __init__(self, torch, folder):
        self.torch, self.folder = torch, folder
        self.steps, self.hooks = load("steps"), load("hooks")
        self.kind = torch.utils.data.dataloader._BaseDataLoaderIter
        self.plain = (torch.autograd.backward, torch.save, self.kind.__next__, sys.excepthook)
        self.recorder = None

    def on(self):
        """A recorder with all of its hooks; the allocator's history starts as with CUDA's initialisation."""
        rank = int(os.environ.get("RANK", "0"))
        self.recorder = self.steps.StepRecorder(self.folder, rank=rank, manual=False)
        hooks = self.hooks.Hooks(self.recorder, self.steps.guarded)
        hooks.torch(self.torch)
        hooks.loader(self.torch.utils.data.dataloader)

    def off(self):
        """Nothing of it is left."""
        if self.recorder is not None:
            self.recorder.close()
        optimizer = sys.modules["torch.optim.optimizer"]
        optimizer._global_optimizer_pre_hooks.clear()
        optimizer._global_optimizer_post_hooks.clear()
        self.torch.autograd.backward, self.torch.save, self.kind.__next__, sys.excepthook = self.plain
        gc.callbacks.clear()
        self.torch.cuda.memory._record_memory_history(None)


def training(torch):
    """A step of about TARGET_MS: a stack of layers, AdamW, batches from a DataLoader. Returns a function of steps."""
    width, layers = 4096, 16
    model = torch.nn.Sequential(
        *[each for _ in range(layers) for each in (torch.nn.Linear(width, width), torch.nn.GELU())]
    ).to("cuda", torch.bfloat16)
    ranks = torch.distributed.is_initialized()
    if ranks:
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.AdamW(model.parameters())
    rows = 4096

    def steps(count):
        loader = torch.utils.data.DataLoader(torch.zeros(count, 8), batch_size=1)
        work = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16)
        if ranks:
            torch.distributed.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for batch in loader:
            model(work + batch[0, 0].item()).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.cuda.synchronize()
        return 1000 * (time.perf_counter() - start) / count

    def scaled():
        """Rows for a step of TARGET_MS; all ranks take those of rank 0."""
        found = torch.tensor([max(int(rows * TARGET_MS / steps(50)) // 128 * 128, 128)], device="cuda")
        if ranks:
            torch.distributed.broadcast(found, 0)
        return int(found)

    steps(20)
    for _ in range(2):
        rows = scaled()
    steps(WARM)  # the card reaches its temperature and its clock
    return steps


def main():
    """Measure, print, write."""
    import torch

    if "RANK" in os.environ:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("nccl")
    steps = training(torch)
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        switch = Switch(torch, folder)
        for _ in range(BLOCKS // 2):
            found = {}
            for way in random.Random(len(pairs)).sample(["on", "off"], 2):
                getattr(switch, way)()
                steps(5)
                found[way] = steps(STEPS)
                switch.off()
            pairs.append(found)
        rank = os.environ.get("RANK", "0")
        lines = sum(1 for _ in (Path(folder) / f"steps.rank{rank}.jsonl").open())
    if "RANK" in os.environ:
        torch.distributed.destroy_process_group()
        if rank != "0":
            return
    result = interval(pairs) | {
        "lines_written": lines,
        "ranks": int(os.environ.get("WORLD_SIZE", "1")),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }
    print(json.dumps(result, indent=1))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(result | {"pairs": pairs}, indent=1) + "\n")


def interval(pairs):
    """Mean difference and its 95 % interval, in percent of a step without the recorder."""
    base = statistics.fmean(pair["off"] for pair in pairs)
    costs = [100 * (pair["on"] - pair["off"]) / base for pair in pairs]
    half = T_95[len(costs) - 1] * statistics.stdev(costs) / math.sqrt(len(costs))
    mean = statistics.fmean(costs)
    return {
        "step_ms": round(base, 3),
        "cost_percent": round(mean, 4),
        "low": round(mean - half, 4),
        "high": round(mean + half, 4),
    }


if __name__ == "__main__":
    main()
