"""The kernel's messages: dmesg, the journal, and syslog files, whichever may be read."""

import glob
import time

NAME = "kernel_log"
TITLE = "Kernel log"
NEEDS = ()
LINES = True
SECONDS = 15
CAP = 16 << 20


def collect(run):
    """Ring buffer with dates, then the journal, which also holds what the buffer has lost."""
    if b"\n" not in run.command(["dmesg", "--time-format=iso"], "dmesg.txt", cap=CAP):
        run.command(["dmesg", "-T"], "dmesg-T.txt", cap=CAP)
    since = ["--since", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.since))] if run.since else ["-n", "50000"]
    until = ["--until", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.until))] if run.until else []
    run.command(
        ["journalctl", "-k", "-o", "short-iso-precise", "--no-pager", "-q", *since, *until], "journal.txt", cap=CAP
    )
    for path in ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog"):
        if glob.glob(path):
            run.file(path, cap=CAP // 2)
