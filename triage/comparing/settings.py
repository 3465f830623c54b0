"""What a run was made of, as far as its evidence says: versions, environment, topology, arguments."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from triage.bundle.opening import Evidence
from triage.model.bundle import File
from triage.model.event import Fact
from triage.model.incident import Incident

Key = tuple[str, str]
LOGS, HEAD = 32, 256 << 10  # files whose beginning is read, and bytes of it
COLLECTED = 512  # files of collectors
SMALL = 256 << 10  # bytes of one of those
VALUES = 16  # different values of one name that are told
LONGEST = 200  # characters of a value

# What the work itself is: with another value here, step times say nothing about the machine.
WORK = frozenset({
    "seq_length", "seq_len", "max_seq_len", "max_seq_length", "max_length", "block_size", "hidden_size", "num_layers",
    "n_layer", "n_embd", "num_attention_heads", "vocab_size", "model", "model_name", "model_name_or_path", "image_size",
    "global_batch_size", "micro_batch_size", "batch_size", "train_batch_size", "per_device_train_batch_size",
    "gradient_accumulation_steps", "train_micro_batch_size_per_gpu",
})  # fmt: skip

_FACTS = {
    "gpu.driver": ("version", "NVIDIA driver"), "gpu.name": ("topology", "GPU model"), "profile.gpu":
    ("topology", "GPU model"), "gpu.topology": ("topology", "links between GPUs"), "gpu.mig": ("setting", "MIG"),
    "gpu.power_limit_w": ("setting", "GPU power limit"), "gpu.compute_mode": ("setting", "GPU compute mode"),
    "gpu.persistence": ("setting", "GPU persistence mode"), "gpu.ecc.mode": ("setting", "GPU ECC mode"),
    "gpu.pcie.width_max": ("topology", "PCIe width"), "gpu.pcie.gen_max": ("topology", "PCIe generation"),
    "gpu.clock.max_sm_mhz": ("setting", "highest SM clock"), "nvlink.links": ("topology", "NVLinks a GPU"),
    "snapshot.alloc_conf": ("environment", "PYTORCH_CUDA_ALLOC_CONF"),
}  # fmt: skip
_LINES = (
    ("NCCL", r"\bNCCL version (\d[\w.+]{0,30})"),
    ("torch", r"\b(?:torch|PyTorch)(?:[ _]version|\.__version__)?[ :=]{1,12}v?(\d+\.\d+\.\d[\w.+]{0,30})"),
    ("CUDA", r"\bCUDA (?:[Vv]ersion|used to build PyTorch)[ :]{1,3}(\d+\.\d+)"),
    ("NVIDIA driver", r"Driver Version[ :]{1,30}(\d+\.\d+[\d.]{0,10})"),
    ("NVIDIA driver", r"NVRM version: [^\n]{0,60}Kernel Module(?: for \w{1,20})?  (\d+\.[\d.]{1,12})"),
    ("Python", r"\bPython version[ :]{1,3}(\d+\.\d+\.\d+)"),
)
_ARGUMENT = re.compile(r"^[^\n]{0,40}? {2,8}([a-z][a-z0-9_]{2,60}) \.{3,} ([^\n]{1,200})$", re.M)  # Megatron's own list
_COMMAND = re.compile(r"\b(?:torchrun|deepspeed|accelerate launch|python[\d.]*) [^\n]{0,4000}")
_FLAG = re.compile(r" --([a-zA-Z][\w.-]{1,60})(?:[= ](?!--)([^\s'\"]{1,200}))?")
_IDLE = re.compile(
    r"(?:^|_)(?:dir|path|file|port|addr|address|host|hostname|name|id|url|user|time|date|rank|save|load|log|prefix|"
    r"project|wandb|tensorboard|run|output|endpoint|node|seed|nodelist|pid|uuid|socket|exit)(?:_|$)"
)
_PER_JOB = re.compile(
    r"^(?:RANK|LOCAL_RANK|GROUP_RANK|ROLE_\w+|NODE_RANK|MASTER_\w+|HOSTNAME|TMPDIR|\w*_WORLD_SIZE|WORLD_SIZE|TRIAGE_\w+|"
    r"TORCHELASTIC_(?:RUN_ID|RESTART_COUNT)|\w+_(?:PID|PORT|TIME|HOST|UUID|NODELIST|RANK|DIR|FILE|ADDR|ID)|OMPI_\w+|"
    r"SLURM_(?!CPU_BIND|DISTRIBUTION|CPUS_PER|GPUS|MEM|NTASKS_PER)\w+|KUBERNETES_\w+|PMIX?_\w+)$"
)
_PACKAGE = re.compile(r"([A-Za-z][\w.]{0,60})-(\d[\w.+!]{0,40})\.dist-info$", re.M)
_SYSTEM = (
    ("os-release", "operating system", re.compile(r'^PRETTY_NAME="?([^"\n]{1,80})', re.M)),
    ("proc-version", "kernel", re.compile(r"^Linux version (\S{1,80})")),
    ("nvidia-module", "NVIDIA driver", re.compile(r"^(\d+\.[\d.]{1,20})\s*$", re.M)),
    ("cuda-version", "CUDA toolkit", re.compile(r'"cuda"\s*:\s*\{[^}]{0,200}"version"\s*:\s*"([\d.]{1,20})"')),
    ("ofed", "OFED", re.compile(r"^(\S{0,40}OFED\S{0,60}?):?\s*$", re.M)),
)  # fmt: skip


def gather(evidence: Evidence, incident: Incident) -> tuple[dict[Key, tuple[str, ...]], frozenset[str]]:
    """(kind, name) -> its values, sorted; and which kinds of places told any, to tell unset from unknown."""
    found: dict[Key, set[str]] = defaultdict(set)
    told: set[str] = set()
    for place, kind, name, value in _all(evidence, incident):
        value = " ".join(value.split())[:LONGEST]
        if value and len(found[kind, name]) < VALUES:
            found[kind, name].add(value)
            told.add(place)
    return {key: tuple(sorted(values)) for key, values in sorted(found.items()) if values}, frozenset(told)


def _all(evidence: Evidence, incident: Incident) -> Iterator[tuple[str, str, str, str]]:
    for fact in incident.facts:
        yield from _of_fact(fact)
    for mark in incident.marks:
        name, value = str(mark.fields.get("name", "")), mark.fields.get("value")
        if mark.kind == "env" and value is not None and not _PER_JOB.match(name):
            yield "nccl", "environment", name, str(value)
    if incident.nodes:
        yield "nodes", "topology", "nodes", ", ".join(incident.nodes[:VALUES])
    for file in _collected(incident.files):
        yield from _of_collector(file, evidence.read(file, SMALL).decode("utf-8", "replace"))
    for file in [file for file in incident.files if file.text and not _parts(file)][:LOGS]:
        chunk = next(iter(evidence.chunks(file)), None)
        if chunk is not None:
            yield from _of_log(chunk.data[:HEAD].decode("utf-8", "replace"))


def _of_fact(fact: Fact) -> Iterator[tuple[str, str, str, str]]:
    if fact.name in _FACTS and fact.value is not None:
        kind, name = _FACTS[fact.name]
        values = fact.value if isinstance(fact.value, list) else [fact.value]
        yield fact.name, kind, name, ", ".join(str(value) for value in values)


def _parts(file: File) -> tuple[str, str] | None:
    """(collector, file name) within a bundle, for the two collectors that are read here."""
    folder, _, name = file.path.rpartition("/")
    collector = folder.rpartition("/")[2]
    return (collector, name) if collector in {"environment", "versions"} else None


def _collected(files: tuple[File, ...]) -> list[File]:
    return [file for file in files if file.text and _parts(file)][:COLLECTED]


def _of_collector(file: File, text: str) -> Iterator[tuple[str, str, str, str]]:
    collector, name = _parts(file) or ("", "")
    if collector == "environment":
        for line in text.splitlines()[:2000]:
            variable, sign, value = line.partition("=")
            if sign and len(variable) < LONGEST and not _PER_JOB.match(variable):
                yield "environment", "environment", variable, value
    elif name.startswith("packages"):
        for package, version in _PACKAGE.findall(text):
            yield "packages", "version", package.lower().replace("_", "-"), version
    for start, label, pattern in _SYSTEM if collector == "versions" else ():
        if name.startswith(start) and (match := pattern.search(text)):
            yield name, "version", label, match[1]


def _of_log(text: str) -> Iterator[tuple[str, str, str, str]]:
    for name, pattern in _LINES:
        for value in re.findall(pattern, text)[:VALUES]:
            yield name, "version", name, value
    for match in list(_ARGUMENT.finditer(text))[:2000]:
        if match[1] in WORK or not _IDLE.search(match[1]):
            yield "arguments", "setting", match[1], match[2]
    for command in list(_COMMAND.finditer(text))[:VALUES]:
        for flag, value in _FLAG.findall(command[0]):
            name = flag.replace("-", "_")
            if name in WORK or not _IDLE.search(name):
                yield "command", "setting", name, value or "given"
