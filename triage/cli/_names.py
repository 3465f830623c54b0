"""Real names for the tokens of a redacted bundle whose key lies beside it: on this screen only, never in a file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path


def shown(text: str, paths: Iterable[str]) -> str:
    """The text with the names of hosts and users that the key files beside these paths tell."""
    from triage.bundle.redaction import Names

    names: dict[str, str] = {}
    for path in paths:
        names |= _beside(Path(f"{path.rstrip('/').removesuffix('.partial')}.key.json"))
    return Names(names).shown(text) if names else text


def _beside(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["names"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {str(token): str(name) for token, name in found.items()} if isinstance(found, dict) else {}
