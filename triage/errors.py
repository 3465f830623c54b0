"""What can go wrong, drawn once:

TriageError (exit 1)
├── UsageError (2)    the command line asks for something that does not fit
├── ContentError (2)  signatures, playbooks or data files are at fault; carries every fault found, with file and line
└── BundleError (3)   evidence that cannot be opened at all

Trouble with one piece of evidence is never an exception: it is a `Gap` in the report.
"""

from __future__ import annotations

from collections.abc import Sequence


class TriageError(Exception):
    """Root of the errors that triage reports in one line."""

    exit_code = 1


class UsageError(TriageError):
    """The request itself is at fault."""

    exit_code = 2


class ContentError(TriageError):
    """Content files are at fault. `faults` has one line each, `file:line: what`."""

    exit_code = 2

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        super().__init__("\n".join(self.faults))


class BundleError(TriageError):
    """Evidence that cannot be opened."""

    exit_code = 3
