"""Collects on this node and writes a tar.gz to standard output: python3 -I -S collectors.pyz NODE [--base64]."""

import errno
import gzip
import importlib
import io
import json
import os
import shutil
import signal
import sys
import time

import _manifest
import _redaction
import _runner

BYTES = 512 << 20  # that one node sends
SMALL = 1 << 20  # bytes of a file that is redacted in memory
RATE = 20 << 20  # bytes a second that redaction and gzip surely manage: what does not fit into the time is cut


def content(name):
    """A data file beside the collectors, in the zipapp or in a folder; b"" when there is none."""
    try:
        return (__spec__.loader if __spec__ else __loader__).get_data(os.path.join(os.path.dirname(__file__), name))
    except (IOError, OSError):
        return b""


def names(request):
    """Names of all collectors: those that the launcher packed, or files without an underscore in front."""
    found = request.get("collectors")
    if found is None:
        here = os.path.dirname(__file__)
        found = [
            name[:-3] for name in (os.listdir(here) if os.path.isdir(here) else _zipped(here)) if name[-3:] == ".py"
        ]
    return sorted(name for name in found if "/" not in name and not name.startswith("_"))


def _zipped(path):
    import zipfile  # slow to import, and only for zipapps that no launcher made

    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def load(request, faults):
    """Modules that were asked for, the quick ones first. What cannot be imported is a row in `faults`."""
    modules = []
    for name in names(request):
        if (request.get("only") and name not in request["only"]) or name in request.get("skip", ()):
            continue
        try:
            modules.append(importlib.import_module(name))
        except Exception as error:  # the runner may catch everything: one broken file must not stop the rest
            faults.append((name, "%s: %s" % (type(error).__name__, error)))
    return sorted(modules, key=lambda module: (getattr(module, "SECONDS", _runner.SECONDS), module.NAME))


class Sender(object):
    """Redacts what collectors left and sends it with its ledger row."""

    def __init__(self, stream, redactor, node, base, ends, request):
        self.stream, self.redactor, self.node, self.base = stream, redactor, node, base
        self.ends, self.limit, self.reducer = ends, request.get("bytes", BYTES), request.get("reducer")

    def send(self, module, job):
        """Files and row of one collector."""
        if job is None:
            need = _runner.missing(module)
            late = None if need else "no time was left"
            row = _manifest.row(module.NAME, self.node, not_applicable=need, skipped=late)
            self.stream.add_json("_ledger/%s.json" % module.NAME, {"row": row, "files": []})
            return
        notes = job.notes()
        files = self._files(job, notes, getattr(module, "LINES", False))
        row = self._row(module, job, notes, files)
        self.stream.add_json("_ledger/%s.json" % module.NAME, {"row": row, "files": files})

    def _row(self, module, job, notes, files):
        def steps(key):
            return sorted({note["step"] for note in notes if note.get(key)})[:50]

        finished = {note["step"] for note in notes if "exit" in note}
        hung = [note["step"] for note in notes if "started" in note and note["step"] not in finished]
        codes = [note["exit"] for note in notes if note.get("exit")]
        size = sum(one["bytes"] for one in files)
        failed = [str(note["failed"])[:300] for note in notes if note.get("failed")]
        if not job.timed_out and job.code not in (0, 1):
            failed.append("ended with %s" % job.code)
        return _manifest.row(
            module.NAME, self.node, ran=True, title=module.TITLE, bytes=size,
            seconds=round(time.time() - job.started, 2),
            exit_code=(codes or [0])[0] if not size else 0,
            truncated=steps("truncated") or any(one.get("truncated") for one in files),
            timed_out=(steps("timed_out") + hung) or job.timed_out, denied=steps("denied"), failed=failed,
            absent=steps("asked") if size else steps("absent"),
            not_there=steps("absent") if size else [],
        )  # fmt: skip

    def _files(self, job, notes, lines):
        known = {note["step"]: note["known"] for note in notes if "known" in note}
        found = []
        for folder, _, entries in sorted(os.walk(job.folder)):
            for entry in sorted(entries):
                path = os.path.join(folder, entry)
                name = os.path.relpath(path, job.folder)
                try:
                    one = self._file(module_path(job, name), path, dict(known.get(name, {})), lines)
                except (IOError, OSError) as error:
                    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                        raise
                    notes.append({"step": name, "failed": "%s: no room here for a clean copy of it" % name})
                    continue  # nothing leaves that is not redacted
                if one:
                    found.append(one)
        shutil.rmtree(job.folder, ignore_errors=True)
        return found

    def _file(self, name, path, known, lines):
        with open(path, "rb") as source, self._target(source) as target:
            packed = source.read(2) == b"\x1f\x8b"
            source.seek(0)
            known.update(self._redact(source, target, packed, "reduced" in known))
            if packed and lines:
                known.update(self._reduced(target))
            target.flush()
            size = target.tell()
            target.seek(0)
            if packed and name.endswith(".gz"):
                name = name[:-3]
            if size:
                digest = self.stream.add(name, target, size)
        os.unlink(path)
        return dict(known, path=name, bytes=size, sha256=digest) if size else None

    def _target(self, source):
        """Where the clean copy goes: into memory when it is small. A compressed file may become any size."""
        if os.fstat(source.fileno()).st_size <= SMALL and source.peek(2)[:2] != b"\x1f\x8b":
            return io.BytesIO()
        return open(os.path.join(self.base, "clean"), "wb+")

    def _reduced(self, target):
        """A log that was compressed on the node, reduced in place; what is known of it then."""
        lessened = io.BytesIO()
        found = self.reducer.reduce(target, target.tell(), lessened) if self.reducer else None
        if found:
            target.seek(0)
            target.truncate()
            target.write(lessened.getvalue())
        target.seek(0, os.SEEK_END)
        return found or {}

    def _redact(self, source, target, packed, reduced):
        """Redact into `target`; what the time or the node's share does not allow is cut at the front."""
        left = min(max(1 << 18, int((self.ends - time.time()) * RATE)), self.limit - self.stream.sent)
        if packed:
            return self._inflated(source, target, left)
        if reduced:
            import _reduction

            return _reduction.redact(source, target, self.redactor, left)
        size = os.fstat(source.fileno()).st_size
        if size > left:
            source.seek(size - max(left, 0))
            source.readline()
        self.redactor.copy(source, target)
        return {"truncated": True} if size > left else {}

    def _inflated(self, source, target, left):
        """A compressed file is sent inflated: secrets may be in it."""
        room = _Bounded(gzip.GzipFile(fileobj=source), left)
        try:
            self.redactor.copy(room, target)
        except (EOFError, OSError, ValueError):
            return {"truncated": True}
        return {"truncated": True} if room.cut else {}


class _Bounded(object):
    """Reads at most so many bytes."""

    def __init__(self, source, left):
        self.source, self.left, self.cut = source, left, False

    def read(self, size=-1):
        if size < 0 or size > self.left:
            size = self.left
        data = self.source.read(size) if size > 0 else b""
        self.left -= len(data)
        self.cut = self.cut or self.left <= 0
        return data


def module_path(job, name):
    """A file's name below the node's folder."""
    return "%s/%s" % (job.name, name)


def stopped(number, frame):
    """A signal ends us through the ordinary way out, which removes the folder."""
    raise SystemExit(128 + number)


def main(arguments):
    """Exit code 0 when the stream is whole, whatever collectors met; 69 under a Python that is too old."""
    if sys.version_info < (3, 6):
        return 69
    started = time.time()
    for word in arguments:
        if word.startswith("--began="):  # tells the shell that this Python will do
            open(word[8:], "w").close()
    request = json.loads(content("request.json").decode("utf-8") or "{}")
    request["seconds"] = next((float(word[10:]) for word in arguments if word.startswith("--seconds=")), 60)
    node = next((word for word in arguments if not word.startswith("--")), None) or os.uname()[1]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stopped)
    _runner.lower_priority()
    sink = sys.stdout.buffer
    key = bytes(bytearray.fromhex(request.get("key") or "00" * 32))
    spec = json.loads(content("redaction.json").decode("utf-8"))
    if request.get("reduce"):
        import _reduction  # a third of the program, for those who asked for it

        rules = _reduction.Rules(json.loads(content("reduction.json").decode("utf-8")), spec)
        request["reducer"] = _reduction.Reducer(rules, request["reduce"])
    redactor = _redaction.Redactor(spec, key, request.get("words"), request.get("hosts"))
    if "--logs" in arguments:
        import _shared

        _shared.serve(request["reducer"], redactor, sys.stdin.buffer, sink)
        return 0
    stream = _manifest.Stream(_manifest.Base64Lines(sink) if "--base64" in arguments else sink)
    base = _manifest.workspace()
    try:
        collect(request, node, stream, redactor, base, started)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody listens: end without a second complaint at exit
        return 141
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return 0


def collect(request, node, stream, redactor, base, started):
    """Everything on this node into the stream."""
    ends, faults = started + request["seconds"], []
    modules = load(request, faults)
    planned = [module.NAME for module in modules] + [name for name, _ in faults]
    clock = {"start": started, "zone": time.strftime("%z"), "python": sys.version.split()[0]}
    stream.add_json("_ledger/_begin.json", dict(clock, node=node, hostname=os.uname()[1], planned=planned))
    for name, fault in faults:
        stream.add_json("_ledger/%s.json" % name, {"row": _manifest.row(name, node, failed=[fault]), "files": []})
    sender = Sender(stream, redactor, node, base, ends, request)
    for module, job in _runner.run_all(modules, base, request, node, ends - 1):
        sender.send(module, job)
    stream.add_json("_ledger/_end.json", {"seconds": round(time.time() - started, 2), "redacted": redactor.counts})
    stream.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
