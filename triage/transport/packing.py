"""What is sent to a node: a zipapp with the collectors and the request, and the shell line that runs and removes it."""

from __future__ import annotations

import importlib.util
import io
import json
import marshal
import os
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triage import content
from triage.errors import UsageError
from triage.matching.loading import catalogue
from triage.matching.matcher import markers
from triage.matching.reducing import spec
from triage.parsers import parser, parsers

_STAMP = (2020, 1, 1, 0, 0, 0)  # of every member: the same collectors make the same bytes

# One line for sh on any node. The zipapp lands in memory if it can: a full disk may be what we came to find. A Python
# that is too old or broken leaves no sign that the program began, and the next one is tried.
_BOOT = (
    'umask 077; d=; for b in /dev/shm "${TMPDIR:-/tmp}" /tmp /var/tmp; do '
    'd=$(mktemp -d "$b/triage-XXXXXX" 2>/dev/null) || { d=; continue; }; '
    'if head -c 400000 /dev/zero >"$d/room" 2>/dev/null; then rm -f "$d/room"; break; fi; rm -rf "$d"; d=; done; '
    '[ -n "$d" ] || { echo "triage: no folder to write to" >&2; exit 74; }; '
    "trap 'rm -rf \"$d\"' EXIT; trap 'exit 129' HUP INT TERM; "
    'cat >"$d/c.pyz" || exit 74; '
    "for p in python3 /usr/libexec/platform-python python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 "
    "python3.6 /opt/conda/bin/python3 /usr/local/bin/python3; do "
    'command -v "$p" >/dev/null 2>&1 || continue; '
    '"$p" -I -S "$d/c.pyz" {arguments} "--began=$d/began" </dev/null; code=$?; [ -e "$d/began" ] && exit $code; done; '
    'echo "triage: no Python 3.6 or newer on this node" >&2; exit 69'
)


def folders() -> list[Path]:
    """Where collectors lie: ours, and those of $TRIAGE_CONTENT/collectors."""
    found = [content.root() / "collectors"]
    if extra := os.environ.get("TRIAGE_CONTENT"):
        found.append(Path(extra) / "collectors")
    return [folder for folder in found if folder.is_dir()]


def collectors() -> list[str]:
    """Names of all collectors."""
    found = {path.stem for folder in folders() for path in folder.glob("*.py") if not path.stem.startswith("_")}
    return sorted(found)


def chosen(only: Sequence[str], skip: Sequence[str]) -> list[str]:
    """Names that will run on a node. Raises UsageError for a name that no collector has."""
    known = collectors()
    for name in [*only, *skip]:
        if name not in known and name not in JOB_COLLECTORS:
            raise UsageError(f"no collector {name!r}{content.nearest(name, known)}; there are: {', '.join(known)}")
    return [name for name in known if (not only or name in only) and name not in skip]


JOB_COLLECTORS = ("sacct", "scontrol", "stdout", "pods", "events", "include", "node")


def pack(request: Mapping[str, Any], compiled: bool = False) -> bytes:
    """The zipapp. It holds the key of the bundle, so it travels on standard input and never on a command line.

    compiled: with the modules compiled for this Python beside their texts; a node with another one leaves them alone.
    """
    found = {path.name: path.read_bytes() for folder in folders() for path in folder.iterdir() if _ships(path)}
    found["request.json"] = json.dumps({**request, "collectors": collectors()}, sort_keys=True).encode()
    if request.get("reduce"):
        found["reduction.json"] = json.dumps(reduction(), separators=(",", ":")).encode()
    if compiled:
        found |= {f"{name}c": code for name, text in found.items() if (code := _compiled(name, text))}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(found):
            archive.writestr(zipfile.ZipInfo(name, _STAMP), found[name], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _compiled(name: str, text: bytes) -> bytes | None:
    """A module as a .pyc whose text is not looked at (PEP 552). None for what is no Python; the node says why."""
    if not name.endswith(".py"):
        return None
    try:
        code = compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    unchecked = (1).to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(text) + marshal.dumps(code)


def reduction() -> dict[str, Any]:
    """Which lines of a log matter, for nodes. Raises ContentError when the catalogue is at fault."""
    return spec([each for each in catalogue().values() if each.match], markers(parser, parsers()))


def _ships(path: Path) -> bool:
    return path.suffix in {".py", ".json"} and path.is_file()


def boot(node: str, seconds: float, encoded: bool = False) -> str:
    """The shell line for a node, whose collectors end after `seconds`. It reads the zipapp from standard input.

    encoded: answer in lines of base64, for transports that carry lines only.
    """
    arguments = f"{shlex.quote(node)} --seconds={seconds:.1f}{' --base64' if encoded else ''}"
    return _BOOT.replace("{arguments}", arguments)
