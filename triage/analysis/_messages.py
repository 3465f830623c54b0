"""The numbers of an out-of-memory message of PyTorch's CUDA allocator, in all its versions.

Up to 2.0 all numbers stand in parentheses; from 2.1 on they are sentences, one for each other process on the GPU;
from 2.4 on private pools are named; a memory fraction adds what is allowed. HIP builds print the same but a word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from triage.model.signature import size_in_bytes

_SIZE = r"(\d{1,15}(?:\.\d{1,9})?\s*(?:bytes|[KMGTPE]?i?B))"
_ABOUT = {
    "tried": (rf"Tried to allocate {_SIZE}", rf"Requested size: {_SIZE}"),
    "total": (rf"total capac(?:i?ty)? of {_SIZE}", rf"{_SIZE} total capaci?ty"),
    "free": (rf"of which {_SIZE} is free", rf"{_SIZE} free"),
    "in_use": (rf"this process has {_SIZE} memory in use",),
    "allowed": (rf"{_SIZE} allowed",),
    "allocated": (rf"{_SIZE} is allocated by PyTorch", rf"{_SIZE} already allocated"),
    "unallocated": (rf"{_SIZE} is reserved by PyTorch but unallocated",),
    "reserved": (rf"{_SIZE} (?:reserved in total by PyTorch|cached)",),
    "pools": (rf"{_SIZE} allocated in private pools",),
}
_COMPILED = {name: [re.compile(text) for text in texts] for name, texts in _ABOUT.items()}
_HEAD = re.compile(r"(?:CUDA|HIP|XPU) out of memory\.|Tried to allocate")
_GPU = re.compile(r"\bGPU (\d{1,3})\b")
_OTHER = re.compile(rf"Process (\d{{1,18}}) has {_SIZE} memory in use")
_HUGE = re.compile(r"Tried to allocate (?:more than 1\s?EB|-\d)")


@dataclass(frozen=True)
class Shortage:
    """One message; sizes in bytes, None where it does not say. others: process id -> bytes."""

    gpu: int | None
    tried: int | None
    total: int | None
    free: int | None
    in_use: int | None
    allowed: int | None
    allocated: int | None
    unallocated: int | None
    others: tuple[tuple[int, int], ...]
    impossible: bool

    @property
    def foreign(self) -> int | None:
        """Memory on the GPU that is neither free nor this process's; of old messages only what no context can be."""
        if self.total is None or self.free is None:
            return sum(size for _, size in self.others) or None
        if self.in_use is not None:
            return max(self.total - self.free - self.in_use, sum(size for _, size in self.others), 0)
        if self.allocated is None or self.unallocated is None:
            return None
        # CUDA's context, NCCL and cuDNN take 0.5 to 3 GiB of a process beside what the allocator counts.
        rest = self.total - self.free - self.allocated - self.unallocated
        return max(rest, 0) if rest > max(3 << 30, self.total // 10) else 0

    @property
    def fragmentation(self) -> float | None:
        """The part of what the allocator holds that it could not use, 0 to 1."""
        if self.allocated is None or self.unallocated is None or self.allocated + self.unallocated <= 0:
            return None
        return self.unallocated / (self.allocated + self.unallocated)


def shortage(message: str) -> Shortage | None:
    """The first out-of-memory message in a text of at most 20,000 characters, or None."""
    head = _HEAD.search(message)
    if not head:
        return None
    body = message[head.start() : head.start() + 20_000].replace("\n", " ")
    numbers = {name: _first(body, name) for name in _COMPILED}
    allocated, unallocated = numbers["allocated"], numbers["unallocated"]
    if unallocated is None and numbers["reserved"] is not None and allocated is not None:
        unallocated = max(numbers["reserved"] - allocated, 0)
    gpu = _GPU.search(body)
    in_use, others = _own_share(body, numbers["in_use"], allocated, unallocated)
    return Shortage(
        gpu=int(gpu.group(1)) if gpu else None, tried=numbers["tried"], total=numbers["total"], free=numbers["free"],
        in_use=in_use, allowed=numbers["allowed"], allocated=allocated, unallocated=unallocated, others=others,
        impossible=bool(_HUGE.search(body)),
    )  # fmt: skip


def _first(body: str, name: str) -> int | None:
    for expression in _COMPILED[name]:
        if found := expression.search(body):
            return size_in_bytes(found.group(1).replace("bytes", ""))
    return None


def _own_share(
    body: str, in_use: int | None, allocated: int | None, unallocated: int | None
) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    """In a container the driver's process numbers are not those inside: then one of the others is this process."""
    others = [(int(pid), size_in_bytes(size)) for pid, size in _OTHER.findall(body)[:64]]
    if in_use is None and others and allocated is not None:
        held = allocated + (unallocated or 0)
        own = min((one for one in others if one[1] >= held), key=lambda one: one[1], default=None)
        if own is not None:
            others.remove(own)
            in_use = own[1]
    return in_use, tuple(others)
