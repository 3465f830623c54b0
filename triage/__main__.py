"""`python -m triage` is the command `triage`."""

from __future__ import annotations

from triage.cli import main

main()
