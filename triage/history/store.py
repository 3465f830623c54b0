"""The store: one SQLite file. Every write is one transaction: it is there whole, or not at all.

Rollback journal, not write-ahead log: home folders often lie on network file systems, where the latter fails.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from triage.errors import TriageError, UsageError
from triage.history.records import Kept

VERSION = 1
WAIT_S = 5.0  # for another writer; longer than that would keep a person from the answer
_TABLES = """
CREATE TABLE incidents (
  id TEXT PRIMARY KEY, seen REAL NOT NULL, times INTEGER NOT NULL DEFAULT 1, verdict TEXT NOT NULL, cause TEXT,
  title TEXT NOT NULL, confidence REAL, job TEXT, ended REAL, run_s REAL, lost_s REAL, gpu_hours REAL, ranks INTEGER,
  culprits TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE blamed (incident TEXT NOT NULL, node TEXT, gpu TEXT, cause TEXT NOT NULL);
CREATE TABLE ran (incident TEXT NOT NULL, node TEXT NOT NULL);
CREATE TABLE signs (incident TEXT NOT NULL, signature TEXT NOT NULL);
CREATE TABLE notes (incident TEXT NOT NULL, at REAL NOT NULL, text TEXT NOT NULL, held TEXT);
CREATE TABLE exposure (node TEXT PRIMARY KEY, runs INTEGER NOT NULL, seconds REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX incidents_seen ON incidents (seen);
CREATE INDEX blamed_node ON blamed (node, cause, incident);
CREATE INDEX blamed_incident ON blamed (incident);
CREATE INDEX ran_incident ON ran (incident);
CREATE INDEX signs_incident ON signs (incident);
CREATE INDEX signs_signature ON signs (signature, incident);
CREATE INDEX notes_incident ON notes (incident);
"""


class StoreError(TriageError):
    """The store cannot be read or written; explaining goes on without it."""


class Store:
    """Opened at once, made when it is not there. A context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)  # host names and causes are nobody else's; SQLite keeps the mode for its journal
            self._db = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{path}: {error}") from error
        self._db.row_factory = sqlite3.Row
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _prepare(self) -> None:
        with self._told():
            self._db.execute("PRAGMA synchronous=FULL")
            version = self._version()
        if version == 0:
            with self.writing():
                if self._version() == 0:  # nobody else was faster
                    for statement in _TABLES.split(";")[:-1]:
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA user_version={VERSION}")
        elif version > VERSION:
            raise StoreError(f"{self.path}: made by a newer triage (version {version})")

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {error}") from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction. Raises StoreError, with nothing changed, when it cannot be written (full disk, no right)."""
        with self._told():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def rows(self, query: str, *values: object) -> list[dict[str, Any]]:
        """Rows of a query as dictionaries. Raises StoreError."""
        with self._told():
            return [dict(row) for row in self._db.execute(query, values)]

    def add(self, one: Kept, now: float | None = None) -> bool:
        """Keep an incident; False when it was known: it is then told anew, its notes and first date stay."""
        with self.writing():
            known = self._db.execute("SELECT seen, times FROM incidents WHERE id=?", (one.id,)).fetchone()
            if known:
                self._forget(one.id)
            seen, times = (known["seen"], known["times"] + 1) if known else (time.time() if now is None else now, 1)
            self._insert(one, seen, times)
        return known is None

    def _forget(self, identity: str) -> None:
        """Everything of an incident but its notes."""
        old = self._db.execute("SELECT run_s FROM incidents WHERE id=?", (identity,)).fetchone()["run_s"] or 0.0
        self._db.execute(
            "UPDATE exposure SET runs=runs-1, seconds=seconds-? WHERE node IN (SELECT node FROM ran WHERE incident=?)",
            (old, identity),
        )
        for table in ("blamed", "ran", "signs"):
            self._db.execute(f"DELETE FROM {table} WHERE incident=?", (identity,))  # noqa: S608 names of ours
        self._db.execute("DELETE FROM incidents WHERE id=?", (identity,))

    def _insert(self, one: Kept, seen: float, times: int) -> None:
        culprits = msgspec.json.encode(one.culprits).decode()
        self._db.execute(
            "INSERT INTO incidents VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                one.id, seen, times, one.verdict, one.cause, one.title, one.confidence, one.job, one.ended, one.run_s,
                one.lost_s, one.gpu_hours, one.ranks, culprits,
            ),
        )  # fmt: skip
        blamed = {(one.id, each.node, _gpu(each.pci, each.gpu), one.cause) for each in one.culprits if each.node}
        self._db.executemany("INSERT INTO blamed VALUES (?,?,?,?)", sorted(blamed, key=str))
        self._db.executemany("INSERT INTO ran VALUES (?,?)", [(one.id, node) for node in one.nodes])
        self._db.executemany("INSERT INTO signs VALUES (?,?)", [(one.id, name) for name in one.signatures])
        self._db.executemany(
            "INSERT INTO exposure VALUES (?,1,?) ON CONFLICT (node) DO UPDATE SET runs=runs+1, "
            "seconds=seconds+excluded.seconds",
            [(node, one.run_s or 0.0) for node in one.nodes],
        )

    def find(self, prefix: str) -> str:
        """The whole id that begins so. Raises UsageError when none or several do."""
        found = self.rows("SELECT id FROM incidents WHERE id >= ? AND id < ? LIMIT 3", prefix, prefix + "g")
        if len(found) == 1:
            return str(found[0]["id"])
        raise UsageError(
            f"{'several incidents' if found else 'no incident'} {prefix!r}; `triage history list` has them"
        )

    def note(self, prefix: str, text: str, held: str | None, now: float | None = None) -> str:
        """Write down what was done, and whether it held (yes, no or None: not known yet); the incident's id."""
        identity = self.find(prefix)
        with self.writing():
            at = time.time() if now is None else now
            self._db.execute("INSERT INTO notes VALUES (?,?,?,?)", (identity, at, text, held))
        return identity


def _gpu(pci: str | None, gpu: int | None) -> str | None:
    return pci or (f"GPU {gpu}" if gpu is not None else None)
