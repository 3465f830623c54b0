"""A child process that measures one GPU. Standard library and torch alone, and pynvml when it can be imported.

    python -m triage.checks.gpu_child look RESULT                which GPUs are there, and who uses them
    ... measure RESULT GPU SECONDS LOCK [PLANT]                  one GPU: an index, or `cpu` to try the logic

RESULT gets JSON lines as they are measured. LOCK is a file: one process at a time measures the PCIe link, which cards
share. PLANT (`product` or `memory`) spoils one value, to show that the check catches it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from triage.checks.nvml import POWER_CAP, SLOWDOWN, Watch, asked, handle_of, uncorrectable, users

SIZES = (4096, 8192, 16384)  # of the square products whose speed is measured
BURST = 20  # products
EXACT = 8192  # size of the product that is compared with its reference
ROWS = 2  # of it that the host computes, too
CHUNK = 1 << 30  # bytes
SHARE = 0.9  # of the free memory that gets patterns
COPY = 4 << 30
HOST = 256 << 20
PATTERNS = (0, -1, 0x5555555555555555, -0x5555555555555556)
USED = 2 << 30  # bytes that the driver itself may hold on an idle card


class Teller:
    """Writes what was found, a line each, at once. `plant`: what to spoil."""

    def __init__(self, path: str, on: str = "", plant: str = "") -> None:
        self._sink = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115, PTH123
        self.on, self.plant = on, plant

    def tell(
        self, name: str, value: float | None = None, unit: str = "", ok: bool | None = None, text: str = ""
    ) -> None:
        """One line; what is None is left out."""
        row = {"name": name, "on": self.on, "value": value, "unit": unit, "ok": ok, "text": text}
        self._sink.write(json.dumps({key: item for key, item in row.items() if item not in (None, "")}) + "\n")


class Card:
    """The device, and how to time work on it."""

    def __init__(self, torch: Any, which: str) -> None:
        self.torch, self.cuda = torch, which != "cpu"
        self.device = torch.device("cuda", int(which)) if self.cuda else torch.device("cpu")
        if self.cuda:
            torch.cuda.set_device(self.device)

    def wait(self) -> None:
        """Until all that was asked of the device is done."""
        if self.cuda:
            self.torch.cuda.synchronize()

    def seconds(self, work: Callable[[], Any], times: int = 1) -> float:
        """Seconds that one of `times` repetitions takes on the device."""
        if not self.cuda:
            start = time.perf_counter()
            for _ in range(times):
                work()
            return (time.perf_counter() - start) / times
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(times):
            work()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000 / times

    def free(self) -> int:
        """Bytes that can be allocated."""
        return int(self.torch.cuda.mem_get_info()[0]) if self.cuda else 64 << 20

    def give_back(self) -> None:
        """Cached memory to the driver."""
        if self.cuda:
            self.torch.cuda.empty_cache()


def look(torch: Any, teller: Teller) -> None:
    """One `gpu` line for each card; `ok` is false when something else uses it."""
    busy = users(USED)  # asked before torch makes a context of its own
    for index in range(torch.cuda.device_count()):
        teller.on = f"gpu {index}"
        known = torch.cuda.get_device_properties(index)
        used = (
            _full(torch, index) if busy is None else busy.get(str(getattr(known, "uuid", "")).removeprefix("GPU-"), "")
        )
        teller.tell("gpu", known.total_memory, "bytes", not used, known.name)
        if used:
            teller.tell("busy", text=used)


def _full(torch: Any, index: int) -> str:
    """Without NVML: memory that is gone, less this process's own context."""
    free, total = torch.cuda.mem_get_info(index)
    used = total - free - (1 << 30)
    return f"{used / (1 << 30):.1f} GiB are in use" if used > max(USED, total // 32) else ""


def measure(torch: Any, teller: Teller, which: str, seconds: float, lock: str) -> None:
    """All figures of one card: its speed while it is rested, the proofs, then lasting load."""
    card = Card(torch, which)
    nvml, handle = handle_of(torch, int(which)) if card.cuda else (None, None)
    _about(card, teller, nvml, handle)
    before = uncorrectable(nvml, handle)
    best = burst(card, teller)  # first: the load of the proofs costs a tenth of it
    pattern(card, teller, seconds)
    product(card, teller, seconds)
    load(card, teller, best, seconds, Watch(nvml, handle))
    copies(card, teller)
    with _alone(lock):
        host(card, teller)
    after = uncorrectable(nvml, handle)
    if before is not None and after is not None:
        teller.tell("memory errors counted", after - before, ok=after == before, text="uncorrectable, by the card")


def _about(card: Card, teller: Teller, nvml: Any, handle: Any) -> None:
    if not card.cuda:
        return
    known = card.torch.cuda.get_device_properties(card.device)
    teller.tell("device", text=known.name)
    teller.tell("compute", text=f"{known.major}.{known.minor}")
    teller.tell("multiprocessors", known.multi_processor_count)
    teller.tell("torch", text=f"{card.torch.__version__} CUDA {card.torch.version.cuda}")
    for name, function in (
        ("pcie generation", "nvmlDeviceGetMaxPcieLinkGeneration"), ("pcie width", "nvmlDeviceGetMaxPcieLinkWidth"),
    ):  # fmt: skip
        if nvml is not None and (value := asked(nvml, function, handle)) is not None:
            teller.tell(name, value)


def pattern(card: Card, teller: Teller, seconds: float) -> None:
    """Fill nearly all free memory, then read it back: two fixed bit patterns and their complements, then addresses."""
    torch, deadline = card.torch, time.monotonic() + seconds
    # Two chunks stay free: comparing takes them for its intermediate results.
    count = max(1, int(card.free() * SHARE) // CHUNK - 2) if card.cuda else 2
    words = CHUNK // 8 if card.cuda else 1 << 16
    chunks = [torch.empty(words, dtype=torch.int64, device=card.device) for _ in range(count)]
    wrong, done, first = 0, 0, ""
    for value in (*PATTERNS, None):
        if done and time.monotonic() > deadline:
            break
        _fill(card, chunks, value)
        if teller.plant == "memory" and value == PATTERNS[2]:
            chunks[-1][words // 3] ^= 1 << 13
        for place, chunk in enumerate(chunks):
            bad, where = _differences(card, chunk, place * words, value)
            wrong, first = wrong + bad, first or where
        done += 1
    size = count * words * 8 / (1 << 30)
    text = f"{done} patterns over {size:.1f} GiB{first and ', first at ' + first}"
    teller.tell("memory pattern", wrong, "wrong words", wrong == 0, text)
    del chunks
    card.give_back()


def _fill(card: Card, chunks: list[Any], value: int | None) -> None:
    words = chunks[0].numel()
    for place, chunk in enumerate(chunks):
        if value is None:
            card.torch.arange(place * words, (place + 1) * words, out=chunk)
        else:
            chunk.fill_(value)
    card.wait()


def _differences(card: Card, chunk: Any, start: int, value: int | None) -> tuple[int, str]:
    torch = card.torch
    wanted = torch.arange(start, start + chunk.numel(), device=card.device) if value is None else value
    differs = chunk != wanted
    bad = int(torch.count_nonzero(differs))
    if not bad:
        return 0, ""
    at = int(differs.to(torch.uint8).argmax())
    bits = int(chunk[at]) ^ (start + at if value is None else value)
    return bad, f"byte {8 * (start + at):#x} (bits {bits & (2**64 - 1):#x})"


def product(card: Card, teller: Teller, seconds: float) -> None:
    """Products of small integers, whose partial sums are exact: tensor cores, plain fp32 units and the host agree."""
    torch, deadline, size = card.torch, time.monotonic() + seconds, EXACT if card.cuda else 256
    if card.cuda and card.free() < 12 * size * size * 4:
        size = 4096
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    wrong, rounds, first = 0, 0, ""
    while rounds == 0 or (time.monotonic() < deadline and rounds < 20):
        bad, where = _compared(card, size, rounds, teller.plant == "product")
        wrong, first, rounds = wrong + bad, first or where, rounds + 1
    text = f"{rounds} rounds of {size} x {size}, three precisions, against fp32 and the host{first and ': ' + first}"
    teller.tell("matrix product", wrong, "wrong elements", wrong == 0, text)
    card.give_back()


def _compared(card: Card, size: int, seed: int, plant: bool) -> tuple[int, str]:
    torch = card.torch
    dice = torch.Generator(device=card.device).manual_seed(4711 + seed)
    left, right = (torch.randint(-1, 2, (size, size), generator=dice, device=card.device).float() for _ in range(2))
    reference = left @ right
    wrong, first = _host_rows(card, left, right, reference)
    for kind in ("bfloat16", "float16", "tf32"):
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
        of = torch.float32 if kind == "tf32" else getattr(torch, kind)
        found = left.to(of) @ right.to(of)
        torch.backends.cuda.matmul.allow_tf32 = False
        if plant and seed == 0 and kind == "bfloat16":
            found[size // 3, size // 5] += 8
        differs = found != reference.to(of)
        if bad := int(torch.count_nonzero(differs)):
            at = int(differs.flatten().to(torch.uint8).argmax())
            wrong, first = wrong + bad, first or f"{kind} row {at // size} column {at % size}"
    return wrong, first


def _host_rows(card: Card, left: Any, right: Any, reference: Any) -> tuple[int, str]:
    """The first rows once more on the host, so that an error common to all units of the card shows."""
    own = left[:ROWS].cpu() @ right.cpu()
    bad = int(card.torch.count_nonzero(own != reference[:ROWS].cpu()))
    return bad, "fp32 against the host" if bad else ""


def burst(card: Card, teller: Teller) -> int:
    """Speed of torch's bf16 product while the card is rested, and the size that is best at it."""
    rates = {size: _rate(card, size) for size in (SIZES if card.cuda else (128, 256))}
    best = max(rates, key=lambda size: rates[size])
    teller.tell(
        "product speed", rates[best], "TFLOP/s", text=f"bf16, {best} x {best}, best of {len(rates)} sizes, rested"
    )
    return best


def load(card: Card, teller: Teller, size: int, seconds: float, watch: Watch) -> None:
    """Products for some seconds: speed and clocks once the card is warm, and the same bits each time."""
    watch.start()
    lasting, changed, rounds = _load(card, size, seconds, teller.plant == "product")
    watch.end()
    teller.tell("product speed under load", lasting, "TFLOP/s", text=f"bf16, {size} x {size}, {seconds:.0f} s")
    teller.tell("same product again", changed, "differing", changed == 0, f"{rounds} comparisons bit by bit")
    _clocks(teller, watch)


def _operands(card: Card, size: int) -> tuple[Any, Any, Any]:
    dice = card.torch.Generator(device=card.device).manual_seed(size)
    made = [
        card.torch.randn(size, size, generator=dice, device=card.device, dtype=card.torch.bfloat16) for _ in range(2)
    ]
    return made[0], made[1], card.torch.empty_like(made[0])


def _rate(card: Card, size: int) -> float:
    """TFLOP/s of BURST products after a warm-up: few, for a card at its power limit slows down within seconds."""
    left, right, out = _operands(card, size)
    for _ in range(3):
        card.torch.matmul(left, right, out=out)
    card.wait()
    return 2e-12 * size**3 / card.seconds(lambda: card.torch.matmul(left, right, out=out), BURST)


def _load(card: Card, size: int, seconds: float, plant: bool) -> tuple[float, int, int]:
    left, right, out = _operands(card, size)
    wanted = card.torch.matmul(left, right, out=out).clone()
    rates: list[float] = []
    changed, deadline = 0, time.monotonic() + seconds
    while not rates or time.monotonic() < deadline:
        rates.append(2e-12 * size**3 / card.seconds(lambda: card.torch.matmul(left, right, out=out), 10))
        if plant and len(rates) == 1:
            out[1, 2] += 1
        changed += not card.torch.equal(out.view(card.torch.int16), wanted.view(card.torch.int16))
    late = rates[len(rates) // 2 :]
    return statistics.median(late), changed, len(rates)


def _clocks(teller: Teller, watch: Watch) -> None:
    rows = watch.rows[len(watch.rows) // 2 :]
    for at, name, unit, scale in (
        (0, "clock under load", "MHz", 1),
        (1, "temperature", "C", 1),
        (2, "power", "W", 1000),
    ):
        values = [row[at] for row in rows if row[at] is not None]
        if values:
            teller.tell(name, round(statistics.median(values) / scale), unit)  # type: ignore[type-var,operator]
    if rows:
        seen = sorted({word for row in rows for bit, word in SLOWDOWN.items() if row[3] & bit})
        capped = sum(bool(row[3] & POWER_CAP) for row in rows) / len(rows)
        text = ", ".join(seen) or f"none; at its power limit {100 * capped:.0f} % of the time"
        teller.tell("slowdown", len(seen), "reasons", not seen, text)


def copies(card: Card, teller: Teller) -> None:
    """Device-to-device copy, bytes read and written."""
    size = min(COPY, card.free() // 4) if card.cuda else 8 << 20
    source = card.torch.empty(size, dtype=card.torch.uint8, device=card.device).fill_(7)
    target = card.torch.empty_like(source)
    times = [card.seconds(lambda: target.copy_(source)) for _ in range(22)][2:]
    teller.tell("memory bandwidth", 2e-9 * size / statistics.median(times), "GB/s", text="copy, read and written")


def host(card: Card, teller: Teller) -> None:
    """Copies from and to pinned host memory, and whether all bytes come back."""
    torch, size = card.torch, HOST if card.cuda else 1 << 20
    ours, back = (torch.empty(size, dtype=torch.uint8, pin_memory=card.cuda) for _ in range(2))
    ours.random_(generator=torch.Generator().manual_seed(7))
    there = torch.empty(size, dtype=torch.uint8, device=card.device)
    to = [card.seconds(lambda: there.copy_(ours, non_blocking=True)) for _ in range(12)][2:]
    fro = [card.seconds(lambda: back.copy_(there, non_blocking=True)) for _ in range(12)][2:]
    card.wait()
    same = bool(torch.equal(ours, back))
    teller.tell("host to gpu", 1e-9 * size / statistics.median(to), "GB/s")
    teller.tell("gpu to host", 1e-9 * size / statistics.median(fro), "GB/s")
    teller.tell("host round trip", 0 if same else 1, "differing", same, f"{size >> 20} MiB there and back")


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    with open(path, "a", encoding="utf-8") as lock:  # noqa: PTH123
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> None:
    """Look or measure. torch's own errors end the process; its last line on standard error tells why."""
    import torch

    mode, path, *rest = arguments
    if mode == "look":
        look(torch, Teller(path))
        return
    which, seconds, lock = rest[:3]
    on = "cpu" if which == "cpu" else f"gpu {which}"
    measure(torch, Teller(path, on, rest[3] if len(rest) > 3 else ""), which, float(seconds), lock)


if __name__ == "__main__":
    main(sys.argv[1:])
