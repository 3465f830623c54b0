"""What a store needs of a database, and the tables that are the same in all of them.

A database numbers nothing and decides nothing: it runs statements of ours, with `?` where a value goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from triage.errors import TriageError

VERSION = 1
WAIT_S = 5  # for another writer, or for a server; longer than that would keep a person from the answer
# `INTEGER` would be four bytes and `REAL` single precision in PostgreSQL; SQLite takes both names for its own types.
TABLES = """
CREATE TABLE incidents (
  id TEXT PRIMARY KEY, seen DOUBLE PRECISION NOT NULL, times BIGINT NOT NULL DEFAULT 1, verdict TEXT NOT NULL,
  cause TEXT, title TEXT NOT NULL, confidence DOUBLE PRECISION, job TEXT, ended DOUBLE PRECISION,
  run_s DOUBLE PRECISION, lost_s DOUBLE PRECISION, gpu_hours DOUBLE PRECISION, ranks BIGINT, culprits TEXT NOT NULL);
CREATE TABLE blamed (incident TEXT NOT NULL, node TEXT, gpu TEXT, cause TEXT NOT NULL);
CREATE TABLE ran (incident TEXT NOT NULL, node TEXT NOT NULL);
CREATE TABLE signs (incident TEXT NOT NULL, signature TEXT NOT NULL);
CREATE TABLE notes (incident TEXT NOT NULL, at DOUBLE PRECISION NOT NULL, text TEXT NOT NULL, held TEXT);
CREATE TABLE exposure (node TEXT PRIMARY KEY, runs BIGINT NOT NULL, seconds DOUBLE PRECISION NOT NULL);
CREATE INDEX incidents_seen ON incidents (seen);
CREATE INDEX blamed_node ON blamed (node, cause, incident);
CREATE INDEX blamed_incident ON blamed (incident);
CREATE INDEX ran_incident ON ran (incident);
CREATE INDEX signs_incident ON signs (incident);
CREATE INDEX signs_signature ON signs (signature, incident);
CREATE INDEX notes_incident ON notes (incident)
""".strip().split(";")


class StoreError(TriageError):
    """The store cannot be read or written; explaining goes on without it."""


class Database(Protocol):
    """Open from the start, its tables made when they are not there. Everything raises StoreError, in one line.

    name: how messages call it; never with a password. joined: the aggregate that joins texts with a separator.
    """

    name: str
    joined: str

    def rows(self, query: str, values: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Rows of a query as dictionaries; none for a statement that gives none."""

    def many(self, query: str, rows: Sequence[Sequence[object]]) -> None:
        """A statement for each of the rows."""

    def writing(self) -> AbstractContextManager[None]:
        """One transaction, alone among the writers: it is there whole, or not at all."""

    def close(self) -> None:
        """Let go of it."""
