"""Short samples of what the node is doing: processor, memory, disks, network, sockets."""

import time

NAME = "samples"
TITLE = "Samples of load"
NEEDS = ()
SECONDS = 20


def collect(run):
    """Each tool for a few seconds; where a tool is missing, /proc says the same twice."""
    run.command(["vmstat", "-w", "1", "4"], "vmstat.txt")
    run.command(["top", "-b", "-n", "1", "-w", "200"], "top.txt", cap=1 << 20)
    run.command(["iostat", "-xyt", "1", "3"], "iostat.txt")
    run.command(["ss", "-tanpio"], "ss.txt", cap=4 << 20)
    run.command(["ss", "-s"], "ss-summary.txt")
    run.command(["nstat", "-asz"], "nstat.txt")
    for turn in (1, 2):
        run.text("net-dev-%d.txt" % turn, "%.3f\n%s" % (time.time(), _read("/proc/net/dev")))
        if turn == 1:
            run.sleep(2)
    run.file("/proc/vmstat", "proc-vmstat.txt")


def _read(path):
    try:
        with open(path) as source:
            return source.read(1 << 20)
    except (IOError, OSError):
        return ""
