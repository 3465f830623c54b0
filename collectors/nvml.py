"""GPU state through NVML: pynvml when it can be imported, else nvidia-smi's query. Neither makes a CUDA context."""

import glob
import json
import os
import sys

import _ranks

NAME = "nvml"
TITLE = "GPU state through NVML"
NEEDS = ("/dev/nvidiactl|nvidia-smi",)
SECONDS = 20

QUERY = (
    "timestamp,index,name,uuid,pci.bus_id,driver_version,vbios_version,pstate,temperature.gpu,temperature.memory,"
    "power.draw,power.limit,utilization.gpu,utilization.memory,memory.total,memory.used,clocks.sm,clocks.mem,"
    "clocks.max.sm,compute_mode,persistence_mode,mig.mode.current,ecc.mode.current,"
    "ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total,"
    "ecc.errors.corrected.aggregate.total,ecc.errors.uncorrected.aggregate.total,"
    "pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max"
)
# Name of ours: function of NVML and its further arguments. A name in capitals is a constant of NVML.
CALLS = (
    ("name", "Name", ()), ("uuid", "UUID", ()), ("serial", "Serial", ()), ("pci", "PciInfo_v3", ()),
    ("vbios", "VbiosVersion", ()), ("inforom", "InforomImageVersion", ()), ("minor", "MinorNumber", ()),
    ("pstate", "PerformanceState", ()), ("compute_mode", "ComputeMode", ()), ("persistence", "PersistenceMode", ()),
    ("mig_mode", "MigMode", ()), ("ecc_mode", "EccMode", ()),
    ("temperature_c", "Temperature", ("TEMPERATURE_GPU",)),
    ("temperature_slowdown_c", "TemperatureThreshold", ("TEMPERATURE_THRESHOLD_SLOWDOWN",)),
    ("temperature_shutdown_c", "TemperatureThreshold", ("TEMPERATURE_THRESHOLD_SHUTDOWN",)),
    ("power_mw", "PowerUsage", ()), ("power_limit_mw", "EnforcedPowerLimit", ()),
    ("energy_mj", "TotalEnergyConsumption", ()), ("utilization", "UtilizationRates", ()), ("memory", "MemoryInfo", ()),
    ("bar1", "BAR1MemoryInfo", ()), ("fan", "FanSpeed", ()),
    ("clock_sm_mhz", "ClockInfo", ("CLOCK_SM",)), ("clock_memory_mhz", "ClockInfo", ("CLOCK_MEM",)),
    ("clock_max_sm_mhz", "MaxClockInfo", ("CLOCK_SM",)), ("clock_app_sm_mhz", "ApplicationsClock", ("CLOCK_SM",)),
    ("throttle_reasons", "CurrentClocksThrottleReasons", ()),
    ("throttle_supported", "SupportedClocksThrottleReasons", ()),
    ("ecc_volatile_corrected", "TotalEccErrors", ("MEMORY_ERROR_TYPE_CORRECTED", "VOLATILE_ECC")),
    ("ecc_volatile_uncorrected", "TotalEccErrors", ("MEMORY_ERROR_TYPE_UNCORRECTED", "VOLATILE_ECC")),
    ("ecc_aggregate_corrected", "TotalEccErrors", ("MEMORY_ERROR_TYPE_CORRECTED", "AGGREGATE_ECC")),
    ("ecc_aggregate_uncorrected", "TotalEccErrors", ("MEMORY_ERROR_TYPE_UNCORRECTED", "AGGREGATE_ECC")),
    ("remapped_rows", "RemappedRows", ()), ("row_remapper", "RowRemapperHistogram", ()),
    ("retired_single", "RetiredPages", ("PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS",)),
    ("retired_double", "RetiredPages", ("PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR",)),
    ("retired_pending", "RetiredPagesPendingStatus", ()),
    ("pcie_gen", "CurrPcieLinkGeneration", ()), ("pcie_gen_max", "MaxPcieLinkGeneration", ()),
    ("pcie_width", "CurrPcieLinkWidth", ()), ("pcie_width_max", "MaxPcieLinkWidth", ()),
    ("pcie_replays", "PcieReplayCounter", ()), ("processes", "ComputeRunningProcesses", ()),
    ("graphics_processes", "GraphicsRunningProcesses", ()),
)  # fmt: skip
LINK_CALLS = (
    ("state", "NvLinkState", ()), ("version", "NvLinkVersion", ()),
    ("replay_errors", "NvLinkErrorCounter", ("NVLINK_ERROR_DL_REPLAY",)),
    ("recovery_errors", "NvLinkErrorCounter", ("NVLINK_ERROR_DL_RECOVERY",)),
    ("crc_flit_errors", "NvLinkErrorCounter", ("NVLINK_ERROR_DL_CRC_FLIT",)),
    ("crc_data_errors", "NvLinkErrorCounter", ("NVLINK_ERROR_DL_CRC_DATA",)),
    ("remote_pci", "NvLinkRemotePciInfo", ()),
)  # fmt: skip


def collect(run):
    """JSON of every field, each with its value or the reason why there is none."""
    nvml = _pynvml(run)
    if nvml is None:
        run.note("pynvml", skipped="not installed; nvidia-smi answers instead")
        run.command(["nvidia-smi", "--query-gpu=" + QUERY, "--format=csv"], "query-gpu.csv")
        return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        run.text("nvml.txt", "Failed to initialize NVML: %s\n" % error)
        run.note("nvmlInit", failed=str(error))
        return
    found = {"driver": _asked(nvml.nvmlSystemGetDriverVersion), "nvml": _asked(nvml.nvmlSystemGetNVMLVersion)}
    found["cuda"] = _asked(nvml.nvmlSystemGetCudaDriverVersion_v2)
    found["gpus"] = [_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    run.text("nvml.json", json.dumps(found, indent=1, sort_keys=True) + "\n")


def _gpu(nvml, index):
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        return {"index": index, "error": str(error)}
    found = {name: _call(nvml, function, handle, more) for name, function, more in CALLS}
    found.update(index=index, fabric=_fabric(nvml, handle), links=[])
    for link in range(getattr(nvml, "NVML_NVLINK_MAX_LINKS", 18)):
        state = _call(nvml, "NvLinkState", handle, (link,))
        if isinstance(state, dict):
            found["nvlink"] = state
            break
        values = {name: _call(nvml, call, handle, (link, *more)) for name, call, more in LINK_CALLS}
        found["links"].append(dict(values, link=link))
    return found


def _call(nvml, function, handle, more):
    call = getattr(nvml, "nvmlDeviceGet" + function, None) or getattr(nvml, "nvmlDeviceGet" + function[:-3], None)
    constants = [getattr(nvml, "NVML_" + one, None) if isinstance(one, str) else one for one in more]
    if call is None or None in constants:
        return {"unsupported": "unknown to this pynvml"}
    return _asked(call, handle, *constants)


def _fabric(nvml, handle):
    """State of the link to the NVLink fabric: 3 is completed."""
    for version, call in (("v2", "nvmlDeviceGetGpuFabricInfoV"), ("", "nvmlDeviceGetGpuFabricInfo")):
        shape = getattr(nvml, "c_nvmlGpuFabricInfo_%s_t" % version if version else "c_nvmlGpuFabricInfo_t", None)
        if shape is None or not hasattr(nvml, call):
            continue
        info = shape()
        try:
            getattr(nvml, call)(handle, nvml.byref(info))
        except Exception as error:  # signatures differ between versions of pynvml
            return {"unsupported": str(error)}
        return {"state": int(info.state), "status": int(info.status)}
    return {"unsupported": "unknown to this pynvml"}


def _asked(call, *arguments):
    try:
        return _plain(call(*arguments))
    except Exception as error:  # NVMLError, and what a call of another version raises
        return {"unsupported": str(error)}


def _plain(value):
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)) or hasattr(value, "_length_"):
        return [_plain(one) for one in value]
    if hasattr(value, "_fields_"):
        return {field[0]: _plain(getattr(value, field[0], None)) for field in value._fields_}
    return {name: _plain(one) for name, one in vars(value).items()} if hasattr(value, "__dict__") else str(value)


def _pynvml(run):
    """The zipapp has no site-packages, so look where pynvml may lie: beside this Python and those of the ranks."""
    bases = [sys.prefix, os.path.dirname(os.path.dirname(sys.executable or "/usr/bin/python3")), "/usr", "/usr/local"]
    bases += _ranks.values(run, "VIRTUAL_ENV", "CONDA_PREFIX")
    for one in _ranks.processes(run)[:4]:
        try:
            bases.append(os.path.dirname(os.path.dirname(os.readlink("/proc/%d/exe" % one.pid))))
        except OSError:
            continue
    for base in bases:
        places = glob.glob(os.path.join(base, "lib*", "python3*", "*-packages", "pynvml.py"))
        sys.path += [os.path.dirname(place) for place in places]
    try:
        import pynvml
    except Exception:  # not there, or for a younger Python
        return None
    return pynvml
