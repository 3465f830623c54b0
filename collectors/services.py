"""State of the services that a GPU node needs, and what they logged last."""

NAME = "services"
TITLE = "Services"
NEEDS = ("systemctl",)
LINES = True
SECONDS = 15
UNITS = (
    "nvidia-fabricmanager", "nvidia-persistenced", "nvidia-dcgm", "slurmd", "munge", "opensm", "openibd", "kubelet",
    "containerd", "docker", "chronyd", "ntpd", "nvidia-imex", "nv_peer_mem",
)  # fmt: skip


def collect(run):
    """systemctl status with the last lines of each journal; failed units by name."""
    run.command(["systemctl", "--no-pager", "--failed"], "failed.txt", seconds=4)
    run.command(["systemctl", "--no-pager", "--full", "-n", "40", "status", *list(UNITS)], "status.txt", seconds=8)
    run.file("/var/log/slurmd.log", cap=1 << 20)
    run.file("/var/log/slurm/slurmd.log", cap=1 << 20)
