"""The closed loop: make each reproduction, run it recorded, explain what it left, compare with what was planted.

    python benchmarks/closed_loop.py all WORK                what this machine can run
    python benchmarks/closed_loop.py make WORK               the scripts alone
    python benchmarks/closed_loop.py record WORK [NAME...]   run them: with torch, of triage only recorder/launch.py
    python benchmarks/closed_loop.py explain WORK [--keep FIXTURES] [--was PATH]

`record` runs with a bare python3 that has torch, so that a GPU machine needs no installation. `--gpus N` says how many
GPUs there are (default: asked of nvidia-smi). Exit code 1 when a first hypothesis is not the cause or not the culprit.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pickle
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 150  # of one entry
SMALL = 400_000  # bytes of a file that is kept as a fixture
SAID_OFTEN = (
    "New proxy ",
    "Connected to proxy ",
    "INFO Channel ",
    "INFO Trees ",
    "dlvsym failed",
)  # per channel
UUIDS: dict[str, str] = {}  # of this machine -> what a fixture has instead


@dataclass(frozen=True)
class Entry:
    """One reproduction: what it takes, what must come out, and values that keep it short.

    gpus: 0 runs over Gloo on CPU ranks. With --gpus 2 the same scripts are made for two ranks and take NCCL.
    """

    name: str
    cause: str
    rank: int | None = None
    gpus: int = 0
    values: dict[str, object] = field(default_factory=dict)
    ranks: int = 4
    nodes: int = 1
    nccl: bool = False
    either: bool = False  # of two ranks that differ nobody can tell which is wrong: both may be named


QUICK = {"timeout_s": 20, "at": 10}
ENTRIES = [
    Entry("rank-stalled", "collective/rank-stalled", 2, values=QUICK),
    Entry("missing-call", "collective/mismatch", 2, values=QUICK),
    Entry("other-operation", "collective/mismatch", 3, values=QUICK),
    Entry("other-size", "collective/mismatch", 1, values=QUICK),
    Entry("order-inversion", "collective/mismatch", 2, values=QUICK),
    Entry("dead-rank", "host/process-killed", 3, values=QUICK),
    Entry("slow-gpu", "performance/straggler", 2, values={"ratio": 1.6}),
    Entry("slow-host", "host/cpu-contention", 1, ranks=2),
    Entry("slow-data", "data/loader-bottleneck", 3, values={"read_ms": 60.0}),
    Entry("imbalance", "performance/imbalance"),
    Entry("loader-worker-death", "data/worker-killed"),
    Entry("shared-memory", "memory/shm-exhausted"),
    Entry("oom-capacity", "memory/gpu-capacity", gpus=1),
    Entry("oom-spike", "memory/gpu-spike", gpus=1),
    Entry("oom-leak", "memory/gpu-leak", gpus=1),
    Entry("oom-shared", "memory/gpu-shared", gpus=1),
    Entry("oom-one-rank", "memory/gpu-capacity", 1, gpus=2, ranks=2, nccl=True),
    Entry("fragmentation", "memory/gpu-fragmentation", gpus=1),
    Entry("device-assert", "code/device-assert", gpus=1),
    Entry("illegal-access", "code/illegal-access", gpus=1),
    Entry("pairwise-bandwidth", "network/congestion", nodes=2),  # measures; it plants nothing
]


def make(entry: Entry, work: Path) -> None:
    """Write the script of one entry."""
    from triage.repro.building import build, write
    from triage.repro.evidence import Found

    planted = {} if entry.rank is None else {"culprit": entry.rank}
    found = Found(values={**planted, **entry.values}, ranks=entry.ranks)  # type: ignore[dict-item]
    write(build(entry.name, entry.cause, found), work / entry.name / "repro", force=True)


def record(entry: Entry, work: Path) -> int:
    """Run its script under the recorder. The evidence lies in WORK/NAME/evidence."""
    launch = _launch()
    evidence = work / entry.name / "evidence"
    shutil.rmtree(evidence, ignore_errors=True)
    os.environ["TRIAGE_STALL_S"] = "6"
    command = ["timeout", "--signal=KILL", str(LIMIT_S), "bash", str(work / entry.name / "repro" / "run.sh")]
    code = launch.run(command, evidence, sys.stdout.buffer, sys.stderr.buffer)
    return int(code)


def _launch():  # type: ignore[no-untyped-def]
    """recorder/launch.py; without triage's dependencies it is loaded by its path."""
    try:
        from triage.recorder import launch
    except ImportError:
        sys.path.insert(0, str(ROOT))
        spec = importlib.util.spec_from_file_location("launch", ROOT / "triage" / "recorder" / "launch.py")
        assert spec is not None and spec.loader is not None
        launch = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(launch)
    return launch


def explain(entry: Entry, evidence: Path) -> tuple[bool, str]:
    """Is the first hypothesis the cause, and its culprit the rank? And what was said."""
    from triage import explain as explained

    report = explained(evidence)
    if not report.hypotheses:
        return False, f"{report.verdict}, no hypothesis"
    best = report.hypotheses[0]
    ranks = sorted({each.rank for each in best.culprits if each.rank is not None})
    right = best.cause == entry.cause and (
        entry.rank is None or ranks == [entry.rank] or (entry.either and ranks == [0, 1])
    )
    return right, f"{best.cause} {best.confidence:.2f} ranks {ranks}"


def keep(entry: Entry, evidence: Path, fixtures: Path, was: str) -> None:
    """Evidence that is small enough becomes a fixture, with the truth beside it and neutral paths inside."""
    target = fixtures / (f"nccl-{entry.name}" if entry.nccl else entry.name)
    shutil.rmtree(target, ignore_errors=True)
    (target / "evidence").mkdir(parents=True)
    for path in sorted(evidence.iterdir()):
        if path.stat().st_size <= SMALL and not path.name.startswith(("stacks.", "recorder.")):
            data = path.read_bytes() if not path.name.startswith("nccl.") else _fewer(path.read_text())
            (target / "evidence" / path.name).write_bytes(neutral(data, was))
    truth = {"cause": entry.cause, "template": entry.name} | ({} if entry.rank is None else {"rank": entry.rank})
    truth |= {"either": "true"} if entry.either else {}
    (target / "truth.yaml").write_text("".join(f"{key}: {value}\n" for key, value in truth.items()), encoding="utf-8")


def _fewer(log: str) -> bytes:
    lines = [line for line in log.splitlines(keepends=True) if not any(part in line for part in SAID_OFTEN)]
    return "".join(lines).encode()


def neutral(data: bytes, was: str) -> bytes:
    """Paths of the machine it was recorded on replaced, in text and in dumps that we have just recorded ourselves."""
    if data[:1] != b"\x80":
        return _neutral(data.decode("utf-8", "replace"), was).encode()
    return pickle.dumps(_walk(pickle.loads(data), was), protocol=2)


def _neutral(text: str, was: str) -> str:
    text = re.sub(r"/[\w./-]*/lib/python3", "/opt/venv/lib/python3", text.replace(was, "/data/run"))
    text = re.sub(r"(File \")/[\w./-]*/(triage/recorder)", r"\1/opt/venv/\2", text)
    for uuid in re.findall(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text):
        text = text.replace(uuid, UUIDS.setdefault(uuid, f"GPU-5d3a1c2e-8b1f-4c70-9e55-2f6a7b8c9d{len(UUIDS) + 1:02}"))
    text = re.sub(r"(Serial Number: )\d+", r"\g<1>1650000000000", text)
    return re.sub(r"/[\w./-]*/bin/(torchrun|python3)", r"/opt/venv/bin/\1", text)


def _walk(value: object, was: str) -> object:
    if isinstance(value, str):
        return _neutral(value, was)
    if isinstance(value, dict):
        return {_walk(key, was): _walk(each, was) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_walk(each, was) for each in value)
    return value


def gpus() -> int:
    """GPUs of this machine."""
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return listed.stdout.count("GPU ")


def main() -> int:
    """Run what was asked for; print a line for each entry, those that cannot run here included."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("all", "make", "record", "explain"))
    parser.add_argument("work", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--gpus", type=int)
    parser.add_argument("--keep", type=Path, help="folder of fixtures")
    parser.add_argument("--was", help="where WORK lay when it was recorded, if elsewhere")
    asked = parser.parse_args()
    have = gpus() if asked.gpus is None else asked.gpus
    wrong = 0
    for entry in [on_gpus(each, have) for each in ENTRIES if not asked.names or each.name in asked.names]:
        wrong += not _one(entry, asked, have)
    return 1 if wrong else 0


def on_gpus(entry: Entry, have: int) -> Entry:
    """With two GPUs the entries of several ranks run on two of them, over NCCL, and the culprit is rank 1."""
    if have < 2 or entry.ranks < 2 or entry.gpus or entry.name in ("loader-worker-death", "shared-memory"):
        return entry
    return replace(
        entry, ranks=2, rank=None if entry.rank is None else 1, either=entry.cause == "collective/mismatch",
        values={**entry.values, "numel": 1 << 20}, nccl=True,
    )  # fmt: skip


def _one(entry: Entry, asked: argparse.Namespace, have: int) -> bool:
    work = asked.work.resolve()
    if asked.what in ("all", "make"):
        make(entry, work)
    if asked.what in ("all", "record"):
        if entry.gpus > have or entry.nodes > 1:
            print(f"not run   {entry.name:<20} needs {entry.gpus} GPU, {entry.nodes} node(s)")
            return True
        print(f"recorded  {entry.name:<20} exit code {record(entry, work)}", flush=True)
    evidence = work / entry.name / "evidence"
    if asked.what in ("make", "record") or not evidence.is_dir():
        return True
    right, told = explain(entry, evidence)
    planted = f"planted {entry.cause} {'' if entry.rank is None else entry.rank}"
    print(f"{'right' if right else 'WRONG':<9} {entry.name:<20} {planted}; told {told}", flush=True)
    if right and asked.keep is not None:
        keep(entry, evidence, asked.keep, asked.was or str(work))
    return right


if __name__ == "__main__":
    sys.exit(main())
