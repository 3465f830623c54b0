"""JSON Schemas of everything that triage writes or reads as data, from the records themselves."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# name: what it is the schema of, and where its records are (several: any one of them, a JSON line each)
KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "report": ("explain --format json, report --format json", "triage.model.report", ("Report",)),
    "check": ("check --format json", "triage.model.check", ("Outcome",)),
    "compare": ("compare --format json", "triage.model.comparison", ("Comparison",)),
    "scaling": ("compare --scaling --format json", "triage.model.comparison", ("Scaling",)),
    "lookup": ("lookup --format json", "triage.model.lookup", ("Answer",)),
    "bundle": ("manifest.json of a bundle, with its ledger", "triage.model.manifest", ("Manifest",)),
    "steps": ("a line of steps.rank<R>.jsonl", "triage.model.recording", ("StepsHead", "StepRow")),
    "signature": ("a file below signatures/", "triage.model.signature", ("Signature",)),
    "playbook": ("a file of playbooks/", "triage.model.playbook", ("Playbook",)),
}
YAML = ("signature", "playbook")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(name: str) -> dict[str, Any]:
    """The schema of a kind: for JSON as it is written, for YAML as an editor reads it. Raises KeyError."""
    import msgspec

    told, module, records = KINDS[name]
    types = [getattr(import_module(module), record) for record in records]
    parts, components = msgspec.json.schema_components(types)
    body = parts[0] if len(parts) == 1 else {"anyOf": list(parts)}
    if "schema" in components[records[0]]["properties"]:  # a report is no comparison
        components[records[0]]["properties"]["schema"] = {"const": f"triage.{name}/1"}
    whole = {"$schema": _DIALECT, "title": f"triage {name}: {told}", **body, "$defs": components}
    return _for_editors(whole) if name in YAML else whole


def _for_editors(whole: dict[str, Any]) -> dict[str, Any]:
    """The closed lists that the records cannot hold, and scalars as YAML reads them before we take their text."""
    from triage.reasoning.loading import causes
    from triage.vocabulary import LAYERS, sources

    fields = whole["$defs"].get("Signature", {}).get("properties", {})
    if fields:
        fields["layer"] = {"enum": list(LAYERS)}
        fields["sources"]["items"] = {"enum": list(sources())}
        fields["cause"] = {"anyOf": [{"enum": sorted(causes())}, {"type": "null"}], "default": None}
    return _plain(whole)  # type: ignore[no-any-return]


def _plain(part: Any) -> Any:
    """`value: 0` and `version: 550.10` are numbers to an editor; triage takes them as they are spelled."""
    if isinstance(part, list):
        return [_plain(each) for each in part]
    if not isinstance(part, dict):
        return part
    part = {key: _plain(value) for key, value in part.items()}
    if part.get("type") == "string" and "enum" not in part:
        part["type"] = ["string", "number", "boolean"]
    return part
