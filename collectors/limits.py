"""Resource limits of the ranks and of this node."""

import _ranks

NAME = "limits"
TITLE = "Resource limits"
NEEDS = ()
SECONDS = 8
KEYS = (
    "kernel.pid_max", "kernel.threads-max", "kernel.shmmax", "kernel.shmall", "kernel.numa_balancing",
    "kernel.yama.ptrace_scope", "vm.max_map_count", "vm.overcommit_memory", "vm.overcommit_ratio", "vm.swappiness",
    "vm.zone_reclaim_mode", "fs.file-max", "fs.nr_open", "fs.aio-max-nr", "net.core.somaxconn", "net.core.rmem_max",
    "net.core.wmem_max", "net.ipv4.ip_local_port_range",
)  # fmt: skip


def collect(run):
    """/proc/PID/limits of each rank, and the kernel's settings that stop large jobs."""
    for one in _ranks.processes(run)[:64]:
        run.file(
            "/proc/%d/limits" % one.pid, "rank%s.pid%d.limits.txt" % (one.rank, one.pid), rank=one.rank, pid=one.pid
        )
    run.file("/proc/self/limits", "collector-limits.txt")
    run.command(["sysctl", "-e", *KEYS], "sysctl.txt")
    for path in ("/etc/security/limits.conf", "/proc/sys/fs/file-nr"):
        run.file(path, path.strip("/").replace("/", "-"))
