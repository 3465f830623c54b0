"""The JSON contract itself."""

from __future__ import annotations

import msgspec

from triage.model.report import Report

NAME = "json"
SUFFIXES = (".json",)


def render(report: Report) -> str:
    """The report as indented JSON with a final line end."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n"
