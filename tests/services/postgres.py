"""A real PostgreSQL on this machine, in a folder of its own, on a port of its own.

Needs Debian's package postgresql. It refuses to run as root; then the account postgres (or nobody) runs it.
By hand: python tests/services/postgres.py prints a URL; Ctrl-C ends it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.sshd import free_port

PASSWORD = "p%40ss-word"  # p@ss-word, as it stands in a URL
ACCOUNTS = ("postgres", "nobody")


def folder_of_programs() -> Path | None:
    """Where initdb and postgres lie: Debian keeps them out of PATH."""
    found = [path.parent for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)]
    if known := shutil.which("initdb"):
        found.append(Path(known).resolve().parent)
    return next((path for path in found if (path / "postgres").exists()), None)


def missing() -> str | None:
    """Why it cannot be started here, or None."""
    if folder_of_programs() is None:
        return "no PostgreSQL here (Debian: apt-get install postgresql)"
    return (
        None if os.geteuid() or shutil.which("runuser") else "PostgreSQL does not run as root, and runuser is missing"
    )


def _as_account(folder: Path) -> list[str]:
    """The words in front of a command; the folder then belongs to the account."""
    if os.geteuid():
        return []
    import pwd

    known = {entry.pw_name for entry in pwd.getpwall()}
    account = next(name for name in ACCOUNTS if name in known)
    shutil.chown(folder, account)
    return ["runuser", "-u", account, "--"]


@contextmanager
def running(*settings: str) -> Iterator[str]:
    """The URL of an empty database, with a password in it; `settings` as `name=value`. About two seconds."""
    programs = folder_of_programs()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="triage-postgres-", dir="/tmp"))
    (folder / "password").write_text("p@ss-word\n")
    folder.chmod(0o755)
    port, words, data = free_port(), _as_account(folder), folder / "data"
    made = ["-D", str(data), "-U", "triage", "-A", "scram-sha-256", "--pwfile", str(folder / "password"), "--no-sync"]
    try:
        done = subprocess.run(
            [*words, str(programs / "initdb"), *made, "-E", "UTF8", "--locale", "C"],
            capture_output=True, text=True, timeout=60, check=False, cwd="/",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        options = [f"port={port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={folder}", "fsync=off"]
        told = [word for setting in [*options, "shared_buffers=64MB", *settings] for word in ("-c", setting)]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [*words, str(programs / "postgres"), "-D", str(data), *told], stdout=log, stderr=log, cwd="/",
                start_new_session=True,
            )  # fmt: skip
        try:
            _await(port, server, folder / "log")
            yield f"postgresql://triage:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            _stop(data, server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _await(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    ends = time.monotonic() + 40
    while time.monotonic() < ends and server.poll() is None:
        try:
            psycopg.connect(f"postgresql://triage:{PASSWORD}@127.0.0.1:{port}/postgres", connect_timeout=2).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"PostgreSQL did not start: {log.read_text(errors='replace')[-2000:]}")


def _stop(data: Path, server: subprocess.Popen[bytes]) -> None:
    """At once and in order: runuser would not hand a signal on to what it started."""
    lines = (data / "postmaster.pid").read_text().splitlines() if (data / "postmaster.pid").exists() else []
    if lines:
        os.kill(int(lines[0]), signal.SIGINT)
    else:
        server.terminate()
    server.wait(30)


if __name__ == "__main__":
    with running() as url:
        print(url, flush=True)
        signal.pause()
