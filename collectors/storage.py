"""Shared memory, disks, inodes and mounts. A file server that hangs hangs this collector only."""

NAME = "storage"
TITLE = "Disks, inodes, mounts, /dev/shm"
NEEDS = ()
SECONDS = 15


def collect(run):
    """Local file systems first; then all of them, which may wait for a dead server."""
    run.file("/proc/mounts", "mounts.txt")
    run.file("/proc/diskstats", "diskstats.txt")
    run.command(["df", "-lPT"], "df-local.txt", seconds=4)
    run.command(["df", "-lPi"], "df-inodes-local.txt", seconds=4)
    run.command(["df", "-PT", "/dev/shm", "/tmp"], "df-shm.txt", seconds=3)
    run.command(["ls", "-lA", "/dev/shm"], "dev-shm.txt", seconds=3, cap=1 << 18)
    run.command(["df", "-PT"], "df.txt", seconds=5)
    run.command(["df", "-Pi"], "df-inodes.txt", seconds=5)
    run.file("/proc/self/mountstats", "mountstats.txt", cap=1 << 20)
    run.command(["lfs", "check", "servers"], seconds=3)
    run.command(["lsblk", "-o", "NAME,TYPE,SIZE,MOUNTPOINT,MODEL,STATE"], "lsblk.txt", seconds=3)
