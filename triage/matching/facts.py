"""Conditions on facts."""

from __future__ import annotations

from triage.model.compare import holds

__all__ = ["holds"]
