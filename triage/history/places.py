"""Where the store lies: TRIAGE_HISTORY (`off`, or a file), else the user's data folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

OFF = frozenset({"off", "0", "no", "none", "false"})
NAME = "history.sqlite"


def place(environment: Mapping[str, str] | None = None) -> Path | None:
    """The store's file, or None when the user wants none (or has no home)."""
    known = os.environ if environment is None else environment
    told = known.get("TRIAGE_HISTORY", "")
    if told.lower() in OFF:
        return None
    if told:
        return Path(told).expanduser()
    folder = _folder(known)
    return folder / "triage" / NAME if folder else None


def _folder(known: Mapping[str, str]) -> Path | None:
    if told := known.get("XDG_DATA_HOME"):
        return Path(told)
    if sys.platform == "win32":
        return Path(told) if (told := known.get("LOCALAPPDATA")) else None
    home = known.get("HOME")
    if not home:
        return None
    return Path(home) / ("Library/Application Support" if sys.platform == "darwin" else ".local/share")
