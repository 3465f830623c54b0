"""What `triage collect --reduce` leaves of a node's logs, how fast, and whether the answer stays.

    python benchmarks/reduce.py cases FOLDER...    every incident below: answers by the whole and by the reduced logs
    python benchmarks/reduce.py node [MB]          logs of one node, generated: megabytes a second, bytes sent
    python benchmarks/reduce.py nodes COUNT        that many reduced nodes in one bundle: its size, and explain's time

`cases` reduces every log, however small, and keeps little of its ends, so that the choice of lines is what is tried.
"""

from __future__ import annotations

import io
import json
import random
import resource
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from triage.model.report import Report
from triage.pipeline import explain
from triage.transport import packing

ROOT = Path(__file__).resolve().parents[1]
STEP = (
    " [2026-11-30 {clock}] iteration {step:8d}/  500000 | consumed samples: {count:12d} | elapsed time per iteration"
    " (ms): {ms} | learning rate: 1.500000E-04 | global batch size:  1024 | lm loss: {loss}E+00 | loss scale: 1.0 |"
    " grad norm: 0.412 | num zeros: 0.0 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)
OUTPUT = (
    "2026-11-30 {clock},013 INFO:data: rank {rank} loaded shard /data/tok/shard-{step:05d}.bin in 1.4s (retries: 0)\n",
    "2026-11-30 {clock},119 DEBUG:timers: forward: {ms} backward: 1999.42 all-grads-sync: 71.30 optimizer: 31.02\n",
    "2026-11-30 {clock},540 INFO:monitor: gpu {local} temp 63C power 641W xid_errors: 0 ecc_dbe: 0\n",
    "2026-11-30 {clock},777 WARNING:loader: worker {local} took 2.1s for one batch; timeout is 60 s\n",
    "2026-11-30 {clock},802 INFO:ckpt: saved iter_{step:07d}/mp_rank_{local:02d}/model_optim_rng.pt ok\n",
)
HEAD = "{node}:{pid}:{pid} [{local}] NCCL INFO "
NCCL = (
    HEAD + "Channel 02/0 : {rank}[{local}] -> {other}[{local}] [send] via NET/IB/3/GDRDMA\n",
    HEAD + "AllReduce: opCount {count:x} sendbuff 0x7f2a{count:08x} count 1048576 datatype 9 op 0\n",
    HEAD + "Trees [0] {other}/-1/-1->{rank}->3 [1] {other}/-1/-1->{rank}->3\n",
)
KERNEL = (
    '[{count}.000{local}] audit: type=1400 audit(1764509157.123:{step}): apparmor="ALLOWED" pid={pid}\n',
    "[{count}.000{local}] systemd[1]: Started Session {step} of user train.\n",
    "[{count}.000{local}] mlx5_core 0000:3b:00.0 ib{local}: Port: 1 Link UP\n",
)
FAULT = "[{count}.0001] NVRM: Xid (PCI:0000:9b:00): 79, pid={pid}, GPU has fallen off the bus.\n"
INIT = HEAD + (
    "ncclCommInitRankConfig comm 0x55d1c0 rank {rank} nranks {world} cudaDev {local} nvmlDev {local} busId {local}b000"
    " commId 0xabc - Init COMPLETE\n"
)


def main(arguments: list[str]) -> None:
    """One of the three."""
    if arguments[:1] == ["cases"] and arguments[1:]:
        cases([Path(one) for one in arguments[1:]])
    elif arguments[:1] == ["node"]:
        node(int((*arguments, "150")[1]))
    elif arguments[:1] == ["nodes"] and arguments[1:]:
        nodes(int(arguments[1]))
    else:
        sys.exit(__doc__)


def reducer(strict: bool = False) -> Any:
    """The nodes' own, as it lies."""
    sys.path.insert(0, str(ROOT / "collectors"))
    import _picking
    import _reduction

    if strict:
        _reduction.SMALL, _picking.HEAD, _picking.TAIL = 0, 10, 20
    rules = _reduction.Rules(packing.reduction(), json.loads((ROOT / "collectors" / "redaction.json").read_text()))
    return _reduction.Reducer(rules)


# ---- the same answer ----


def cases(roots: list[Path]) -> None:
    """Differences, and how many there were."""
    found = [path for root in roots for path in sorted(root.iterdir()) if path.is_dir()]
    tool, differ, before, after = reducer(strict=True), 0, 0, 0
    for case in found:
        source = case / "evidence" if (case / "evidence").is_dir() else case
        with tempfile.TemporaryDirectory() as folder:
            sizes = _copy(tool, source, Path(folder) / "evidence")
            whole, less = explain([str(source)]), explain([f"{folder}/evidence"])
        before, after = before + sizes[0], after + sizes[1]
        if not _same(whole, less):
            differ += 1
            print(f"{case.name}\n  whole   {_brief(whole)}\n  reduced {_brief(less)}")
    print(f"{len(found)} incidents, {differ} differ; {before / 1e6:.1f} MB of logs became {after / 1e6:.1f} MB")


def _copy(tool: Any, source: Path, target: Path) -> tuple[int, int]:
    before = after = 0
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        copy, data = target / path.relative_to(source), path.read_bytes()
        copy.parent.mkdir(parents=True, exist_ok=True)
        found = tool.lines(io.BytesIO(data), len(data), {}, 3600)
        copy.write_bytes(found[0] if found else data)
        if found:
            before, after = before + len(data), after + len(found[0])
    return before, after


def _same(whole: Report, less: Report) -> bool:
    if whole.verdict != less.verdict or len(whole.hypotheses[:1]) != len(less.hypotheses[:1]):
        return False
    for one, other in zip(whole.hypotheses[:1], less.hypotheses[:1], strict=True):
        if (
            one.cause != other.cause
            or _culprits(one) != _culprits(other)
            or abs(one.confidence - other.confidence) > 0.1
        ):
            return False
    return True


def _culprits(hypothesis: Any) -> list[bytes]:
    return sorted(msgspec.json.encode(msgspec.structs.replace(each, why="")) for each in hypothesis.culprits)


def _brief(report: Report) -> str:
    best = report.hypotheses[0] if report.hypotheses else None
    return f"{report.verdict} {best.cause} {best.confidence} {_culprits(best)}" if best else report.verdict


# ---- size and speed ----


def node(size: int) -> None:
    """Throughput on one core, and what is sent of so many megabytes."""
    tool = reducer()
    with tempfile.TemporaryDirectory() as folder:
        files = write_node(Path(folder), "node0001", 0, size << 20, random.Random(7))
        started, before, after = _spent(), 0, 0
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
            for path in files:
                with path.open("rb") as source:
                    found = tool.lines(source, path.stat().st_size, {}, 3600)
                data = found[0] if found else path.read_bytes()
                info = tarfile.TarInfo(path.name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
                before, after = before + path.stat().st_size, after + len(data)
        spent = _spent() - started
    print(f"{len(files)} logs of a node, {before / 1e6:.0f} MB: {before / 1e6 / spent:.0f} MB/s of processor time")
    print(f"{after / 1e3:.0f} kB kept, {len(packed.getvalue()) / 1e3:.0f} kB sent (gzip 1, as nodes do)")


def nodes(count: int) -> None:
    """A bundle of many reduced nodes (four different ones in turn, renamed), one with a fault."""
    import zstandard

    tool, chance = reducer(), random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        kinds = [_kept(tool, Path(folder) / str(kind), chance, fault=not kind) for kind in range(5)]
        bundle = Path(folder) / "b.tar.zst"
        with (
            bundle.open("wb") as file,
            zstandard.ZstdCompressor(level=3).stream_writer(file) as packed,
            tarfile.open(fileobj=packed, mode="w|") as archive,
        ):
            for number in range(count):
                _add(archive, kinds[1 + number % 4] if number != count // 2 else kinds[0], number)
        print(
            f"{count} nodes: {bundle.stat().st_size / 1e6:.1f} MB, {bundle.stat().st_size / count / 1e3:.1f} kB a node"
        )
        started, wall = _spent(), time.monotonic()
        report = explain([str(bundle)])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"explain: {_spent() - started:.0f} s of processor time, {time.monotonic() - wall:.0f} s, {peak:.0f} MB")
        print(_brief(report)[:200])


def _kept(tool: Any, folder: Path, chance: random.Random, fault: bool) -> dict[str, bytes]:
    folder.mkdir()
    found = {}
    for path in write_node(folder, "NODE", 0, 30 << 20, chance, fault):
        with path.open("rb") as source:
            reduced = tool.lines(source, path.stat().st_size, {}, 3600)
        found[path.name] = reduced[0] if reduced else path.read_bytes()
    return found


def _add(archive: tarfile.TarFile, files: dict[str, bytes], number: int) -> None:
    """A node under its own name; its times and process ids differ from those of all others."""
    own = random.Random(number)
    name = f"node{number:05d}"
    for file, data in files.items():
        data = data.replace(b"NODE", name.encode()).replace(b",013", b",%03d" % own.randrange(1000))
        data = data.replace(b"E+00 | loss", b"%dE+00 | loss" % own.randrange(1000)).replace(
            b"/shard-", b"/shard-%d" % number
        )
        info = tarfile.TarInfo(f"nodes/{name}/job_logs/{file.replace('NODE', name)}")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))


def write_node(
    folder: Path, name: str, first: int, size: int, chance: random.Random, fault: bool = False
) -> list[Path]:
    """Eight ranks' output and NCCL logs, the kernel's log: so many bytes in all."""
    shares = {f"rank{first + local}.log": (local, OUTPUT, 0.08) for local in range(8)}
    shares |= {f"nccl.{name}.{1000 + local}.log": (local, NCCL, 0.035) for local in range(8)}
    files = []
    for file, (local, lines, share) in {**shares, "kern.log": (0, KERNEL, 0.03)}.items():
        told = {"node": name, "local": local, "rank": first + local, "pid": 1000 + local, "world": 8192}
        broken = fault and file == "kern.log"
        with (folder / file).open("w") as target:
            target.writelines(_lines(lines, told, int(size * share), chance, broken))
        files.append(folder / file)
    return files


def _lines(
    lines: tuple[str, ...], told: dict[str, Any], size: int, chance: random.Random, fault: bool
) -> Iterator[str]:
    count = written = 0
    while written < size:
        count += 1
        clock = f"{count // 36000 % 24:02d}:{count // 600 % 60:02d}:{count // 10 % 60:02d}"
        known = told | {"count": count, "step": count // 8, "clock": clock, "other": told["rank"] + 8}
        known |= {"ms": f"{chance.uniform(4400, 4700):.1f}", "loss": f"{chance.uniform(2.05, 2.08):.6f}"}
        text = chance.choice(lines)
        if lines is NCCL and count < 20:
            text = INIT
        elif lines is OUTPUT and told["local"] == 7 and count % 8 == 0:
            text = STEP
        elif fault and written > size // 2:
            text, fault = FAULT, False
        text = text.format(**known)
        written += len(text)
        yield text


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(sys.argv[1:])
