"""Reduces logs that the launcher can read itself, such as the output of a job on shared storage.

A line of JSON asks for one: `path`, `seconds`. The answer is a line of JSON, `size` and `known` (null for what is to be
copied as it is), and that many bytes, redacted.
"""

import io
import json
import os
import stat

import _reduction


def serve(reducer, redactor, source, sink):
    """Answers until nothing more is asked."""
    for line in iter(source.readline, b""):
        asked = json.loads(line.decode("utf-8"))
        data, known = _answer(reducer, redactor, asked["path"], asked["seconds"])
        sink.write(json.dumps({"size": len(data), "known": known}).encode("utf-8") + b"\n" + data)
        sink.flush()


def _answer(reducer, redactor, path, seconds):
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as log:
            status = os.fstat(log.fileno())
            found = reducer.lines(log, status.st_size, {}, seconds) if stat.S_ISREG(status.st_mode) else None
    except OSError:  # who copies it says why that fails
        found = None
    if found is None:
        return b"", None
    clean = io.BytesIO()
    _reduction.redact(io.BytesIO(found[0]), clean, redactor, len(found[0]) + 1)
    return clean.getvalue(), found[1]
