"""kubectl as a real server answered it: kubectl_recorded.py RECORDING [ARGUMENT ...]. What pods run, runs here.

A question that was not asked of the server then is an error: nothing is made up.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def main(recording: str, arguments: list[str]) -> int:
    """Say what the server said."""
    if "exec" in arguments:
        return subprocess.run(arguments[arguments.index("--") + 1 :], check=False).returncode
    for one in json.loads(Path(recording).read_text())["exchanges"]:
        if one["asked"] == arguments:
            out = one["out"]
            sys.stdout.write(out if isinstance(out, str) else json.dumps(out, indent=4) + "\n")
            sys.stderr.write(one["err"])
            return int(one["code"])
    sys.exit(f"error: never asked of the server: {' '.join(arguments)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
