"""kubectl, with what it says written down: kubectl_recording.py RECORD KUBECTL [ARGUMENT ...].

A line of JSON for each question: arguments, exit code, standard output, standard error. What is run inside pods is
passed through and not written down.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def main(record: str, command: list[str]) -> int:
    """Ask, write down, and say the same."""
    if "exec" in command:
        os.execvp(command[0], command)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    line = {"asked": command[1:], "code": done.returncode, "out": done.stdout, "err": done.stderr}
    with Path(record).open("a") as file:
        file.write(json.dumps(line) + "\n")
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


def exchanges(records: Iterable[Path], hidden: dict[str, str]) -> list[dict[str, Any]]:
    """What was written down, each question once; JSON as such; texts that are hidden replaced."""
    found: dict[str, dict[str, Any]] = {}
    for text in [path.read_text() for path in records]:
        for word, instead in hidden.items():
            text = text.replace(word, instead)
        for one in map(json.loads, text.splitlines()):
            one["out"] = json.loads(one["out"]) if one["out"].startswith("{") else one["out"]
            found.setdefault(" ".join(one["asked"]), one)
    return [one for _, one in sorted(found.items())]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
