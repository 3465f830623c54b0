"""Times as people read them. Layer 1: anybody may import it."""

from __future__ import annotations

from datetime import datetime, timezone


def rfc3339(seconds: float) -> str:
    """Unix seconds as RFC 3339 in UTC, whole seconds."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
