"""Memory, processor and pressure of the job's control groups and of the whole node."""

import glob
import os

import _ranks

NAME = "cgroup"
TITLE = "Control groups and pressure"
NEEDS = ()
SECONDS = 10
FILES = (
    "memory.max", "memory.high", "memory.current", "memory.peak", "memory.swap.max", "memory.events", "memory.stat",
    "memory.pressure", "cpu.max", "cpu.stat", "cpu.pressure", "io.pressure", "pids.max", "pids.current", "pids.events",
    "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.failcnt",
    "memory.oom_control", "cpu.cfs_quota_us", "cpuset.cpus.effective",
)  # fmt: skip


def collect(run):
    """Pressure of the node, then every group that a rank or the Slurm job is in, up to the root."""
    for name in ("memory", "cpu", "io"):
        if os.path.exists("/proc/pressure/" + name):
            run.file("/proc/pressure/" + name, "pressure-%s.txt" % name)
    lines = []
    for group in _groups(run):
        for name in FILES:
            try:
                with open(os.path.join(group, name)) as source:
                    lines.append("%s/%s: %s" % (group, name, source.read(65536).strip().replace("\n", "; ")))
            except (IOError, OSError):
                continue
    run.text("groups.txt", "\n".join(lines) + "\n" if lines else "")


def _groups(run):
    found = set()
    for pid in [one.pid for one in _ranks.processes(run)] + [os.getpid()]:
        try:
            with open("/proc/%d/cgroup" % pid) as source:
                entries = [line.rstrip("\n").split(":", 2) for line in source]
        except (IOError, OSError):
            continue
        for _, controllers, path in (entry for entry in entries if len(entry) == 3):
            base = "/sys/fs/cgroup/" + controllers if controllers else "/sys/fs/cgroup"
            while path:
                found.add(base + path.rstrip("/"))
                path = path.rpartition("/")[0]
            found.add(base)
    if run.job.get("id"):
        found.update(glob.glob("/sys/fs/cgroup/system.slice/*slurm*/job_%s" % run.job["id"]))
        found.update(glob.glob("/sys/fs/cgroup/*/slurm/uid_*/job_%s" % run.job["id"]))
    return sorted(found)[:200]
