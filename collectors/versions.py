"""Versions of what the job stands on: kernel, distribution, driver, CUDA, NCCL, torch."""

import glob
import os

import _ranks

NAME = "versions"
TITLE = "Versions"
NEEDS = ()
SECONDS = 15


def collect(run):
    """Files and quick commands; nothing is imported, so that no CUDA context is made."""
    run.command(["uname", "-a"])
    run.file("/etc/os-release")
    run.file("/proc/version", "proc-version.txt")
    run.file("/proc/cmdline", "kernel-cmdline.txt")
    run.file("/proc/modules", "modules.txt")
    run.file("/sys/module/nvidia/version", "nvidia-module.txt")
    run.file("/usr/local/cuda/version.json", "cuda-version.json")
    run.command(["ofed_info", "-s"], "ofed.txt", seconds=4)
    run.command(["ldconfig", "-p"], "libraries.txt", cap=1 << 20)
    lines = sorted({line for one in _ranks.processes(run)[:16] for line in _libraries(one.pid)})
    run.text("loaded.txt", "\n".join(lines) + "\n" if lines else "")
    packages = sorted({path for folder in _pythons(run) for path in glob.glob(folder + "/*.dist-info")})
    run.text("packages.txt", "\n".join(packages) + "\n" if packages else "")


def _libraries(pid):
    """Libraries of CUDA, NCCL, torch and the network that a rank has mapped."""
    try:
        with open("/proc/%d/maps" % pid) as source:
            paths = {line.split(None, 5)[-1].strip() for line in source if "/" in line}
    except (IOError, OSError):
        return []
    wanted = (
        "nccl",
        "cuda",
        "cudnn",
        "cublas",
        "torch",
        "nvidia",
        "ibverbs",
        "mlx",
        "rccl",
        "libfabric",
        "ucx",
        "jemalloc",
    )
    return [path for path in paths if any(word in os.path.basename(path) for word in wanted)]


def _pythons(run):
    found = set()
    for one in _ranks.processes(run)[:16]:
        for place in (one.environment.get("VIRTUAL_ENV"), one.environment.get("CONDA_PREFIX")):
            if place:
                found.update(glob.glob(place + "/lib/python3*/site-packages"))
        for path in _libraries(one.pid):
            if "/site-packages/" in path:
                found.add(path.partition("/site-packages/")[0] + "/site-packages")
    return sorted(found)
