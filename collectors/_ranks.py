"""The job's processes on this node, from /proc: which rank each is, and its environment."""

import glob
import json
import os
import time

MARKS = ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "PMIX_RANK")
MOST = 512  # processes looked into
WAIT = 2.0  # seconds for another collector that is looking; one that hangs in /proc must not hold up the rest


class Rank(object):
    """One process: pid, rank and local rank (or None), its environment and its command line."""

    def __init__(self, pid, environment, command):
        self.pid, self.environment, self.command = pid, environment, command
        self.rank = _number(environment, "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
        self.local_rank = _number(environment, "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
        if self.rank is None and "torchrun" not in command and "torch.distributed" not in command:
            self.rank = _number(environment, "SLURM_PROCID")


def processes(run):
    """Processes of the job (or, without a job, of any distributed training); says so when it may not look."""
    if not hasattr(run, "ranks"):
        found, refused = _shared(run, os.path.join(run.base, "ranks"))
        if refused and not found and os.geteuid():
            run.note("/proc/*/environ", denied=True)
        run.ranks = [Rank(*one) for one in found]
    return run.ranks


def _shared(run, path):
    """What `_found` gives. The first collector to want it looks; the others wait for that, and then look themselves."""
    try:
        os.close(os.open(path + ".begun", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        ends = time.time() + min(WAIT, run.left())
        while time.time() < ends and not os.path.exists(path + ".json"):
            time.sleep(0.01)
    if os.path.exists(path + ".json"):
        with open(path + ".json") as source:
            return json.load(source)
    found = _found(run)
    own = "%s.%d" % (path, os.getpid())
    with open(own, "w") as target:
        json.dump(found, target)
    os.rename(own, path + ".json")
    return found


def _found(run):
    """Process number, environment and command line of each rank in their order, and how many one may not look into."""
    number, own = str(run.job.get("id") or ""), os.environ.get("SLURM_STEP_ID")
    found, refused = {}, 0
    for path in glob.glob("/proc/[0-9]*/environ"):
        pid = int(path.split("/")[2])
        try:
            with open(path, "rb") as source:
                data = source.read(1 << 20)
            if b"RANK=" not in data and b"SLURM_PROCID=" not in data:  # none of MARKS: nearly every process
                continue
            environment = _parsed(data)
            with open("/proc/%d/cmdline" % pid, "rb") as source:
                command = source.read(1 << 16).replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            refused += os.path.isdir("/proc/%d" % pid)
            continue
        if _is_ours(environment, number, own) and pid != os.getpid() and len(found) < MOST:
            one = Rank(pid, environment, command)
            found.setdefault(one.rank, []).append(one)
    chosen = [_foremost(ranks) for rank, ranks in found.items() if rank is not None] + found.get(None, [])
    ordered = sorted(chosen, key=lambda one: (one.rank is None, one.rank or 0, one.pid))
    return [(one.pid, one.environment, one.command) for one in ordered], refused


def _is_ours(environment, number, own):
    """A process of the job that was asked for, or without a job, of any distributed training; not of this step."""
    if number and "SLURM_JOB_ID" in environment:
        mine = environment["SLURM_JOB_ID"] == number and environment.get("SLURM_STEP_ID") not in (None, own)
        here = os.environ.get("SLURMD_NODENAME")  # several slurmd may share a machine
        mine = mine and (here is None or environment.get("SLURMD_NODENAME", here) == here)
    else:
        mine = "MASTER_ADDR" in environment
    return mine and any(mark in environment for mark in MARKS)


def _foremost(ranks):
    """The rank itself: its shell and its data loaders carry the same variables."""
    return min(ranks, key=lambda one: ("python" not in one.command.split(" ")[0], one.pid))


def values(run, *names):
    """Distinct values that the ranks, the job and this process have for environment variables, sorted."""
    places = [one.environment for one in processes(run)] + [run.job.get("environment") or {}, os.environ]
    return sorted({place[name] for place in places for name in names if place.get(name)})


def homes(run):
    """Home folders of the job's user and of the ranks."""
    return sorted(set(values(run, "HOME") + ([run.job["home"]] if run.job.get("home") else [])))


def folders(run):
    """Where ranks work: their current folders, and the job's."""
    found = set([run.job["workdir"]] if run.job.get("workdir") else [])
    for one in processes(run):
        try:
            found.add(os.readlink("/proc/%d/cwd" % one.pid))
        except OSError:
            continue
    return sorted(folder for folder in found if folder != "/")


def per_node(run, pattern):
    """A pattern with {node} filled in."""
    return pattern.replace("{node}", run.node).replace("{host}", os.uname()[1])


def _parsed(data):
    pairs = (item.split(b"=", 1) for item in data.split(b"\0") if b"=" in item)
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in pairs}


def _number(environment, *names):
    for name in names:
        if environment.get(name, "").isdigit():
            return int(environment[name])
    return None
