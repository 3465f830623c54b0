"""`nvidia-smi -q`: an indented tree of `key : value` lines, in the wording of all driver generations."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.parsers import _stamps
from triage.parsers._smi_device import Device, Process

START = re.compile(r"=+NVSMI LOG=+")
_GPU = re.compile(r"GPU (?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_LEAF = re.compile(r"(?P<indent>[ \t]*)(?P<key>[^:\s][^:]{0,80}?)\s*(?: : ?(?P<value>.*)| ?:\s*(?P<late>.*))?$")
_HEAD = ("Timestamp", "Driver Version", "CUDA Version", "Attached GPUs", "Attached CPUs")
DEPTH = 12


def devices(lines: list[str], start: int) -> tuple[list[Device], int]:
    """The GPUs of the output that starts at `start`, and the index of the first line behind it."""
    head: dict[str, tuple[str, int]] = {}
    found: list[Device] = []
    index = start + 1
    while index < len(lines) and not START.search(lines[index]):
        line = lines[index].rstrip()
        if line and line[0] not in " \t":
            if match := _GPU.match(line):
                found.append(Device(line=index + 1, complete=True))
                index = _fill(found[-1], lines, index, match["pci"])
                continue
            if not line.startswith(_HEAD):
                break
            key, _, value = line.partition(":")
            head[key.strip()] = (value.strip(), index + 1)
        index += 1
    _number(found, head)
    return found, index


def _number(found: list[Device], head: dict[str, tuple[str, int]]) -> None:
    """Index, time and driver of each GPU. Position is the index only when all GPUs are listed."""
    whole = head.get("Attached GPUs", ("", 0))[0] == str(len(found))
    time, _ = _stamps.find(head.get("Timestamp", ("", 0))[0])
    for position, device in enumerate(found):
        minor = device.readings.get("minor_number", ("", 0))[0]
        device.index = position if whole else int(minor) if minor.isdigit() and len(minor) < 5 else None
        device.time = time
        if "Driver Version" in head:
            device.readings["driver_version"] = head["Driver Version"]


def _fill(device: Device, lines: list[str], start: int, pci: str) -> int:
    device.readings["header"] = (pci, start + 1)
    for index, path, value in _leaves(lines, start + 1):
        if path is None:
            return index
        if path.startswith("processes"):
            _process(device, path, value, index + 1)
        if value is not None:
            device.readings.setdefault(path, (value, index + 1))
        elif path == "ecc_errors":
            device.readings.setdefault(path, ("present", index + 1))
    return len(lines)


def _leaves(lines: list[str], start: int) -> Iterator[tuple[int, str | None, str | None]]:
    """(index, path, value) of each line below a GPU; a path of None ends it."""
    stack: list[tuple[int, str]] = []
    for index in range(start, len(lines)):
        line = lines[index].rstrip()
        if not line:
            continue
        if line[0] not in " \t":
            yield index, None, None
            return
        match = _LEAF.match(line)
        if match is None:
            continue
        indent = len(match["indent"].expandtabs(8))
        while stack and stack[-1][0] >= indent:
            stack.pop()
        if len(stack) < DEPTH:
            stack.append((indent, slug(match["key"])))
        value = match["value"] if match["value"] is not None else match["late"]
        yield index, "/".join(key for _, key in stack), value


def _process(device: Device, path: str, value: str | None, line: int) -> None:
    """`Process ID` opens a process; its type, name and memory follow."""
    key = path.rsplit("/", 1)[-1]
    if key == "process_id" and value and value.strip().isdigit() and len(value) < 12:
        device.processes.append(Process(pid=int(value), line=line))
    elif device.processes and value is not None:
        if key == "name":
            device.processes[-1].name = value.strip()
        elif key == "used_gpu_memory":
            device.processes[-1].memory = value.strip()


def slug(key: str) -> str:
    """`HW Power Brake Slowdown` -> `hw_power_brake_slowdown`."""
    return re.sub(r"[^a-z0-9]+", "_", key.strip().lower()).strip("_")
