"""Reducing the logs that the launcher reads itself: by the nodes' own code, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from triage.transport import packing
from triage.transport.fanout import end
from triage.transport.receiving import told

SHARE = 4  # of the time that is left one log may take a quarter


class Reducing:
    """The nodes' reducer on this machine; a context manager. Whatever goes wrong with it, logs are copied as they are.

    request: what the nodes are sent. seconds: time for all logs together.
    """

    def __init__(self, request: Mapping[str, Any], seconds: float) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="triage-", suffix=".pyz")  # noqa: SIM115 (close())
        self._file.write(packing.pack(request))
        self._file.flush()
        self._seconds = seconds
        self._child = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", self._file.name, "--logs"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self._timer = threading.Timer(seconds, end, (self._child,))
        self._timer.daemon = True
        self._timer.start()

    def __enter__(self) -> Reducing:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        end(self._child)
        self._child.communicate()
        self._file.close()

    def lines(self, path: Path) -> tuple[bytes, dict[str, Any]] | None:
        """The reduced and redacted log with what is known of it, or None: to be copied as it is."""
        source, sink = cast("Any", self._child.stdin), cast("Any", self._child.stdout)
        try:
            source.write(json.dumps({"path": str(path), "seconds": self._seconds / SHARE}).encode() + b"\n")
            source.flush()
            answer = json.loads(sink.readline())
            data = sink.read(answer["size"])
        except (OSError, ValueError):
            return None
        return (data, told(answer["known"])) if answer["known"] and len(data) == answer["size"] else None
