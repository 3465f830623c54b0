"""The store of a team: tables in the schema `triage_history` of a PostgreSQL database, named by a URL.

psycopg speaks through libpq, so all that libpq knows works: ~/.pgpass, PGPASSWORD, service files, sslmode, Kerberos.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from triage.errors import UsageError
from triage.history.database import TABLES, VERSION, WAIT_S, StoreError
from triage.history.places import Address

if TYPE_CHECKING:
    from psycopg import Connection

SCHEMA = "triage_history"
LOCK = 0x7472_6961_6765  # of ours among the advisory locks of the database: "triage"
QUERY_S = 60  # a question that takes longer is given up
_SETTINGS = (
    f"SET search_path = {SCHEMA}",
    f"SET lock_timeout = '{WAIT_S}s'",
    f"SET statement_timeout = '{QUERY_S}s'",
    "SET client_encoding = 'UTF8'",
    "SET TIME ZONE 'UTC'",
)


class Postgres:
    """A `Database` on a server. Raises UsageError when the extra is not installed."""

    joined = "STRING_AGG"

    def __init__(self, address: Address) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise UsageError("a history in PostgreSQL needs: pip install 'gpu-triage[postgres]'") from error
        self.name, self._address, self._error = address.name, address, psycopg.Error
        self._db: Connection[dict[str, Any]] = self._connected()
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _connected(self) -> Connection[dict[str, Any]]:
        import psycopg
        from psycopg.rows import dict_row

        with self._told():
            return psycopg.connect(
                self._address.url, autocommit=True, row_factory=dict_row,
                connect_timeout=WAIT_S,
                tcp_user_timeout=1000 * WAIT_S,  # a server that vanished in the middle
                prepare_threshold=None,  # poolers between us and the server hand out another session each time
                application_name="triage",
            )  # fmt: skip

    def close(self) -> None:
        """End the connection."""
        self._db.close()

    def _prepare(self) -> None:
        for setting in _SETTINGS:
            self.rows(setting)
        if not self._there():
            with self.writing():
                if not self._there():  # nobody else was faster
                    self._make()
        version = int(self.rows("SELECT number FROM version")[0]["number"])
        if version > VERSION:
            raise StoreError(f"{self.name}: made by a newer triage (version {version})")

    def _there(self) -> bool:
        """Asked of the catalogue's tables: the look-up by name (to_regclass) may remember what was before we waited."""
        query = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = ? AND tablename = 'version'"
        return bool(self.rows(query, [SCHEMA]))

    def _make(self) -> None:
        """Tables, in a schema that an administrator may have made before: making one is a right of its own."""
        if not self.rows("SELECT 1 FROM pg_namespace WHERE nspname = ?", [SCHEMA]):
            self.rows(f"CREATE SCHEMA {SCHEMA}")
        for statement in TABLES:  # texts are compared byte by byte, as in the file, whatever the server's language
            self.rows(statement.replace(" TEXT", ' TEXT COLLATE "C"'))
        self.rows("CREATE TABLE version (number BIGINT NOT NULL)")
        self.rows("INSERT INTO version VALUES (?)", [VERSION])

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise StoreError(f"{self.name}: {self._address.hidden(lines[0])}") from None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction, behind a lock: two writers of one incident, or of the same nodes, would meet otherwise.

        Raises StoreError, with nothing changed.
        """
        with self._told(), self._db.transaction():
            self.rows("SELECT pg_advisory_xact_lock(?)", [LOCK])
            yield

    def rows(self, query: str, values: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Rows of a query as dictionaries. Raises StoreError."""
        with self._told():
            done = self._db.execute(_own(query), values or None)
            return done.fetchall() if done.description else []

    def many(self, query: str, rows: Sequence[Sequence[object]]) -> None:
        """A statement for each of the rows. Raises StoreError."""
        with self._told(), self._db.cursor() as cursor:
            cursor.executemany(_own(query), rows)


def _own(query: str) -> bytes:
    """psycopg's mark of a value; bytes, because the queries are put together from parts of ours."""
    return query.replace("?", "%s").encode()
