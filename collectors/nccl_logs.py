"""NCCL's own log files (NCCL_DEBUG_FILE), topology and graph dumps."""

import re

import _ranks

NAME = "nccl_logs"
TITLE = "NCCL log files"
NEEDS = ()
LINES = True
SECONDS = 20


def collect(run):
    """Where the ranks say that they are, and where people usually put them."""
    patterns = set()
    for value in _ranks.values(run, "NCCL_DEBUG_FILE", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE"):
        patterns.add(re.sub(r"%[hp]|\$\{?\w+\}?", "*", value))
    for folder in [*_ranks.folders(run), "/tmp"]:
        patterns.update(folder + "/" + name for name in ("nccl*.log", "nccl_debug*", "nccl.*.txt", "logs/nccl*.log"))
    for pattern in sorted(patterns):
        if pattern.startswith("/") and not pattern.startswith(("/dev/", "/proc/")):
            run.tree(pattern, cap=4 << 20, head=1 << 20)
