"""100,000 incidents of a cluster of 2,000 nodes: how long `history nodes` and the others take; and kills in mid-write.

    python benchmarks/history.py [incidents] [kills]

Measured on two cores: nodes well under a second, adding one incident of 64 nodes a few milliseconds.
"""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from triage.history import questions
from triage.history.records import Kept
from triage.history.store import Store
from triage.model.report import Culprit

NODES, PER_JOB = 2000, 64
CAUSES = ("gpu/fallen-off-bus", "gpu/ecc-uncorrectable", "network/link-down", "code/exception", "storage/stall")


def made(number: int, dice: random.Random) -> Kept:
    """One incident; every hundredth node is five times as likely to be at fault."""
    first = dice.randrange(NODES - PER_JOB)
    nodes = tuple(f"node{at:04d}" for at in range(first, first + PER_JOB))
    weights = [5.0 if int(node[4:]) % 100 == 0 else 1.0 for node in nodes]
    culprit = Culprit(node=dice.choices(nodes, weights)[0], gpu=dice.randrange(8))
    return Kept(
        id=f"{number:064x}", verdict="diagnosed", cause=dice.choice(CAUSES), title="t", confidence=0.9, job=str(number),
        ended=float(number), run_s=dice.uniform(600, 86400), lost_s=600.0, gpu_hours=85.0, ranks=512, nodes=nodes,
        culprits=(culprit,), signatures=("gpu/xid-79-fallen-off-bus", "torch/watchdog-timeout"),
    )  # fmt: skip


def fill(store: Store, count: int) -> None:
    """In one transaction, or it would take the disk an hour."""
    dice = random.Random(7)
    with store.writing():
        for number in range(count):
            store._insert(made(number, dice), float(number), 1)


def timed(name: str, work: Callable[[], object]) -> None:
    """Say how long something took."""
    start = time.perf_counter()
    work()
    print(f"{name:<28}{1000 * (time.perf_counter() - start):9.1f} ms")


def write(path: str, first: int) -> None:
    """Until it is killed; each number is told when it is kept."""
    with Store(Path(path)) as store:
        for number in itertools.count(first):
            store.add(made(number, random.Random(number)))
            print(number, flush=True)


def killed(folder: str, kills: int) -> None:
    """Kill a writer at once after it said that it had kept something, again and again; nothing may be lost."""
    path, told = Path(folder) / "kills.sqlite", 0
    for turn in range(kills):
        words = [sys.executable, __file__, "--write", str(path), str(10_000 * turn)]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(random.Random(turn).uniform(0, 0.05))
            writer.send_signal(signal.SIGKILL)
            told += 1 + writer.stdout.read().count(b"\n")
    with Store(path) as store:
        sound = store.rows("PRAGMA integrity_check")[0]["integrity_check"]
        count = store.rows("SELECT COUNT(*) AS n FROM incidents")[0]["n"]
    assert sound == "ok" and told <= count <= told + kills
    print(f"{kills} kills: {told} incidents told to be kept, {count} there, {sound}")


def main() -> None:
    """Fill a store, ask it, kill writers."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "history.sqlite") as store:
        timed(f"fill {count}", lambda: fill(store, count))
        timed("nodes", lambda: questions.nodes(store))
        timed("list --node", lambda: questions.listed(store, node="node0100"))
        timed("stats", lambda: questions.stats(store))
        timed("add one", lambda: store.add(made(count + 1, random.Random(1))))
        offenders = [row["node"] for row in questions.nodes(store) if row["repeat_offender"]]
        print(f"{len(offenders)} repeat offenders, {sum(node.endswith('00') for node in offenders)} of them made so")
        killed(folder, kills)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(sys.argv[2], int(sys.argv[3]))
    main()
