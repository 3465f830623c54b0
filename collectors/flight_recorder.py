"""Flight-recorder dumps of PyTorch's collectives, from every place where versions put them."""

import re

import _ranks

NAME = "flight_recorder"
TITLE = "Flight recorder dumps"
NEEDS = ()
SECONDS = 20
VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "NCCL_DEBUG_INFO_TEMP_FILE")
# The default was /tmp/nccl_trace_rank_<rank>; since 2.7 it is in the user's cache, and comm_lib_trace_rank_ as well.
NAMES = ("nccl_trace_rank_*", "comm_lib_trace_rank_*", "fr_trace_rank_*", "flight_recorder*", "torch_fr_*")


def collect(run):
    """Named places first. A dump carries its rank at the end of its name."""
    patterns = ["%s[0-9]*" % _any(value) for value in _ranks.values(run, *VARIABLES)]
    folders = ["/tmp", "/var/tmp", "/dev/shm", *_ranks.values(run, "TMPDIR", "TRIAGE_RECORD_DIR")]
    folders += [home + "/.cache/torch" for home in [*_ranks.homes(run), "/root"]]
    folders += [folder + more for folder in _ranks.folders(run) for more in ("", "/flight_recorder", "/fr", "/dumps")]
    patterns += [folder + "/" + name for folder in sorted(set(folders)) for name in NAMES]
    for pattern in patterns:
        if pattern.startswith("/"):
            run.tree(pattern, cap=64 << 20, known=_rank)


def _any(value):
    return re.sub(r"%[hp]|\$\{?\w+\}?", "*", value)


def _rank(path):
    found = re.search(r"(\d{1,6})(?:\.(?:pkl|pickle|json))?$", path)
    return {"rank": int(found.group(1))} if found else {}
