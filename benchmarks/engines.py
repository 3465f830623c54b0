"""`triage explain --engine dask://…` against the local engine: the same bytes, and how long each takes.

    python benchmarks/engines.py [MB]     workers come through a real sbatch, from a Slurm started on this machine

Needs root, Debian's Slurm (see tests/services/slurm.py) and the extra `dask`. The workers share this machine's cores,
so the figure says what spreading costs, not what a cluster gains.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from reduce import write_node

from triage.engines import LOCAL, Dask, Engine
from triage.pipeline import explain

WORKERS = 3
ROOT = Path(__file__).resolve().parents[1]
WORKER = """\
#!/bin/sh
#SBATCH --ntasks=1
export PYTHONPATH={root} OMP_NUM_THREADS=1
exec {python} -W ignore -m distributed.cli.dask_worker tcp://127.0.0.1:{port} --nthreads 1 --no-dashboard --no-nanny \\
  --local-directory {folder}/spill-$SLURM_JOB_ID
"""


def main(size: int) -> None:
    """Logs of eight nodes, explained by either engine."""
    sys.path.append(str(ROOT / "tests"))
    from services.slurm import running
    from services.sshd import free_port

    with tempfile.TemporaryDirectory(dir="/tmp") as folder, running(Path(folder) / "lab") as lab:
        chance, logs, port = random.Random(7), Path(folder) / "logs", free_port()
        for number in range(8):
            node = logs / "nodes" / f"node{number:04d}"
            node.mkdir(parents=True)
            write_node(node, node.name, 8 * number, (size << 20) // 8, chance, fault=number == 5)
        total = sum(path.stat().st_size for path in logs.rglob("*.log"))
        scheduler = [sys.executable, "-W", "ignore", "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
        cluster = subprocess.Popen(
            [*scheduler, "--host", "127.0.0.1", "--port", str(port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, PYTHONPATH=str(ROOT)),
        )  # fmt: skip
        try:
            script = Path(folder) / "worker.sh"
            script.write_text(WORKER.format(root=ROOT, python=sys.executable, port=port, folder=folder))
            started = time.monotonic()
            for _ in range(WORKERS):
                lab.run("sbatch", "--output", f"{folder}/%j.out", str(script))
            nodes = _wait(port)
            print(f"{len(nodes)} workers through sbatch after {time.monotonic() - started:.1f} s")
            print(lab.run("squeue", "--format=%i %T %N", "--noheader"))
            answers = [_timed(name, engine, logs, total) for name, engine in _engines(port)]
            print("the same bytes" if len(set(answers)) == 1 else "THE ANSWERS DIFFER")
        finally:
            cluster.terminate()
            cluster.wait()


def _engines(port: int) -> list[tuple[str, Engine]]:
    address = f"127.0.0.1:{port}"
    return [("local", LOCAL), ("dask, first", Dask(address)), ("dask, again", Dask(address)), ("local", LOCAL)]


def _wait(port: int) -> list[str]:
    from distributed import Client

    with Client(f"tcp://127.0.0.1:{port}", timeout=60, set_as_default=False) as client:
        client.wait_for_workers(WORKERS, timeout=60)
        return sorted(client.run(lambda: os.environ.get("SLURMD_NODENAME", "")).values())


def _timed(name: str, engine: Engine, logs: Path, total: int) -> bytes:
    started = time.monotonic()
    answer = msgspec.json.encode(explain([str(logs)], engine))
    taken = time.monotonic() - started
    print(f"{name}: {taken:.1f} s for {total / 1e6:.0f} MB, {total / 1e6 / taken:.0f} MB/s")
    return answer


if __name__ == "__main__":
    main(int((*sys.argv, "400")[1]))
