"""When this node booted, and the counters of its processors."""

NAME = "proc_stat"
TITLE = "Boot time and processor counters"
NEEDS = ("/proc/stat",)
SECONDS = 2


def collect(run):
    """btime gives kernel lines that count from boot a date."""
    for name in ("stat", "uptime", "loadavg", "meminfo", "interrupts", "softirqs"):
        run.file("/proc/" + name, name + ".txt")
