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
    ("clock_max_sm_mhz", "MaxClockInfo", ("CLOCK_SM",)), ("clock_max_memory_mhz", "MaxClockInfo", ("CLOCK_MEM",)),
    ("clock_app_sm_mhz", "ApplicationsClock", ("CLOCK_SM",)),
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
    ("graphics_processes", "GraphicsRunningProcesses", ()), ("mig_devices_max", "MaxMigDeviceCount", ()),
    ("module", "ModuleId", ()),
)  # fmt: skip
# Name of ours: constant behind NVML_FI_DEV_, for what has no function of its own, or one that newer cards refuse.
FIELDS = (
    ("temperature_memory_c", "MEMORY_TEMP"), ("temperature_margin_slowdown_c", "TEMPERATURE_SLOWDOWN_TLIMIT"),
    ("power_average_mw", "POWER_AVERAGE"), ("power_instant_mw", "POWER_INSTANT"),
    ("pcie_replays_rollover", "PCIE_REPLAY_ROLLOVER_COUNTER"), ("pcie_correctable", "PCIE_COUNT_CORRECTABLE_ERRORS"),
    ("pcie_nonfatal", "PCIE_COUNT_NON_FATAL_ERROR"), ("pcie_fatal", "PCIE_COUNT_FATAL_ERROR"),
    ("pcie_to_recovery", "PCIE_L0_TO_RECOVERY_COUNTER"), ("recovery_action", "GET_GPU_RECOVERY_ACTION"),
    ("remapped_correctable", "REMAPPED_COR"), ("remapped_uncorrectable", "REMAPPED_UNC"),
    ("remapped_pending", "REMAPPED_PENDING"), ("remapped_failure", "REMAPPED_FAILURE"),
    ("retired_pages_single", "RETIRED_SBE"), ("retired_pages_double", "RETIRED_DBE"),
    ("throttled_power_ns", "PERF_POLICY_POWER"), ("throttled_thermal_ns", "PERF_POLICY_THERMAL"),
    ("throttled_board_ns", "PERF_POLICY_BOARD_LIMIT"), ("throttled_reliability_ns", "PERF_POLICY_RELIABILITY"),
    ("nvlink_count", "NVLINK_LINK_COUNT"), ("nvlink_speed_mbps", "NVLINK_SPEED_MBPS_COMMON"),
    ("nvlink_crc_flit_errors", "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"),
    ("nvlink_crc_data_errors", "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL"),
    ("nvlink_replay_errors", "NVLINK_REPLAY_ERROR_COUNT_TOTAL"),
    ("nvlink_recovery_errors", "NVLINK_RECOVERY_ERROR_COUNT_TOTAL"),
)  # fmt: skip
# The same for each link; links of the fifth generation have only these counters.
LINK_FIELDS = (
    ("speed_mbps", "NVLINK_GET_SPEED"), ("dl_replay_errors", "NVLINK_ERROR_DL_REPLAY"),
    ("dl_recovery_errors", "NVLINK_ERROR_DL_RECOVERY"), ("dl_crc_errors", "NVLINK_ERROR_DL_CRC"),
    ("malformed_packets", "NVLINK_COUNT_MALFORMED_PACKET_ERRORS"), ("receive_errors", "NVLINK_COUNT_RCV_ERRORS"),
    ("integrity_errors", "NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS"),
    ("recoveries", "NVLINK_COUNT_LINK_RECOVERY_EVENTS"),
    ("recoveries_failed", "NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS"),
    ("effective_errors", "NVLINK_COUNT_EFFECTIVE_ERRORS"), ("symbol_errors", "NVLINK_COUNT_SYMBOL_ERRORS"),
)  # fmt: skip
MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # of a field's value, by its type's number
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
    found.update(_fields(nvml, handle, FIELDS), index=index, fabric=_fabric(nvml, handle), links=[])
    for link in range(getattr(nvml, "NVML_NVLINK_MAX_LINKS", 18)):
        state = _call(nvml, "NvLinkState", handle, (link,))
        if isinstance(state, dict):
            if not found["links"]:  # behind the last link of a card that has some the same is said
                found["nvlink"] = state
            break
        values = {name: _call(nvml, call, handle, (link, *more)) for name, call, more in LINK_CALLS}
        found["links"].append(dict(values, link=link, **_fields(nvml, handle, LINK_FIELDS, link)))
    return found


def _fields(nvml, handle, wanted, link=None):
    """Values that are asked for by number, all in one call; each may be refused by itself."""
    numbers = {name: getattr(nvml, "NVML_FI_DEV_" + field, None) for name, field in wanted}
    found = {name: {"unsupported": "unknown to this pynvml"} for name, number in numbers.items() if number is None}
    asked = [(name, number) for name, number in numbers.items() if number is not None]
    try:
        wishes = [number if link is None else (number, link) for _, number in asked]
        values = nvml.nvmlDeviceGetFieldValues(handle, wishes)
    except Exception as error:  # NVMLError, or a pynvml without the call
        values, refused = [], {"unsupported": str(error)}
        found.update((name, refused) for name, _ in asked)
    for place, value in enumerate(values):
        found[asked[place][0]] = _field(nvml, value)
    return found


def _field(nvml, value):
    if value.nvmlReturn:
        return {"unsupported": _reason(nvml, value.nvmlReturn)}
    return getattr(value.value, MEMBERS[value.valueType]) if value.valueType < len(MEMBERS) else None


def _reason(nvml, number):
    try:
        return str(nvml.NVMLError(number))
    except Exception:  # a number that this pynvml does not know
        return "error %d" % number


def _call(nvml, function, handle, more):
    call = getattr(nvml, "nvmlDeviceGet" + function, None) or getattr(nvml, "nvmlDeviceGet" + function[:-3], None)
    constants = [getattr(nvml, "NVML_" + one, None) if isinstance(one, str) else one for one in more]
    if call is None or None in constants:
        return {"unsupported": "unknown to this pynvml"}
    return _asked(call, handle, *constants)


def _fabric(nvml, handle):
    """State of the link to the NVLink fabric: 3 is completed. health: the mask as NVML has it."""
    refused = "unknown to this pynvml"
    for version, call in (("v3_t", "InfoV"), ("v2_t", "InfoV"), ("t", "Info")):
        shape, ask = getattr(nvml, "c_nvmlGpuFabricInfo_" + version, None), "nvmlDeviceGetGpuFabric" + call
        if shape is None or not hasattr(nvml, ask):
            continue
        info = shape()
        try:
            getattr(nvml, ask)(handle, nvml.byref(info))
        except Exception as error:  # a driver older than this shape, or a call with another signature
            refused = str(error)
            continue
        known = {"state": info.state, "status": info.status, "clique": info.cliqueId}
        known["health"] = getattr(info, "healthMask", None)
        return {name: int(value) for name, value in known.items() if value is not None}
    return {"unsupported": refused}


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
