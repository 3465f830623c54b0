"""The manifest of a bundle: what each file is, and what collecting did not get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from triage.bundle.naming import safe
from triage.model import json_text
from triage.model.bundle import File, Gap
from triage.vocabulary import GapReason, sources

MANY = 8  # nodes with the same gap, from which on it is told once
NODE = "node"  # the ledger's row for a node as such
LONGEST = 256 << 20  # bytes; ten thousand nodes with forty files each make 200 MB

_REASONS: tuple[tuple[tuple[str, ...], GapReason], ...] = (
    (("denied",), "denied"),
    (("timed_out", "timed out", "timeout"), "timed out"),
    (("truncated",), "truncated"),
    (("absent", "missing"), "absent"),
    (("not_collected", "not collected", "skipped", "failed"), "not collected"),
)


def parse(data: bytes) -> dict[str, Any] | None:
    """The manifest, or None when this JSON is something else (sosreports have a manifest.json, too)."""
    try:
        found = json_text.loads(data)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict) and str(found.get("schema", "")).startswith("triage.bundle/"):
        return found
    return None


def rows(manifest: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """A table of the manifest; a manifest is evidence, so anything may be in it."""
    table = manifest.get(key)
    return [row for row in table if isinstance(row, dict)] if isinstance(table, list) else []


def described(file: File, row: dict[str, Any]) -> dict[str, Any]:
    """Fields of a file that its row knows better than its path and its content."""
    known: dict[str, Any] = {}
    if isinstance(row.get("node"), str) and row["node"]:
        known["node"] = safe(row["node"])
    for key in ("rank", "local_rank", "pid"):
        if isinstance(row.get(key), int) and not isinstance(row[key], bool):
            known[key] = row[key]
    if row.get("truncated") is True:
        known["truncated"] = True
    source = row.get("source")
    if isinstance(source, str) and source in sources():
        known["sources"] = (source, *(name for name in file.sources if name != source))
    return known


def gaps(manifest: dict[str, Any]) -> Iterator[Gap]:
    """What the ledger says was not collected as planned; the same on many nodes is one gap."""
    found: dict[tuple[str, GapReason], list[str | None]] = {}
    for row in rows(manifest, "ledger"):
        reason = _reason(row)
        if reason is not None:
            node = safe(row["node"]) if isinstance(row.get("node"), str) else None
            found.setdefault((safe(str(row.get("collector") or "something")), reason), []).append(node)
    for (collector, reason), nodes in found.items():
        if len(nodes) > MANY and collector != NODE:
            yield _gap(f"{collector} on {len(nodes)} nodes", collector, reason, nodes[0])
        else:
            yield from (
                _gap("the whole node" if collector == NODE else collector, collector, reason, one) for one in nodes
            )


def _gap(what: str, collector: str, reason: GapReason, node: str | None) -> Gap:
    """With the command that would fill it; what was denied needs another user."""
    place = f" --nodelist {node}" if node else ""
    chosen = "" if collector == NODE else f" --only {collector}"
    how = f"{'sudo ' if reason == 'denied' else ''}triage collect{chosen}{place}"
    return Gap(what=what, why=reason, node=node, how=how)


def _reason(row: dict[str, Any]) -> GapReason | None:
    if row.get("unreachable") or row.get(
        "not_applicable"
    ):  # the node's own row says it; or there is nothing of it here
        return None
    said = {str(row.get(key)).lower() for key in ("status", "outcome") if row.get(key)}
    for names, reason in _REASONS:
        if any(row.get(name) not in (None, False, 0, "", []) or name in said for name in names):
            return reason
    planned, ran = row.get("planned", True), row.get("ran", True)
    if planned and not ran:
        return "not collected"
    code = row.get("exit_code", row.get("exit", 0))
    return "not collected" if code not in (0, None) and not row.get("bytes") else None
