"""The store: what is written down of an incident, in whichever database. Every write is one transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec

from triage.errors import UsageError
from triage.history.database import Database, StoreError
from triage.history.places import Address
from triage.history.postgres import Postgres
from triage.history.records import Kept
from triage.history.sqlite import Sqlite

__all__ = ["Store", "StoreError"]


class Store:
    """Opened at once, made when it is not there. A context manager. Raises StoreError, in one line."""

    def __init__(self, place: Path | Address) -> None:
        self.database: Database = Postgres(place) if isinstance(place, Address) else Sqlite(place)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()

    def writing(self) -> AbstractContextManager[None]:
        """One transaction. Raises StoreError, with nothing changed, when it cannot be written (full disk, no right)."""
        return self.database.writing()

    def rows(self, query: str, *values: object) -> list[dict[str, Any]]:
        """Rows of a query as dictionaries. Raises StoreError."""
        return self.database.rows(query, [_storable(value) for value in values])

    def add(self, one: Kept, now: float | None = None) -> bool:
        """Keep an incident; False when it was known: it is then told anew, its notes and first date stay."""
        with self.writing():
            known = self.rows("SELECT seen, times FROM incidents WHERE id=?", one.id)
            for row in known:
                self._forget(one.id)
                self._insert(one, row["seen"], row["times"] + 1)
            if not known:
                self._insert(one, time.time() if now is None else now, 1)
        return not known

    def _forget(self, identity: str) -> None:
        """Everything of an incident but its notes."""
        old = self.rows("SELECT run_s FROM incidents WHERE id=?", identity)[0]["run_s"] or 0.0
        self.rows(
            "UPDATE exposure SET runs=runs-1, seconds=seconds-? WHERE node IN (SELECT node FROM ran WHERE incident=?)",
            old, identity,
        )  # fmt: skip
        for table in ("blamed", "ran", "signs"):
            self.rows(f"DELETE FROM {table} WHERE incident=?", identity)  # noqa: S608 names of ours
        self.rows("DELETE FROM incidents WHERE id=?", identity)

    def _insert(self, one: Kept, seen: float, times: int) -> None:
        culprits = json.dumps(msgspec.to_builtins(one.culprits), ensure_ascii=False, separators=(",", ":"))
        row = (
            one.id, seen, times, one.verdict, one.cause, one.title, one.confidence, one.job, one.ended, one.run_s,
            one.lost_s, one.gpu_hours, one.ranks, culprits,
        )  # fmt: skip
        blamed = {(one.id, each.node, _gpu(each.pci, each.gpu), one.cause) for each in one.culprits if each.node}
        self._many("INSERT INTO incidents VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)", [row])
        self._many("INSERT INTO blamed VALUES (?,?,?,?)", sorted(blamed, key=str))
        self._many("INSERT INTO ran VALUES (?,?)", [(one.id, node) for node in one.nodes])
        self._many("INSERT INTO signs VALUES (?,?)", [(one.id, name) for name in one.signatures])
        self._many(
            "INSERT INTO exposure VALUES (?,1,?) ON CONFLICT (node) DO UPDATE SET runs=exposure.runs+1, "
            "seconds=exposure.seconds+excluded.seconds",
            [(node, one.run_s or 0.0) for node in one.nodes],
        )

    def _many(self, query: str, rows: Sequence[Sequence[object]]) -> None:
        if rows:
            self.database.many(query, [[_storable(value) for value in row] for row in rows])

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
            self._many("INSERT INTO notes VALUES (?,?,?,?)", [(identity, at, text, held)])
        return identity


def _gpu(pci: str | None, gpu: int | None) -> str | None:
    return pci or (f"GPU {gpu}" if gpu is not None else None)


def _storable(value: object) -> object:
    """Texts without what a database refuses: a NUL, or half of a surrogate pair (names of files may hold either)."""
    if not isinstance(value, str):
        return value
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
