"""What the driver's NVML says of a card: clocks, errors, who uses it. Silent when it cannot be asked.

Runs in the children: standard library, and pynvml when it can be imported.
"""

from __future__ import annotations

import threading
from typing import Any

SLOWDOWN = {0x8: "hardware slowdown", 0x40: "hardware thermal", 0x80: "power brake", 0x20: "software thermal"}
POWER_CAP = 0x4
VOLATILE, UNCORRECTED = 0, 1


def handle_of(torch: Any, index: int) -> tuple[Any, Any]:
    """(pynvml, handle) of torch's device, found by its UUID; (None, None) when NVML cannot say."""
    try:
        import pynvml
    except ImportError:
        return None, None
    try:
        pynvml.nvmlInit()
        uuid = str(torch.cuda.get_device_properties(index).uuid)
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID("GPU-" + uuid.removeprefix("GPU-"))
    except (AttributeError, pynvml.NVMLError):
        return None, None


def users(least: int) -> dict[str, str] | None:
    """UUID without prefix -> who uses the card: processes, or more memory than `least` bytes; None without NVML."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return {_uuid(pynvml.nvmlDeviceGetUUID(handle)): _user(pynvml, handle, least) for handle in handles}
    except pynvml.NVMLError:
        return None


def _uuid(told: str | bytes) -> str:
    return (told.decode() if isinstance(told, bytes) else told).removeprefix("GPU-")


def _user(nvml: Any, handle: Any, least: int) -> str:
    if running := asked(nvml, "nvmlDeviceGetComputeRunningProcesses", handle):
        return "process " + ", ".join(str(one.pid) for one in running[:4])
    memory = asked(nvml, "nvmlDeviceGetMemoryInfo", handle)
    if memory is not None and memory.used > max(least, memory.total // 32):
        return f"{memory.used / (1 << 30):.1f} GiB are in use"
    return ""


def asked(nvml: Any, function: str, *arguments: Any) -> Any:
    """An answer of NVML, or None."""
    try:
        return getattr(nvml, function)(*arguments)
    except (AttributeError, nvml.NVMLError):
        return None


class Watch(threading.Thread):
    """Clock (MHz), temperature (C), power (W) and reasons of slowdown, four times a second while work runs."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        super().__init__(daemon=True)
        self._nvml, self._handle, self._over = nvml, handle, threading.Event()
        self.rows: list[tuple[int | None, int | None, int | None, int]] = []

    def run(self) -> None:
        """Read until told to end."""
        nvml, handle = self._nvml, self._handle
        while nvml is not None and not self._over.wait(0.25):
            reasons = asked(nvml, "nvmlDeviceGetCurrentClocksEventReasons", handle)
            if reasons is None:
                reasons = asked(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
            self.rows.append((
                asked(nvml, "nvmlDeviceGetClockInfo", handle, 1),
                asked(nvml, "nvmlDeviceGetTemperature", handle, 0),
                asked(nvml, "nvmlDeviceGetPowerUsage", handle),
                int(reasons or 0),
            ))  # fmt: skip

    def end(self) -> None:
        """Stop reading."""
        self._over.set()
        self.join(2)


def uncorrectable(nvml: Any, handle: Any) -> int | None:
    """Uncorrectable memory errors since the driver was loaded; None when nobody counts."""
    return None if nvml is None else asked(nvml, "nvmlDeviceGetTotalEccErrors", handle, UNCORRECTED, VOLATILE)
