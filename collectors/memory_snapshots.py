"""Snapshots of PyTorch's allocator."""

import _ranks

NAME = "memory_snapshots"
TITLE = "CUDA memory snapshots"
NEEDS = ()
SECONDS = 20
NAMES = ("*snapshot*.pickle", "*snapshot*.pkl", "*memory*.pickle", "snapshot.rank*.pickle", "oom*.pickle")


def collect(run):
    """Below the ranks' folders, two levels deep, and in /tmp."""
    for folder in _ranks.folders(run) + _ranks.values(run, "TRIAGE_RECORD_DIR") + ["/tmp"]:
        for depth in ("", "*/"):
            for name in NAMES if folder != "/tmp" or not depth else ():
                run.tree("%s/%s%s" % (folder, depth, name), cap=256 << 20, most=16)
