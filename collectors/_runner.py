"""Runs collectors where they can hang, flood or die without harm: each in a process of its own, under deadlines.

A collector sees one `Run`. It starts programs (argument lists, no shell), copies files and writes texts; all that
happens is noted in a journal that its parent reads, also when the collector had to be killed.
"""

import errno
import glob
import io
import json
import os
import signal
import stat
import subprocess
import sys
import time

import _pipes
from _manifest import safe_name

SECONDS = 20  # a collector's own deadline when its module names none
COMMAND = 10  # seconds for one program
CAP = 8 << 20  # bytes kept of one program or file
MOST = 256  # files of one tree
PARALLEL = 4
_DENIED = (
    b"Operation not permitted",
    b"Permission denied",
    b"permission denied",
    b"must be root",
    b"Insufficient Perm",
)
_PATH = (
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin:/usr/local/nvidia/bin:/usr/local/cuda/bin"
)
_DROPPED = ("LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "BASH_ENV", "ENV")


class Run(object):
    """What a collector may do. `node`, `request` and `job` say for whom."""

    def __init__(self, name, folder, journal, request, node, ends):
        self.name, self.node, self.request, self.ends = name, node, request, ends
        self.job = request.get("job") or {}
        self.since, self.until = request.get("since"), request.get("until")
        self.reducer = None  # of collectors of logs, when only the lines that matter are wanted
        self.base = os.path.dirname(folder)  # what collectors share
        self._folder, self._journal = folder, os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._taken = set()

    def left(self):
        """Seconds until this collector is ended."""
        return self.ends - time.time()

    def note(self, step, **what):
        """A line of the journal: absent, denied, failed, skipped ..."""
        os.write(self._journal, (json.dumps(dict(what, step=step)) + "\n").encode("utf-8"))

    def text(self, name, data, **known):
        """A file whose content the collector made itself."""
        data = data.encode("utf-8", "replace") if isinstance(data, str) else data
        data, known = self._reduced(io.BytesIO(data), len(data), known) or (data, known)
        if data:
            with open(self._target(name, known), "wb") as target:
                target.write(data)

    def command(self, argv, name=None, seconds=COMMAND, cap=CAP, **known):
        """What a program prints, standard error with it, as a file; returned as well. b"" when it is not there."""
        name = name or "-".join([os.path.basename(argv[0]), *argv[1:]]) + ".txt"
        shown = " ".join(argv)
        program = which(argv[0])
        if program is None:
            self.note(shown, absent=argv[0])
            return b""
        data, code, timed_out, cut = self._ran([program, *argv[1:]], shown, min(seconds, self.left()), cap)
        denied = code != 0 and any(words in data[-4096:] for words in _DENIED)
        self.note(shown, exit=code, timed_out=timed_out, truncated=cut, denied=denied)
        self.text(name, data, truncated=cut, **known)
        return data

    def file(self, path, name=None, cap=CAP, head=0, follow=True, **known):
        """A copy of a regular file: its tail when it is longer than the cap, with `head` bytes of its beginning."""
        try:
            source = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
        except OSError as error:
            self._missing(path, error)
            return False
        try:
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode):
                self.note(path, skipped="not a regular file")
                return False
            return self._copied(source, status.st_size, path, name or os.path.basename(path), cap, head, known)
        except OSError as error:
            self._missing(path, error)
            return False
        finally:
            os.close(source)

    def tree(self, pattern, cap=CAP, most=MOST, head=0, follow=False, known=None, recent=True):
        """Every regular file that a pattern names (`**` for any depth), the newest first when there are too many.

        Links are not followed unless asked: in a folder that anybody may write, they could lead anywhere.
        known: from a path to what is known of the file, such as its rank. recent: leave out what ended before --since.
        """
        fixed = pattern[: min([pattern.find(mark) for mark in "*?[" if mark in pattern] or [len(pattern)])]
        base, found = os.path.dirname(fixed), []
        for path in glob.iglob(pattern, recursive=True):
            try:
                status = os.stat(path) if follow else os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and not (recent and self.since and status.st_mtime < self.since):
                found.append((-status.st_mtime, path))
            if len(found) > 100000 or self.left() < 1:
                break
        found.sort()
        if len(found) > most:
            self.note(pattern, truncated=True, files=len(found))
        for _, path in found[:most]:
            self.file(
                path, os.path.relpath(path, base) if base else path, cap, head, follow, **(known or _nothing)(path)
            )
        return [path for _, path in found[:most]]

    def sleep(self, seconds):
        """Wait between two looks."""
        time.sleep(max(0, min(seconds, self.left() - 1)))

    # ---- inside ----

    def _target(self, name, known):
        name = stem = safe_name(name)
        count = 1
        while name in self._taken:
            count += 1
            name = "%s-%d" % (stem, count)
        self._taken.add(name)
        known = {key: value for key, value in known.items() if value not in (None, False)}
        if known:
            self.note(name, known=known)
        path = os.path.join(self._folder, name)
        if not os.path.isdir(os.path.dirname(path)):
            os.makedirs(os.path.dirname(path))
        return path

    def _missing(self, path, error):
        if error.errno in (errno.EACCES, errno.EPERM):
            self.note(path, denied=True)
        elif error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            self.note(path, absent=path)
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            self.note(path, failed="no space left for copies on this node")
        else:
            self.note(path, failed=os.strerror(error.errno) if error.errno else str(error))

    def _reduced(self, source, size, known):
        """A log's lines that matter and what is known of them; None when it is to be sent as it is."""
        if self.reducer is None or "reduced" in known:
            return None
        return self.reducer.lines(source, size, known, self.left() / 2)

    def _lines(self, source, size, path, name, known):
        """Reads a log where it lies, so that its lines keep their numbers however long it is; False for no log."""
        with os.fdopen(os.dup(source), "rb") as log:
            found = self._reduced(log, size, known)
        os.lseek(source, 0, os.SEEK_SET)
        if found is None:
            return False
        self.text(name, found[0], **found[1])
        self.note(path, truncated=found[1]["truncated"])
        return True

    def _copied(self, source, size, path, name, cap, head, known):
        if self._lines(source, size, path, name, known):
            return True
        cut = size > cap
        if cut:
            known = dict(known, truncated=True)
        with open(self._target(name, known), "wb") as target:
            if cut:
                target.write(_read(source, min(head, cap // 2)))
                if head:
                    target.write(b"\n")
                os.lseek(source, size - cap + min(head, cap // 2), os.SEEK_SET)
                left = cap - min(head, cap // 2)
                data = _read(source, min(1 << 16, left))
                left -= len(data)
                target.write(data[data.find(b"\n") + 1 :])
            else:
                left = max(size, 0) or cap  # files of /proc say that they are empty
            while left > 0:
                data = _read(source, min(1 << 20, left))
                if not data:
                    break
                target.write(data)
                left -= len(data)
        self.note(path, truncated=cut)
        return True

    def _ran(self, argv, shown, seconds, cap):
        """Output (its tail), exit code, whether it ran too long, whether the cap cut it."""
        environment = {key: value for key, value in os.environ.items() if key not in _DROPPED}
        environment.update(LC_ALL="C", LANG="C", PATH=_PATH + ":" + os.environ.get("PATH", ""), TERM="dumb")
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                cwd=self._folder, start_new_session=True, close_fds=True,
            )  # fmt: skip
        except OSError as error:
            return str(error).encode("utf-8"), 126, False, False
        self.note(shown, started=child.pid)
        kept, total, timed_out = _pipes.tail(child.stdout, time.time() + seconds, cap)
        code = _ended(child, 0.2 if timed_out else 2)
        kill(child.pid)
        if code is None:
            code = _ended(child, 1)
        return kept, code, timed_out, total > cap


def _nothing(path):
    return {}


def _read(source, size):
    data = os.read(source, size) if size > 0 else b""
    while data and len(data) < size:
        more = os.read(source, size - len(data))
        if not more:
            break
        data += more
    return data


def _ended(child, seconds):
    """Exit code, or None when it does not end: a process in an uninterruptible wait cannot be killed."""
    try:
        return child.wait(max(seconds, 0.01))
    except subprocess.TimeoutExpired:
        return None


def kill(group):
    """End a process group; one that is gone already is fine."""
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass


def which(program):
    """Path of a program, looked for where administrators' tools lie, too."""
    if os.path.sep in program:
        return program if os.access(program, os.X_OK) else None
    for folder in (_PATH + ":" + os.environ.get("PATH", "")).split(":"):
        path = os.path.join(folder, program)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


class Job(object):
    """A collector in its own process."""

    def __init__(self, module, base, request, node, ends):
        self.module, self.name = module, module.NAME
        self.folder, self.journal = os.path.join(base, self.name), os.path.join(base, self.name + ".journal")
        os.mkdir(self.folder, 0o700)
        self.started = time.time()
        self.ends = min(ends, self.started + getattr(module, "SECONDS", SECONDS))
        self.timed_out, self.code, self.error = False, None, None
        self.pid = os.fork()
        if self.pid == 0:
            self._collect(request, node)

    def _collect(self, request, node):
        """The child: it never returns."""
        code = 1
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            run = Run(self.name, self.folder, self.journal, request, node, self.ends - 0.3)
            run.reducer = request.get("reducer") if getattr(self.module, "LINES", False) else None
            try:
                self.module.collect(run)
                code = 0
            except Exception as error:  # the runner may catch everything: a collector's fault is a ledger row
                run.note("collector", failed="%s: %s" % (type(error).__name__, error))
        finally:
            os._exit(code)

    def poll(self):
        """Whether it has ended, by itself or by us."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except OSError:
            pid, status = self.pid, 0
        if pid:
            self.code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        elif time.time() > self.ends:
            self.timed_out = True
            self.stop()
        return pid != 0 or self.timed_out

    def stop(self):
        """End it with everything that it started. What hangs in the kernel stays there; we do not wait for it."""
        kill(self.pid)
        try:
            os.kill(self.pid, signal.SIGKILL)
        except OSError:
            pass
        running = {}
        for line in self.notes():
            if "started" in line:
                running[line["step"]] = line["started"]
            elif "exit" in line:
                running.pop(line["step"], None)
        for group in running.values():
            kill(group)

    def notes(self):
        """The journal so far; a line that was cut is left out."""
        found = []
        try:
            with open(self.journal, "rb") as source:
                for line in source:
                    try:
                        found.append(json.loads(line.decode("utf-8")))
                    except ValueError:
                        continue
        except (IOError, OSError):
            pass
        return found


def lower_priority():
    """Behind everything else on this node: processor, disk, and first to go when memory ends."""
    try:
        os.nice(19)
    except OSError:
        pass
    try:
        with open("/proc/self/oom_score_adj", "w") as target:
            target.write("1000")
    except (IOError, OSError):
        pass
    if which("ionice"):
        subprocess.call(
            [which("ionice"), "-c", "3", "-p", str(os.getpid())], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip


def missing(module):
    """What the collector needs and this node has not: each need is a program or a path, `|` between alternatives."""
    for need in getattr(module, "NEEDS", ()):
        if not any(glob.glob(one) if one.startswith("/") else which(one) for one in need.split("|")):
            return need
    return None


def run_all(modules, base, request, node, ends):
    """Yield (module, job) as each ends; job is None for those that do not apply here or had no time."""
    waiting, running, quiet = list(modules), [], 0
    try:
        while waiting or running:
            while waiting and len(running) < PARALLEL:
                module = waiting.pop(0)
                if missing(module) or time.time() > ends - 0.5:
                    yield module, None
                else:
                    running.append(Job(module, base, request, node, ends))
            ended = [job for job in running if job.poll()]
            running = [job for job in running if job not in ended]
            for job in ended:
                yield job.module, job
            quiet = 0 if ended else quiet + 1
            if not ended:
                time.sleep(min(0.02 + quiet * 0.002, 0.1))
    finally:
        for job in running:
            job.stop()
        sys.stdout.flush()
