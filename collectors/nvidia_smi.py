"""What nvidia-smi says: everything, topology, links, processes."""

NAME = "nvidia_smi"
TITLE = "nvidia-smi"
NEEDS = ("nvidia-smi|/dev/nvidiactl|/proc/driver/nvidia",)
SECONDS = 45


def collect(run):
    """-q first; on a node whose GPU hangs the rest may never come."""
    run.command(["nvidia-smi", "-q"], "q.txt", seconds=20)
    run.command(["nvidia-smi"], "table.txt")
    run.command(["nvidia-smi", "topo", "-m"], "topo.txt")
    run.command(["nvidia-smi", "nvlink", "-s"], "nvlink-s.txt")
    run.command(["nvidia-smi", "nvlink", "-e"], "nvlink-e.txt")
    run.command(["nvidia-smi", "pmon", "-c", "1"], "pmon.txt")
    run.command(["nvidia-smi", "mig", "-lgi"], "mig.txt")
    for path in ("/proc/driver/nvidia/version", "/proc/driver/nvidia/params", "/var/log/fabricmanager.log"):
        run.file(path)
    run.tree("/proc/driver/nvidia/gpus/*/information", recent=False)
