"""The store in one file.

Rollback journal, not write-ahead log: home folders often lie on network file systems, where the latter fails.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from triage.history.database import TABLES, VERSION, WAIT_S, StoreError


class Sqlite:
    """A `Database` in a file that only its owner reads."""

    joined = "GROUP_CONCAT"

    def __init__(self, path: Path) -> None:
        self.name = str(path)
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

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _prepare(self) -> None:
        self.rows("PRAGMA synchronous=FULL")
        version = self._version()
        if version == 0:
            with self.writing():
                if self._version() == 0:  # nobody else was faster
                    for statement in TABLES:
                        self.rows(statement)
                    self.rows(f"PRAGMA user_version={VERSION}")
        elif version > VERSION:
            raise StoreError(f"{self.name}: made by a newer triage (version {version})")

    def _version(self) -> int:
        return int(self.rows("PRAGMA user_version")[0]["user_version"])

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError) as error:
            raise StoreError(f"{self.name}: {error}") from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction. Raises StoreError, with nothing changed, when it cannot be written (full disk, no right)."""
        self.rows("BEGIN IMMEDIATE")
        try:
            yield
            self.rows("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self.rows("ROLLBACK")
            raise

    def rows(self, query: str, values: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Rows of a query as dictionaries. Raises StoreError."""
        with self._told():
            return [dict(row) for row in self._db.execute(query, values)]

    def many(self, query: str, rows: Sequence[Sequence[object]]) -> None:
        """A statement for each of the rows. Raises StoreError."""
        with self._told():
            self._db.executemany(query, rows)
