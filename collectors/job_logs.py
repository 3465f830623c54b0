"""What the job printed: files that were named, and files behind the standard output of its processes."""

import os

import _ranks

NAME = "job_logs"
TITLE = "Output of the job on this node"
NEEDS = ()
LINES = True
SECONDS = 30
CAP = 32 << 20
HEAD = 1 << 20  # bytes of the beginning kept of a longer file: NCCL and torchrun say there who is who


def collect(run):
    """--include patterns ({node} is filled in), then open outputs of ranks, then what the scheduler named."""
    for pattern in run.request.get("include", ()):
        pattern = _ranks.per_node(run, pattern)
        if os.path.isdir(pattern):
            pattern = os.path.join(pattern, "**")
        if not run.tree(pattern, cap=CAP, head=HEAD, follow=True):
            run.note(pattern, absent=pattern, asked=True)
    outputs = {}
    for one in _ranks.processes(run):
        for number in (1, 2):
            path = _target(one.pid, number)
            if path:
                outputs.setdefault(path, []).append(one)
    for path in run.job.get("node_outputs", ()):
        outputs.setdefault(_ranks.per_node(run, path), [])
    for path, owners in sorted(outputs.items()):
        alone = owners[0] if len(owners) == 1 else None
        run.file(path, cap=CAP, head=HEAD, rank=alone and alone.rank, pid=alone and alone.pid)


def _target(pid, number):
    try:
        path = os.readlink("/proc/%d/fd/%d" % (pid, number))
    except OSError:
        return None
    return path if path.startswith("/") and not path.startswith("/dev/") and os.path.isfile(path) else None
