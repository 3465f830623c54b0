"""Processors, NUMA nodes, and which of them each rank may use."""

import glob

import _ranks

NAME = "topology"
TITLE = "Topology and affinity"
NEEDS = ()
SECONDS = 10


def collect(run):
    """numactl and lscpu, NUMA nodes of GPUs and ports, Cpus_allowed of the ranks."""
    run.command(["lscpu"])
    run.command(["numactl", "--hardware"])
    run.command(["lstopo-no-graphics", "--no-legend"], "lstopo.txt")
    lines = []
    for path in sorted(
        glob.glob("/sys/class/infiniband/*/device/numa_node") + glob.glob("/sys/class/net/*/device/numa_node")
    ):
        lines.append("%s: %s" % (path, _line(path)))
    for path in sorted(glob.glob("/sys/bus/pci/drivers/nvidia/0*/numa_node")):
        lines.append("%s: %s" % (path, _line(path)))
    for one in _ranks.processes(run):
        allowed = [
            line
            for line in _lines("/proc/%d/status" % one.pid)
            if line.startswith(("Cpus_allowed_list", "Mems_allowed_list"))
        ]
        lines.append("rank %s local_rank %s pid %d: %s" % (one.rank, one.local_rank, one.pid, "; ".join(allowed)))
    run.text("affinity.txt", "\n".join(lines) + "\n" if lines else "")


def _line(path):
    return (_lines(path) or [""])[0]


def _lines(path):
    try:
        with open(path) as source:
            return [line.replace("\t", " ").rstrip("\n") for line in source]
    except (IOError, OSError):
        return []
