"""What names say: which node, rank and process a file is of; and names made safe to show and to refer to."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LONGEST = 1024  # characters of a path; Linux allows 4096 bytes, an archive any number

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Identity(NamedTuple):
    """What a path says of its file; None is unknown."""

    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    attempt: int | None = None


def safe(name: str) -> str:
    """The name without control characters and broken encodings, which become `\\xNN`, and of bounded length."""
    shown = _UNSAFE.sub(_escaped, name)
    if len(shown) <= LONGEST:
        return shown
    return f"{shown[: LONGEST - 9]}~{hashlib.sha256(shown.encode()).hexdigest()[:8]}"


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else code:02x}"  # lone surrogates stand for raw bytes


def tidy(name: str) -> str:
    """A member's name as a relative path: no `./`, no doubled slashes; safe."""
    return safe("/".join(part for part in name.split("/") if part not in {"", "."}))


def refusal(name: str) -> str | None:
    """Why a member's name is not acceptable, or None."""
    if name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:[\\/]", name):
        return "an absolute path"
    return "a path that leads out of the archive" if ".." in re.split(r"[\\/]", name) else None


def unique(name: str, taken: set[str]) -> str:
    """The name, or with `#2`, `#3` ... when it is taken."""
    candidate, count = name, 1
    while candidate in taken:
        count += 1
        candidate = f"{name}#{count}"
    taken.add(candidate)
    return candidate


# ---- identity ----

# `mp_rank_00` (a shard of a checkpoint) and `node_rank0` are no global ranks.
_RANK = re.compile(
    r"(?:^|[^A-Za-z0-9])(?:(?P<other>[A-Za-z]{1,10})[_-])?(?P<kind>global|local)?rank[_.=-]?(?P<number>\d{1,6})"
    r"(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_OTHER_RANKS = frozenset({
    "agent", "context", "cp", "data", "dp", "ep", "expert", "fsdp", "group", "host", "machine", "mp", "node",
    "pipeline", "pp", "sp", "stage", "tensor", "tp", "zero",
})  # fmt: skip
_DUMP = re.compile(r"(?:^|(?:fr|nccl|flight\w*|trace|lib|pg)_)_?dump_(?P<number>\d{1,6})(?:\.\w+)?$", re.I)
_PID = re.compile(r"(?:^|[._-])pid[_.=-]?(\d{1,7})(?![A-Za-z0-9])", re.I)

_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
_ADDRESS = r"\d{1,3}(?:\.\d{1,3}){3}"
_NCCL = re.compile(
    rf"^nccl(?:(?!tests?|perf)[A-Za-z_-])*(?:[._-](?P<host>{_HOST})[._-]|\.)(?P<pid>\d{{1,7}})(?:\.(?:log|txt|out))?$",
    re.I,
)
_PROFILE = re.compile(rf"^(?P<host>{_HOST})_(?P<pid>\d{{1,7}})\.\d{{10,20}}\.pt\.trace\.json(?:\.gz)?$")
_TASK = re.compile(
    r"^(?:slurm|log|job|out|err|stdout|stderr|train|output)[-_.](?:\d+(?:_\d+)?[-_.])?"
    r"(?P<host>[A-Za-z][A-Za-z0-9-]*\d[A-Za-z0-9-]*?)[-_.](?P<task>\d{1,6})\.(?:out|err|log|txt)$"
)
_ENDINGS = re.compile(r"(?:\.(?:log|txt|text|out|err|json|xml|gz|zst|xz|bz2|dmesg))+$", re.I)
_WORD_FIRST = re.compile(r"^[A-Za-z]+(?:-[A-Za-z]+)*[-_.](?P<rest>.*\d.*)$")
_WORD_LAST = re.compile(r"^(?P<rest>.*\d)[-_.][A-Za-z]+(?:[-_][A-Za-z]+)*$")
_KERNEL_LOG = re.compile(r"(?:^|[-_.])(?:dmesg|kern|kernel|syslog|messages|journal)(?:[-_.]|$)", re.I)
_SOSREPORT = re.compile(r"^sosreport-(?P<host>.+?)(?:-\d{5,})?-\d{4}-\d{2}-\d{2}-[a-z]{7}$")
_ATTEMPT = re.compile(r"^attempt_(\d{1,6})$")

# First words of names that carry numbers and are no hosts, though they look like `node017`.
_NO_HOSTS = frozenset({
    "array", "attempt", "backup", "baseline", "batch", "bert", "bloom", "build", "case", "cfg", "checkpoint",
    "checkpoints", "ckpt", "config", "core", "cpu", "cuda", "data", "dataset", "date", "day", "debug", "disk", "dp",
    "dump", "epoch", "eth", "eval", "evidence", "exp", "experiment", "fold", "gemma", "global", "gpt", "gpu",
    "gpus", "group", "hca", "ib", "incident", "iter", "iteration", "job", "jobs", "layer", "level", "lightning",
    "link", "llama", "log", "logs", "lr", "mistral", "mixtral", "mlx", "model", "models", "mp", "nccl", "new",
    "numa", "nvlink", "nvme", "old", "opt", "out", "output", "part", "phase", "phi", "pid", "port", "pp", "proc", "ras",
    "process", "py", "python", "qwen", "rank", "ranks", "release", "report", "resnet", "restart", "result",
    "results", "retry", "rev", "rocm", "round", "run", "runs", "sample", "seed", "session", "set", "shard", "slot",
    "slurm", "socket", "split", "stage", "step", "steps", "task", "tasks", "test", "tests", "tmp", "torch", "tp",
    "trace", "train", "training", "trial", "try", "v", "version", "vit", "week",
})  # fmt: skip
# First words of names that are hosts whatever stands next to them.
_HOSTS = frozenset({
    "cn", "cnode", "compute", "computenode", "dgx", "gpunode", "hgx", "host", "hpc", "nid", "node",
})  # fmt: skip
_LIKELY = frozenset({
    "client", "cluster", "gpu", "gpus", "instance", "machine", "master", "pod", "rack", "server", "vm", "worker",
})  # fmt: skip
_NO_NCCL_HOSTS = frozenset({
    "all", "debug", "dump", "err", "graph", "info", "init", "log", "logs", "out", "output", "test", "tests", "topo",
    "trace", "version", "warn",
})  # fmt: skip


def identity(path: str) -> Identity:
    """What one path says by itself. `identities` says more: it sees the neighbours."""
    *folders, name = path.split("/")
    found = _of_name(name)
    local, attempt = _torchrun(folders)
    return Identity(
        node=found.node
        or _folder_host(folders)
        or next(filter(_is_host, _candidates(name)), None)
        or _kernel_host(name),
        rank=_first(found.rank, *(_of_rank(part).rank for part in reversed(folders))),
        local_rank=_first(found.local_rank, local, *(_of_rank(part).local_rank for part in reversed(folders))),
        pid=found.pid,
        attempt=attempt,
    )


def identities(paths: Sequence[str]) -> dict[str, Identity]:
    """What the paths of one piece of evidence say: names that look like hosts are believed when they are several."""
    found = {path: identity(path) for path in paths}
    hosts = _host_folders(paths)
    names = _host_files(paths)
    for path, known in found.items():
        if known.node is None and (host := _inner(path, hosts) or names.get(path)):
            found[path] = known._replace(node=host)
    return _without_node_tasks(found)


def trailing_rank(path: str) -> int | None:
    """The number at the end of a name: a flight-recorder dump is any prefix plus the rank."""
    match = re.search(r"(\d{1,6})(?:\.(?:pkl|pickle|json|bin|dump|trace))?$", path.rsplit("/", 1)[-1])
    return int(match[1]) if match else None


def _of_name(name: str) -> Identity:
    found = _of_rank(name)
    if pid := _PID.search(name):
        found = found._replace(pid=int(pid[1]))
    if match := _PROFILE.match(name):
        return found._replace(node=match["host"], pid=int(match["pid"]))
    if found.rank is None and (match := _NCCL.match(name)) and not _is_nccl_word(match["host"]):
        return found._replace(node=match["host"], pid=int(match["pid"]))
    if found.rank is None and (match := _TASK.match(name)) and not _is_numbered(match["host"]):
        return found._replace(node=match["host"], rank=int(match["task"]))
    return found


def _is_nccl_word(host: str | None) -> bool:
    if host is None:
        return False
    if re.fullmatch(r"[\d.-]+", host) and not re.fullmatch(_ADDRESS, host):  # a version or a date
        return True
    return host.lower() in _NO_NCCL_HOSTS or _first_word(host) in _NO_HOSTS - {"gpu", "gpus"}


def _of_rank(name: str) -> Identity:
    found = Identity()
    for match in _RANK.finditer(name):
        number = int(match["number"])
        if (match["kind"] or match["other"] or "").lower() == "local":
            found = found._replace(local_rank=number)
        elif (match["other"] or "").lower() not in _OTHER_RANKS:
            found = found._replace(rank=number)
    if found.rank is None and (dump := _DUMP.search(name)):
        found = found._replace(rank=int(dump["number"]))
    return found


def _torchrun(folders: list[str]) -> tuple[int | None, int | None]:
    """Local rank and attempt of `.../attempt_0/3/stderr.log`."""
    for at, part in enumerate(folders):
        if match := _ATTEMPT.match(part):
            inner = folders[at + 1] if at + 1 < len(folders) else ""
            return int(inner) if inner.isdecimal() and len(inner) < 6 else None, int(match[1])
    return None, None


def _folder_host(folders: list[str]) -> str | None:
    for at, part in enumerate(folders):
        if part == "nodes" and at + 1 < len(folders):
            return folders[at + 1]
        if match := _SOSREPORT.match(part):
            return match["host"]
    return next((part for part in folders if _is_host(part)), None)


def _is_host(name: str) -> bool:
    """Hosts by their first word (`node-0`, `host-a`, `dgx03.site`), and IP addresses."""
    if re.fullmatch(_ADDRESS, name) or re.fullmatch(r"ip-\d+-\d+-\d+-\d+(?:\..*)?", name):
        return True
    return _first_word(name) in _HOSTS and bool(re.fullmatch(rf"[A-Za-z]+(?:[-_]?\d+|-[a-z])(?:[.-]{_HOST})?", name))


def _host_folders(paths: Iterable[str]) -> set[str]:
    """Folders (whole paths) that look like hosts and have a neighbour that looks alike."""
    shapes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in paths:
        folders = path.split("/")[:-1]
        for depth, name in enumerate(folders):
            if _may_be_host(name):
                shapes["/".join(folders[:depth]), re.sub(r"\d+", "#", name)].add("/".join(folders[: depth + 1]))
    return {folder for alike in shapes.values() if len(alike) > 1 for folder in alike}


def _may_be_host(name: str) -> bool:
    """A host name with a number at the end of its first label, and something that a run or a model would not have:
    a domain, two numbers, a padded number, or a first word that people give to machines."""
    label, _, domain = name.partition(".")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*\d", label) or (domain and not re.fullmatch(_HOST, domain)):
        return False
    if _is_numbered(label) or re.search(r"\d{4}-\d\d-\d\d|\d{6}", label):  # dates, job ids
        return False
    return bool(domain or _first_word(name) in _LIKELY or re.search(r"\d\D+\d|(?<!\d)0\d", label))


def _names_host(label: str) -> bool:
    """Stricter, for files: people number runs as they number hosts. `gpu-b14-03`, `r8i3n1`, and names with a domain."""
    if not _may_be_host(label):
        return False
    numbers = len(re.findall(r"\d+", label))
    racks = re.fullmatch(r"[a-z]{1,4}\d+(?:[a-z]\d+)+", label)
    return bool("." in label or racks or (_first_word(label) in _LIKELY and numbers > 1))


def _candidates(name: str) -> list[str]:
    """Parts of a file's name that may be a host: `node017.log`, `dmesg-node017.txt`, `node017.dmesg.txt`."""
    stem = _ENDINGS.sub("", name)
    found = [stem]
    for match in (_WORD_FIRST.match(stem), _WORD_LAST.match(stem)):
        if match:
            found.append(match["rest"])
    return found


def _kernel_host(name: str) -> str | None:
    """A kernel log is that of a host, never of a card: `gpu07-dmesg.txt`, `kern_w3.log`."""
    if not _KERNEL_LOG.search(name):
        return None
    words = [label for label in _candidates(name) if re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,62}\d", label)]
    hosts = (
        label for label in words if not _KERNEL_LOG.search(label) and _first_word(label) not in _NO_HOSTS - _LIKELY
    )
    return next(hosts, None)


def _host_files(paths: Iterable[str]) -> dict[str, str]:
    """Host by path, for files whose names differ from a neighbour's only in the host's numbers."""
    alike: dict[str, dict[str, str]] = defaultdict(dict)
    for path in paths:
        folder, _, name = path.rpartition("/")
        if host := next(filter(_names_host, _candidates(name)), None):
            shape = re.sub(r"\d+", "#", name)
            alike[f"{folder}/{shape}"][path] = host
    return {path: host for group in alike.values() if len(set(group.values())) > 1 for path, host in group.items()}


def _is_numbered(label: str) -> bool:
    """A step, run or model that carries a number; `gpu3` is one, `gpu-b14-03` is not."""
    word = _first_word(label)
    return word in _NO_HOSTS and not (word in _LIKELY and re.search(r"\d\D+\d", label))


def _inner(path: str, hosts: set[str]) -> str | None:
    folders = path.split("/")[:-1]
    for depth in range(len(folders), 0, -1):
        if "/".join(folders[:depth]) in hosts:
            return folders[depth - 1]
    return None


def _without_node_tasks(found: dict[str, Identity]) -> dict[str, Identity]:
    """`slurm-7-node017-3.out`: 3 is a rank when a node runs several tasks; a single task is a launcher, no rank."""
    tasks = {path: one for path, one in found.items() if one.rank is not None and _TASK.match(path.rsplit("/", 1)[-1])}
    numbers = {(one.node, one.rank) for one in tasks.values()}
    most = max(Counter(node for node, _ in numbers).values(), default=0)
    if len({node for node, _ in numbers}) > 1 and most == 1:
        return found | {path: one._replace(rank=None) for path, one in tasks.items()}
    return found


def _first_word(name: str) -> str:
    match = re.match(r"[A-Za-z]+", name)
    return match[0].lower() if match else ""


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
