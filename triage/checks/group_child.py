"""A child process that measures what is between GPUs. Standard library and torch alone.

    python -m triage.checks.group_child pairs RESULT   copies between all pairs of this process's GPUs
    ... ranks RESULT RANK WORLD EACH START SECONDS [cpu]
                                                       one rank of an all-reduce; EACH ranks are on every node

START is torch's init_method (file:// or tcp://). With more than one node, each pair of a round measures alone before
all do. RESULT gets JSON lines as they are measured.
"""

from __future__ import annotations

import datetime
import json
import socket
import sys
import time
from typing import Any

COPY = 256 << 20
REDUCE = 1 << 30  # bytes a rank: at 256 MiB two linked H200 reach four fifths of what they can
REPEAT = 10


def teller(path: str) -> Any:
    """A function that writes one line to the result."""
    sink = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115, PTH123

    def tell(name: str, on: str, **more: Any) -> None:
        sink.write(json.dumps({"name": name, "on": on, **more}) + "\n")

    return tell


def pairs(torch: Any, tell: Any) -> None:
    """Bandwidth of copies from each GPU to each other, and whether they arrive as they were sent."""
    count = torch.cuda.device_count()
    for source in range(count):
        for target in range(count):
            if source != target:
                _pair(torch, tell, source, target)


def _pair(torch: Any, tell: Any, source: int, target: int) -> None:
    on = f"gpu {source} > gpu {target}"
    direct = torch.cuda.can_device_access_peer(target, source)
    ours = _pattern(torch, f"cuda:{source}", source)
    there = torch.empty_like(ours, device=f"cuda:{target}")
    times = []
    for _ in range(REPEAT):
        torch.cuda.synchronize(source)
        torch.cuda.synchronize(target)
        start = time.perf_counter()
        there.copy_(ours)
        torch.cuda.synchronize(source)
        torch.cuda.synchronize(target)
        times.append(time.perf_counter() - start)
    wrong = int((there != _pattern(torch, f"cuda:{target}", source)).sum())
    tell("copied bytes", on, value=wrong, unit="wrong bytes", ok=wrong == 0)
    how = "peer to peer" if direct else "through the host: no peer access"
    tell("copy", on, value=COPY * 1e-9 / sorted(times)[len(times) // 2], unit="GB/s", text=how)


def _pattern(torch: Any, device: str, seed: int) -> Any:
    return ((torch.arange(COPY, device=device, dtype=torch.int32) * 7 + seed) % 251).to(torch.uint8)


class Ranks:
    """One rank of the group."""

    def __init__(self, torch: Any, rank: int, world: int, each: int, start: str, seconds: float, cpu: bool) -> None:
        self.torch, self.rank, self.world, self.each, self.cpu = torch, rank, world, each, cpu
        self.device = torch.device("cpu") if cpu else torch.device("cuda", rank % each)
        if not cpu:
            torch.cuda.set_device(self.device)
        torch.distributed.init_process_group(
            "gloo" if cpu else "cpu:gloo,cuda:nccl",
            init_method=start,
            rank=rank,
            world_size=world,
            timeout=datetime.timedelta(seconds=seconds),
        )

    def run(self, tell: Any) -> None:
        """Pairs of nodes first, then all; rank 0 tells what all ranks found."""
        names: list[Any] = [None] * self.world
        self.torch.distributed.all_gather_object(names, socket.gethostname())
        hosts = _distinct(names[:: self.each])
        found = self._rounds(hosts) if self.world > self.each else []
        found.append(self._reduced("all", self.torch.distributed.group.WORLD, self.world))
        everything: list[Any] = [None] * self.world
        self.torch.distributed.all_gather_object(everything, found)
        for rows in everything if self.rank == 0 else []:
            for name, on, more in (row for pair in rows for row in pair):
                tell(name, on, **more)
        self.torch.distributed.destroy_process_group()

    def _rounds(self, hosts: list[str]) -> list[Any]:
        """Node i with node i xor 2^k: in log2 n rounds every node meets as many others."""
        found, stride = [], 1
        while stride < len(hosts):
            found += [row for pair in range(len(hosts)) if (row := self._met(hosts, pair, pair ^ stride))]
            stride *= 2
        return found

    def _met(self, hosts: list[str], one: int, other: int) -> Any:
        if other <= one or other >= len(hosts):
            return None
        members = [node * self.each + local for node in (one, other) for local in range(self.each)]
        group = self.torch.distributed.new_group(members)  # all ranks must make every group
        if self.rank not in members:
            return None
        return self._reduced(f"{hosts[one]} + {hosts[other]}", group, len(members), members)

    def _reduced(self, on: str, group: Any, size: int, members: list[int] | None = None) -> list[Any]:
        """Bus bandwidth as nccl-tests count it, and whether the sum is right. Told by the group's first rank."""
        torch, words = self.torch, (REDUCE if not self.cpu else 1 << 16) // 4
        base = torch.arange(words, device=self.device, dtype=torch.int32) % 1009
        members = members or list(range(size))
        data = (base + self.rank).float()
        torch.distributed.all_reduce(data, group=group)
        wrong = int((data != (base * size + sum(members)).float()).sum())
        bad = torch.tensor([wrong], device=self.device)
        torch.distributed.all_reduce(bad, group=group)
        data.fill_(0)
        for _ in range(3):
            torch.distributed.all_reduce(data, group=group)
        seconds = self._timed(data, group)
        if self.rank != members[0]:
            return []
        rate = 2 * (size - 1) / size * words * 4 * 1e-9 / seconds
        sums = {"value": int(bad), "unit": "wrong sums", "ok": int(bad) == 0}
        return [("all-reduce sums", on, sums), ("all-reduce", on, {"value": rate, "unit": "GB/s"})]

    def _timed(self, data: Any, group: Any) -> float:
        self._wait()
        start = time.perf_counter()
        for _ in range(REPEAT):
            self.torch.distributed.all_reduce(data, group=group)
        self._wait()
        return (time.perf_counter() - start) / REPEAT

    def _wait(self) -> None:
        if not self.cpu:
            self.torch.cuda.synchronize()


def _distinct(names: list[str]) -> list[str]:
    """Names that are there once; what several nodes call themselves alike gets a number."""
    return [name if names.count(name) == 1 else f"{name}#{at}" for at, name in enumerate(names)]


def main(arguments: list[str]) -> None:
    """Pairs or ranks. torch's own errors end the process; its last line on standard error tells why."""
    import torch

    mode, path, *rest = arguments
    if mode == "pairs":
        pairs(torch, teller(path))
        return
    import torch.distributed

    rank, world, each = (int(word) for word in rest[:3])
    Ranks(torch, rank, world, each, rest[3], float(rest[4]), rest[5:] == ["cpu"]).run(teller(path))


if __name__ == "__main__":
    main(sys.argv[1:])
