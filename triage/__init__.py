"""triage explains why a GPU training job hung, crashed, slowed down or ran out of memory.

The stable Python interface is :func:`explain` and :func:`open_bundle`; everything else may change between minors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from triage.bundle.opening import Evidence
    from triage.model.report import Report

__all__ = ["__version__", "explain", "open_bundle"]
__version__ = "0.1.0"


def explain(*paths: str | Path) -> Report:
    """Explain the incident whose evidence lies in `paths` (folders, files, archives).

    Raises:
        triage.errors.BundleError: a path is missing or an archive is unreadable.
    """
    from triage.pipeline import explain as run

    return run([str(path) for path in paths])


def open_bundle(*paths: str | Path) -> Evidence:
    """Open evidence without explaining it: its files, their recognised sources, and the gaps met on the way."""
    from triage.bundle.opening import open_evidence
    from triage.parsers import recognise

    return open_evidence([str(path) for path in paths], recognise=recognise)
