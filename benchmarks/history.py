"""100,000 incidents of 2,000 nodes, in a file and in PostgreSQL: questions, kills in mid-write, a full disk.

    PYTHONPATH=tests python benchmarks/history.py [incidents] [kills]

PostgreSQL is started from Debian's package where it is installed; the full disk is a small tmpfs, which needs root.
"""

from __future__ import annotations

import itertools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from services import postgres

from triage.history import places, questions
from triage.history.records import Kept
from triage.history.store import Store, StoreError
from triage.model.report import Culprit

NODES, PER_JOB = 2000, 64
CAUSES = ("gpu/fallen-off-bus", "gpu/ecc-uncorrectable", "network/link-down", "code/exception", "storage/stall")
TABLES = ("incidents", "blamed", "ran", "signs", "exposure")


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


def opened(where: str) -> Store:
    """The store of a file or a URL."""
    place = places.place(where)
    assert place is not None
    return Store(place)


def fill(store: Store, count: int) -> None:
    """In one transaction, or it would take the disk an hour."""
    dice = random.Random(7)
    with store.writing():
        for number in range(count):
            store._insert(made(number, dice), float(number), 1)


def copied(source: Store, url: str) -> None:
    """The same rows into PostgreSQL, as a backup would bring them there; inserting them one by one takes an hour."""
    import psycopg

    opened(url).close()  # makes the tables
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = triage_history")
        for table in TABLES:
            with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                for row in source.rows(f"SELECT * FROM {table}"):
                    copy.write_row(tuple(row.values()))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def timed(name: str, work: Callable[[], object]) -> None:
    """Say how long something took, and how much of this process."""
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    work()
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"  {name:<28}{1000 * wall:9.1f} ms  (CPU here {1000 * own:.1f} ms)", flush=True)


def asked(store: Store, count: int) -> None:
    """The questions that people ask, and one more incident."""
    timed("nodes", lambda: questions.nodes(store))
    timed("list --node", lambda: questions.listed(store, node="node0100"))
    timed("stats", lambda: questions.stats(store))
    timed("add one of 64 nodes", lambda: store.add(made(count + 1, random.Random(1))))
    offenders = [row["node"] for row in questions.nodes(store) if row["repeat_offender"]]
    print(f"  {len(offenders)} repeat offenders, {sum(node.endswith('00') for node in offenders)} of them made so")


def write(where: str, first: int) -> None:
    """Until it is killed; each number is told when it is kept."""
    with opened(where) as store:
        for number in itertools.count(first):
            store.add(made(number, random.Random(number)))
            print(number, flush=True)


def killed(where: str, kills: int, first: int) -> None:
    """Kill a writer soon after it said that it had kept something, again and again; nothing may be lost."""
    told = 0
    for turn in range(kills):
        words = [sys.executable, __file__, "--write", where, str(first + 10_000 * turn)]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(random.Random(turn).uniform(0, 0.05))
            writer.send_signal(signal.SIGKILL)
            told += 1 + writer.stdout.read().count(b"\n")
    with opened(where) as store, store.writing():
        count, whole = consistent(store, first)
    assert told <= count <= told + kills and whole, (told, count, whole)
    print(f"  {kills} kills: {told} incidents told to be kept, {count} there, all of them whole", flush=True)


def consistent(store: Store, number: int) -> tuple[int, bool]:
    """How many incidents the killed writers left, and whether each has all its rows and its share of the exposure."""
    first = f"{number:064x}"
    count = store.rows("SELECT COUNT(*) AS n FROM incidents WHERE id >= ?", first)[0]["n"]
    ran = store.rows("SELECT COUNT(*) AS n FROM ran WHERE incident >= ?", first)[0]["n"]
    everywhere = store.rows("SELECT COUNT(*) AS n FROM ran")[0]["n"]
    runs = store.rows("SELECT SUM(runs) AS n FROM exposure")[0]["n"]
    return count, ran == PER_JOB * count and everywhere == runs


@contextmanager
def small_disk(account: str | None = None) -> Iterator[Path]:
    """A file system of eight megabytes."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], check=True)
    try:
        if account:
            shutil.chown(folder, account)
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


def fills_up(store: Store) -> None:
    """Until the disk is full: the last incident is not there, all before it are, and reading goes on."""
    number = 0
    try:
        for number in itertools.count():
            store.add(made(number, random.Random(number)))
    except StoreError as error:
        print(f"  full after {number}: {error}")
    with store.writing():
        count = store.rows("SELECT COUNT(*) AS n FROM incidents")[0]["n"]
        ran = store.rows("SELECT COUNT(*) AS n FROM ran")[0]["n"]
    assert (count, ran) == (number, PER_JOB * number) and questions.nodes(store)


def full(url: str | None) -> None:
    """A real full disk under both."""
    with small_disk() as folder, opened(str(folder / "h.sqlite")) as store:
        fills_up(store)
    if url is None:
        return
    import psycopg

    with small_disk("postgres") as folder:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
            connection.execute("CREATE DATABASE narrow TABLESPACE small STRATEGY file_copy")
        with opened(url.rpartition("/")[0] + "/narrow") as store:
            fills_up(store)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP DATABASE narrow WITH (FORCE)")
            connection.execute("DROP TABLESPACE small")


def main() -> None:
    """Fill a store, ask it, kill its writers, fill its disk; then the same with PostgreSQL."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    with tempfile.TemporaryDirectory() as folder, opened(f"{folder}/history.sqlite") as store:
        print("SQLite")
        timed(f"fill {count}", lambda: fill(store, count))
        asked(store, count)
        killed(f"{folder}/history.sqlite", kills, 10_000_000)
        if why := postgres.missing():
            print(f"PostgreSQL skipped: {why}")
            return
        print("PostgreSQL", flush=True)
        with postgres.running("fsync=on", "max_wal_size=4GB") as url:
            timed(f"copy {count}", lambda: copied(store, url))
            with opened(url) as other:
                asked(other, count)
            killed(url, kills, 20_000_000)  # the copied rows have those of the killed writers too
            if os.geteuid() == 0:
                print("A full disk", flush=True)
                full(url)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(sys.argv[2], int(sys.argv[3]))
    main()
