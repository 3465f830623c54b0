"""The process tree, where ranks wait in the kernel, and their Python stacks when they were asked for."""

import _ranks
from _runner import which

NAME = "processes"
TITLE = "Processes"
NEEDS = ()
SECONDS = 30


def collect(run):
    """Stacks stop a process for a moment: only with --asked stacks, and only where py-spy is installed."""
    columns = "pid,ppid,pgid,user,stat,wchan:32,psr,pcpu,pmem,rss,etimes,lstart,args"
    run.command(["ps", "-eww", "--forest", "-o", columns], "ps.txt", cap=4 << 20)
    ranks = _ranks.processes(run)
    lines = ["rank %s local_rank %s pid %d: %s" % (one.rank, one.local_rank, one.pid, one.command) for one in ranks]
    run.text("ranks.txt", "\n".join(lines) + "\n" if lines else "")
    for one in ranks[:64]:
        known = {"rank": one.rank, "pid": one.pid}
        stem = "rank%s.pid%d" % (one.rank, one.pid)
        run.file("/proc/%d/status" % one.pid, stem + ".status.txt", **known)
        run.file("/proc/%d/stack" % one.pid, stem + ".kernel-stack.txt", **known)
        if "stacks" in run.request.get("asked", ()) and which("py-spy"):
            run.command(
                ["py-spy", "dump", "--nonblocking", "--pid", str(one.pid)], stem + ".stack.txt", seconds=5, **known
            )
