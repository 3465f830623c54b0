"""What people ask the store."""

from __future__ import annotations

from typing import Any

from triage.history.statistics import corrected, more_often
from triage.history.store import Store
from triage.model.report import Report

DAY = 86400.0
CHANCE = 0.01  # below this, corrected, a node is told to be a repeat offender
HARDWARE = ("gpu", "nvlink", "pcie", "host", "network", "driver", "performance")


def listed(
    store: Store, cause: str | None = None, node: str | None = None, signature: str | None = None, most: int = 50
) -> list[dict[str, Any]]:
    """Incidents, the newest first, without what they hold inside."""
    query = "SELECT id, seen, times, verdict, cause, title, confidence, job, gpu_hours, ranks FROM incidents WHERE 1=1"
    values: list[object] = []
    if cause:
        query += " AND (cause = ? OR cause LIKE ?)"
        values += [cause, f"{cause}/%"]
    if node:
        query += " AND id IN (SELECT incident FROM blamed WHERE node = ?)"
        values.append(node)
    if signature:
        query += " AND id IN (SELECT incident FROM signs WHERE signature = ?)"
        values.append(signature)
    return store.rows(query + " ORDER BY seen DESC, id LIMIT ?", *values, most)


def shown(store: Store, prefix: str) -> dict[str, Any]:
    """All that is kept of one incident, its notes, and earlier incidents that are like it. Raises UsageError."""
    identity = store.find(prefix)
    row = store.rows("SELECT * FROM incidents WHERE id=?", identity)[0]
    row["nodes"] = [each["node"] for each in store.rows("SELECT node FROM ran WHERE incident=? ORDER BY 1", identity)]
    signs = store.rows("SELECT signature FROM signs WHERE incident=? ORDER BY 1", identity)
    row["signatures"] = [each["signature"] for each in signs]
    row["notes"] = store.rows("SELECT at, text, held FROM notes WHERE incident=? ORDER BY at", identity)
    return row


def before(store: Store, report: Report, identity: str) -> list[dict[str, Any]]:
    """Earlier incidents with the same cause on a culprit's node, newest first, each with its last note."""
    if not report.hypotheses:
        return []
    best = report.hypotheses[0]
    nodes = sorted({each.node for each in best.culprits if each.node})
    rows = []
    for node in nodes[:16]:
        rows += store.rows(
            "SELECT i.id, i.seen, b.node, b.gpu, i.cause, n.text AS note, n.held FROM blamed b "
            "JOIN incidents i ON i.id = b.incident LEFT JOIN notes n ON n.incident = i.id "
            "WHERE b.node = ? AND b.cause = ? AND i.id <> ? ORDER BY i.seen DESC, n.at DESC LIMIT 20",
            node, best.cause, identity,
        )  # fmt: skip
    return list({row["id"]: row for row in reversed(rows)}.values())[::-1]


def nodes(store: Store, cause: str | None = None) -> list[dict[str, Any]]:
    """Nodes by how often they were at fault; rates per node-day, and whether chance explains them.

    Incidents whose cause lies in the code or in the scheduler say nothing about a node and are not counted, unless
    `cause` asks for them.
    """
    where, values = _causes(cause)
    counts = store.rows(
        f"SELECT node, COUNT(DISTINCT incident) AS incidents, COUNT(DISTINCT gpu) AS gpus, MAX(cause) AS cause "  # noqa: S608
        f"FROM blamed WHERE {where} GROUP BY node",
        *values,
    )
    exposure = {row["node"]: row for row in store.rows("SELECT node, runs, seconds FROM exposure")}
    timed = sum(row["seconds"] for row in exposure.values()) > 0
    unit = "seconds" if timed else "runs"  # without any durations, runs stand for them
    whole, total = sum(row[unit] for row in exposure.values()), sum(row["incidents"] for row in counts)
    for row in counts:
        own = exposure.get(row["node"], {"runs": 0, "seconds": 0.0})
        row |= {"runs": own["runs"], "node_days": round(own["seconds"] / DAY, 4) if timed else None}
        row["per_node_day"] = round(row["incidents"] / row["node_days"], 4) if row["node_days"] else None
        row["chance"] = more_often(row["incidents"], total, own[unit], whole)
    for row, value in zip(counts, corrected([row["chance"] for row in counts]), strict=True):
        row["corrected"] = value
        row["repeat_offender"] = value < CHANCE and row["incidents"] > 1
    return sorted(counts, key=lambda row: (row["corrected"], row["chance"], -row["incidents"], row["node"]))


def _causes(cause: str | None) -> tuple[str, list[object]]:
    if cause:
        return "(cause = ? OR cause LIKE ?)", [cause, f"{cause}/%"]
    return "(" + " OR ".join("cause LIKE ?" for _ in HARDWARE) + ")", [f"{area}/%" for area in HARDWARE]


def stats(store: Store) -> dict[str, Any]:
    """Goodput and mean time between failures by class, over the incidents whose times and ranks are known."""
    whole = store.rows(
        "SELECT COUNT(*) AS incidents, SUM(run_s) / 3600 AS run_hours, "
        "SUM(CASE WHEN gpu_hours IS NOT NULL THEN ranks * run_s END) / 3600 AS gpu_hours, "
        "SUM(CASE WHEN ranks * run_s IS NOT NULL THEN gpu_hours END) AS lost FROM incidents"
    )[0]
    classes = _classes(store)
    for row in classes:
        row["mtbf_hours"] = round(whole["run_hours"] / row["failures"], 3) if whole["run_hours"] else None
    total, lost = whole["gpu_hours"], whole["lost"]
    goodput = round(1 - lost / total, 4) if total and lost is not None else None
    return {
        "incidents": whole["incidents"], "run_hours": whole["run_hours"], "gpu_hours": total, "lost_gpu_hours": lost,
        "goodput": goodput, "classes": classes,
    }  # fmt: skip


def _classes(store: Store) -> list[dict[str, Any]]:
    """Failures by the area of their cause, the most frequent first."""
    rows = store.rows(
        "SELECT cause, COUNT(*) AS failures, SUM(gpu_hours) AS lost FROM incidents "
        "WHERE cause IS NOT NULL AND verdict IN ('diagnosed', 'suspected') GROUP BY cause ORDER BY cause"
    )
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        area = row["cause"].partition("/")[0]
        own = found.setdefault(area, {"class": area, "failures": 0, "lost_gpu_hours": None})
        own["failures"] += row["failures"]
        if row["lost"] is not None:
            own["lost_gpu_hours"] = (own["lost_gpu_hours"] or 0.0) + row["lost"]
    return sorted(found.values(), key=lambda row: (-row["failures"], row["class"]))
