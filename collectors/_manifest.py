"""What leaves this node: a tar.gz stream whose ledger rows come right behind the files that they speak of.

Each collector's part is flushed, so that a stream which is cut holds everything up to the last whole part. Members:
`_ledger/_begin.json`, then `<collector>/<file>` ... `_ledger/<collector>.json` in turn, and `_ledger/_end.json`.
"""

import base64
import gzip
import hashlib
import json
import os
import re
import tarfile
import time

BLOCK = 1 << 20
LEVEL = 1  # of gzip: the node has other things to do
_UNSAFE = re.compile(r"[^A-Za-z0-9._@%+=,~/-]")


def safe_name(name):
    """A member's name: no colon, no control characters, nothing that leads out."""
    parts = [part for part in _UNSAFE.sub("-", name).split("/") if part not in ("", ".", "..")]
    return "/".join(part[:150] for part in parts)[-900:] or "unnamed"


def row(collector, node, **more):
    """A ledger row: one collector on one node. What is empty is left out."""
    found = {"collector": collector, "node": node, "planned": True, "ran": False}
    found.update((key, value) for key, value in more.items() if value not in (None, False, [], ""))
    return found


class Base64Lines(object):
    """A sink for transports that carry lines only."""

    def __init__(self, sink):
        self.sink, self.rest = sink, b""

    def write(self, data):
        """Whole lines of 76 characters; the rest waits."""
        data = self.rest + data
        whole = len(data) - len(data) % 57
        self.rest = data[whole:]
        self._lines(data[:whole])
        return len(data)

    def flush(self):
        """The rest as a line of its own: base64 may be padded within a stream of lines."""
        self._lines(self.rest)
        self.rest = b""
        self.sink.flush()

    def _lines(self, data):
        self.sink.write(b"".join(base64.b64encode(data[at : at + 57]) + b"\n" for at in range(0, len(data), 57)))


class Stream(object):
    """Writes members to a sink; `sent` counts their bytes."""

    def __init__(self, sink):
        self.sink, self.sent = sink, 0
        self.zip = gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=sink, mtime=0)

    def add(self, name, source, size):
        """A member from an open file of exactly this size; the SHA-256 of what was written."""
        digest, left = hashlib.sha256(), size
        self._head(name, size)
        while left:
            data = source.read(min(BLOCK, left)) or b"\0" * min(BLOCK, left)
            digest.update(data)
            self.zip.write(data)
            left -= len(data)
        self.zip.write(b"\0" * (-size % 512))
        self.sent += size
        return digest.hexdigest()

    def add_json(self, name, value):
        """A member of ours; everything before it leaves this process now."""
        data = json.dumps(value, sort_keys=True).encode("utf-8")
        self._head(name, len(data))
        self.zip.write(data + b"\0" * (-len(data) % 512))
        self.zip.flush()
        self.sink.flush()

    def close(self):
        """The end of the archive."""
        self.zip.write(b"\0" * 1024)
        self.zip.close()
        self.sink.flush()

    def _head(self, name, size):
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = size, int(time.time()), 0o600
        self.zip.write(info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape"))


def workspace():
    """A private folder on the first file system with room: a full /tmp is a fault that we are here to find."""
    import tempfile

    for base in (os.environ.get("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm", "/run", os.getcwd()):
        try:
            found = os.statvfs(base)
            if found.f_bavail * found.f_frsize > 64 << 20 and found.f_favail:
                return tempfile.mkdtemp(prefix="triage-", dir=base)
        except (OSError, TypeError):
            continue
    return tempfile.mkdtemp(prefix="triage-")
