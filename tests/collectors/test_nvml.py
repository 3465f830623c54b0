"""The GPU state of NVML: each field is a value, or says why there is none, whatever pynvml and the driver know."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pynvml as real
import pytest

ROOT = Path(__file__).resolve().parents[2] / "collectors"
# What an engineer looks for -> our names for it; of links, those behind a dot.
LOOKED_FOR = {
    "ECC, volatile": ("ecc_mode", "ecc_volatile_corrected", "ecc_volatile_uncorrected"),
    "ECC, aggregate": ("ecc_aggregate_corrected", "ecc_aggregate_uncorrected"),
    "remapped rows": ("remapped_rows", "row_remapper", "remapped_pending", "remapped_failure"),
    "retired pages": ("retired_single", "retired_double", "retired_pending", "retired_pages_double"),
    "temperatures": ("temperature_c", "temperature_memory_c", "temperature_slowdown_c", "temperature_shutdown_c"),
    "clocks": ("clock_sm_mhz", "clock_memory_mhz", "clock_max_sm_mhz", "clock_max_memory_mhz", "pstate"),
    "throttling": ("throttle_reasons", "throttle_supported", "throttled_power_ns", "throttled_thermal_ns"),
    "power": ("power_mw", "power_limit_mw", "power_average_mw", "energy_mj"),
    "PCIe": ("pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max", "pcie_replays", "pcie_fatal"),
    "NVLink": (".state", ".version", ".speed_mbps", ".replay_errors", ".crc_flit_errors", ".effective_errors"),
    "processes": ("processes", "graphics_processes"),
    "MIG": ("mig_mode", "mig_devices_max"),
    "modes": ("compute_mode", "persistence"),
    "fabric": ("fabric",),
}


class Refused(Exception):
    """As NVMLError: says what it is about."""


def refuse(*_: Any) -> Any:
    raise Refused("Not Supported")


def pretended(works: bool) -> ModuleType:
    """A pynvml that knows every name of the real one, and whose calls all give 7, or are all refused."""
    made: Any = ModuleType("pynvml")
    for name in dir(real):
        if name.startswith(("NVML_", "c_nvmlGpuFabricInfo")) or name == "byref":
            setattr(made, name, getattr(real, name))
        elif name.startswith("nvml"):
            setattr(made, name, (lambda *_: 7) if works else refuse)
    made.NVMLError, made.nvmlInit, made.nvmlDeviceGetCount = Refused, lambda: None, lambda: 1
    made.nvmlDeviceGetHandleByIndex = lambda index: f"gpu {index}"
    made.nvmlDeviceGetNvLinkState = lambda handle, link: 1
    value = SimpleNamespace(nvmlReturn=0 if works else 3, valueType=3, value=SimpleNamespace(ullVal=7))
    made.nvmlDeviceGetFieldValues = lambda handle, wanted: [value] * len(wanted)
    return made


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    names = ("nvml", "_ranks")
    yield importlib.import_module("nvml")
    for name in names:
        sys.modules.pop(name)


def collected(collector: Any, monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> dict[str, Any]:
    monkeypatch.setattr(collector, "_pynvml", lambda run: module)
    texts: dict[str, str] = {}
    collector.collect(SimpleNamespace(text=texts.__setitem__, note=lambda *words, **more: None))
    found: dict[str, Any] = json.loads(texts["nvml.json"])
    return found


@pytest.mark.parametrize("works", [True, False])
def test_each_field_is_a_value_or_says_why_not(collector: Any, monkeypatch: pytest.MonkeyPatch, works: bool) -> None:
    found = collected(collector, monkeypatch, pretended(works))
    (gpu,) = found["gpus"]
    assert len(gpu["links"]) == real.NVML_NVLINK_MAX_LINKS
    for names in LOOKED_FOR.values():
        for name in names:
            value = gpu["links"][0][name[1:]] if name[0] == "." else gpu[name]
            if name == ".state":
                assert value == 1
            elif works:
                assert value == 7 or "state" in value, name
            else:
                assert set(value) == {"unsupported"}, name
                assert value["unsupported"], name
    assert found["driver"] == (7 if works else {"unsupported": "Not Supported"})


def test_a_pynvml_that_knows_nothing(collector: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bare: Any = pretended(False)
    for name in [name for name in dir(bare) if name.startswith(("NVML_", "c_nvml", "nvmlDeviceGet"))]:
        if name not in ("nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"):
            delattr(bare, name)
    (gpu,) = collected(collector, monkeypatch, bare)["gpus"]
    assert gpu["remapped_rows"] == gpu["power_average_mw"] == gpu["fabric"] == {"unsupported": "unknown to this pynvml"}
    assert gpu["nvlink"] == {"unsupported": "unknown to this pynvml"}


def test_every_name_is_one_of_nvml(collector: Any) -> None:
    """A slip in a name would look like a pynvml that is too old."""
    for _, function, more in [*collector.CALLS, *collector.LINK_CALLS]:
        assert hasattr(real, f"nvmlDeviceGet{function}") or hasattr(real, f"nvmlDeviceGet{function[:-3]}"), function
        assert all(hasattr(real, f"NVML_{one}") for one in more), function
    for _, field in [*collector.FIELDS, *collector.LINK_FIELDS]:
        assert hasattr(real, f"NVML_FI_DEV_{field}"), field


def test_without_pynvml_nvidia_smi_is_asked(collector: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_pynvml", lambda run: None)
    asked: list[list[str]] = []
    collector.collect(SimpleNamespace(command=lambda words, name: asked.append(words), note=lambda *w, **m: None))
    assert asked == [["nvidia-smi", f"--query-gpu={collector.QUERY}", "--format=csv"]]
