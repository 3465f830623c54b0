"""A log as a training job on 1,024 ranks writes it into one file, with a few lines drawn from the catalogue's examples.

Steps, NCCL INFO, progress bars, Python and kernel lines, JSON records; many speak of errors, limits and time-outs and
mean nothing by it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from triage.matching.loading import catalogue

RANKS = 1024
_BLOCK = 20_000  # lines that are written at once
_STEP = (
    " [{clock}] iteration {step:8d}/  500000 | consumed samples: {count:12d} | elapsed time per iteration (ms): {ms}"
    " | learning rate: 1.500000E-04 | global batch size:  1024 | lm loss: {loss}E+00 | loss scale: 1.0"
    " | grad norm: 0.41{local} | num zeros: 0.0 | number of skipped iterations:   0 | number of nan iterations:   0 |"
)
_NCCL = (
    "Channel {lane:02d}/0 : {rank}[{local}] -> {other}[{local}] [send] via NET/IB/{local}/GDRDMA",
    "Channel {lane:02d} : {rank}[{local}] -> {other}[{local}] via P2P/CUMEM/read",
    "Trees [0] {other}/-1/-1->{rank}->{lane} [1] {other}/-1/-1->{rank}->{lane}",
    "Connected all rings, use ring PXN 0 GDR 1",
    "AllReduce: opCount {count:x} sendbuff 0x7f2a{count:08x} count 1048576 datatype 9 op 0 comm 0x55d1c{rank:04x}0",
)
_PYTHON = (
    "INFO:data: rank {rank} loaded shard /data/tok/shard-{step:05d}.bin in 1.4s (retries: 0, errors: 0)",
    "INFO:ckpt: saved iter_{step:07d}/mp_rank_{local:02d}/model_optim_rng.pt (7.{lane} GiB) ok",
    "DEBUG:timers: forward-compute: {ms} backward-compute: 1999.42 all-grads-sync: 71.30 optimizer: 31.02",
    "INFO:monitor: gpu {local} temp 6{local}C power 64{local}W xid_errors: 0 ecc_dbe: 0 nvlink_crc_errors: 0",
    "WARNING:loader: worker {local} took 2.{lane}s for one batch; timeout is 60 s",
)
_KERNEL = (
    'kernel: [{count}.{step:06d}] audit: type=1400 audit(1764509157.123:{step}): apparmor="ALLOWED" pid={rank}',
    "systemd[1]: Started Session {step} of user train.",
    "kernel: [{count}.{step:06d}] mlx5_core 0000:3b:00.0 ib{local}: Port: 1 Link UP",
)


def write(path: Path, size: int, rate: float, seed: int = 11) -> None:
    """Write about so many bytes; beside them `.truth` counts the lines drawn from the examples of each signature.

    rate: share of such lines.
    """
    truth: dict[str, int] = {}
    lines, written = _lines(random.Random(seed), rate, truth), 0
    with path.open("w", encoding="utf-8", newline="") as file:
        while written < size:
            block = "".join(next(lines) for _ in range(_BLOCK))
            written += len(block)
            file.write(block)
    path.with_name(path.name + ".truth").write_text(json.dumps(truth, indent=1))


def _lines(chance: random.Random, rate: float, truth: dict[str, int]) -> Iterator[str]:
    drawn = [
        (signature.id, line)
        for signature in catalogue().values()
        for example in signature.examples.matches
        for line in example.text.splitlines()
    ]
    count = 0
    while True:
        count += 1
        if drawn and chance.random() < rate:
            name, line = chance.choice(drawn)
            truth[name] = truth.get(name, 0) + 1
            yield line + "\n"
        else:
            yield _usual(chance, count)


def _usual(chance: random.Random, count: int) -> str:
    rank = chance.randrange(RANKS)
    known = {
        "rank": rank, "local": rank % 8, "other": (rank + 8) % RANKS, "lane": count % 32, "count": count,
        "step": count // (2 * RANKS), "clock": _clock(count), "ms": f"{chance.uniform(4400, 4700):.1f}",
        "loss": f"{chance.uniform(1.9, 2.2):.6f}",
    }  # fmt: skip
    (kind,) = chance.choices(("step", "nccl", "python", "kernel", "bar", "json"), (50, 18, 14, 5, 10, 3))
    if kind == "json":
        return f"{rank:4d}: {_json(chance, rank, count)}\n"
    if kind == "bar":
        return f"{rank:4d}: {''.join(_bar(count + part * 7) for part in range(5))}\n"
    return f"{rank:4d}: {_templated(chance, kind).format_map(known)}\n"


def _templated(chance: random.Random, kind: str) -> str:
    if kind == "nccl":
        return "node{other:04d}:12{rank:04d}:13{rank:04d} [{local}] NCCL INFO " + chance.choice(_NCCL)
    if kind == "python":
        return "{clock},{lane:03d} " + chance.choice(_PYTHON)
    return "Nov 30 13:25:57 node{other:04d} " + chance.choice(_KERNEL) if kind == "kernel" else _STEP


def _clock(count: int) -> str:
    seconds = count // 1500
    return f"2026-11-30 {seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _bar(count: int) -> str:
    part = count % 100
    return f"\rEpoch 1: {part:3d}%|{'█' * (part // 5):<20}| {part * 37}/3700 [00:12<00:09, 3.10it/s]"


def _json(chance: random.Random, rank: int, count: int) -> str:
    timings = {f"layer_{layer}": round(chance.random(), 4) for layer in range(40)}
    return json.dumps({"ts": count / 1500, "rank": rank, "event": "step", "loss": chance.random(), "timings": timings})
