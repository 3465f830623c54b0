"""The incidents as a table for other programs."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

from triage.errors import UsageError
from triage.history.store import Store

COLUMNS = (
    "id", "seen", "times", "verdict", "cause", "title", "confidence", "job", "ended", "run_s", "lost_s", "gpu_hours",
    "ranks", "nodes", "culprits", "signatures", "notes",
)  # fmt: skip


def table(store: Store) -> list[dict[str, Any]]:
    """One row an incident, oldest first; lists are joined by blanks, culprits and notes are JSON."""
    joined = store.database.joined
    rows = store.rows(
        f"SELECT i.*, (SELECT {joined}(node, ' ') FROM ran WHERE incident = i.id) AS nodes, "  # noqa: S608 ours
        f"(SELECT {joined}(signature, ' ') FROM signs WHERE incident = i.id) AS signatures "
        "FROM incidents i ORDER BY seen, id"
    )
    notes: dict[str, list[dict[str, Any]]] = {}
    for row in store.rows("SELECT incident, at, text, held FROM notes ORDER BY at"):
        notes.setdefault(row.pop("incident"), []).append(row)
    return [row | {"notes": json.dumps(notes.get(row["id"], []), ensure_ascii=False)} for row in rows]


def as_csv(store: Store) -> str:
    """RFC 4180 with a header. A cell that a spreadsheet would run as a formula begins with a quote."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _harmless(row[name]) for name in COLUMNS} for row in table(store))
    return out.getvalue()


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value


def to_parquet(store: Store, path: Path) -> None:
    """A Parquet file. Raises UsageError when the extra `scale` is not installed or the file cannot be written."""
    try:
        import duckdb
    except ImportError as error:
        raise UsageError("Parquet needs: pip install 'gpu-triage[scale]' (CSV needs nothing)") from error
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "rows.ndjson"
        rows = [json.dumps({name: row[name] for name in COLUMNS}) for row in table(store)]
        source.write_text("\n".join(rows), encoding="utf-8")
        texts = {"id", "verdict", "cause", "title", "job", "nodes", "culprits", "signatures", "notes"}
        kinds = {name: "VARCHAR" if name in texts else "DOUBLE" for name in COLUMNS}
        wanted = ", ".join(f"'{name}': '{kind}'" for name, kind in kinds.items())
        try:
            read = f"SELECT * FROM read_json('{_quoted(source)}', format='newline_delimited', columns={{{wanted}}})"  # noqa: S608
            duckdb.sql(f"COPY ({read}) TO '{_quoted(path)}' (FORMAT PARQUET)")
        except duckdb.Error as error:
            raise UsageError(f"{path}: {str(error).splitlines()[0]}") from error


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
