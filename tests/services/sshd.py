"""A real OpenSSH server on loopback addresses, under several host names. Needs Debian's openssh-server, and root.

By hand: python tests/services/sshd.py /tmp/lab, then ssh -F /tmp/lab/config node1 hostname; Ctrl-C ends it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SSHD = "/usr/sbin/sshd"
NODES = ("node1", "node2", "node3")


def missing() -> str | None:
    """Why it cannot be started here, or None."""
    if not Path(SSHD).is_file() or not shutil.which("ssh-keygen"):
        return "no OpenSSH server here (Debian: openssh-server)"
    return None if os.geteuid() == 0 else "sshd is started as root only"


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Start it; gives the ssh command that reaches node1, node2, node3, and `dark`, an address where nobody answers."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    _configure(folder, port)
    Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    try:
        _await(port)
        yield f"ssh -F {folder / 'config'}"
    finally:
        server.terminate()
        server.wait()


def _configure(folder: Path, port: int) -> None:
    (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
    lines = [f"Port {port}", f"HostKey {folder / 'host'}", f"AuthorizedKeysFile {folder / 'authorized'}", "UsePAM no"]
    lines += ["StrictModes no", "PasswordAuthentication no", "PermitRootLogin prohibit-password", "PidFile none"]
    lines += [f"ListenAddress 127.0.0.{2 + number}" for number in range(len(NODES))]
    (folder / "sshd_config").write_text("\n".join([*lines, "MaxStartups 200", "ListenAddress 127.0.0.1"]) + "\n")
    client = ["Host *", f" Port {port}", " User root", f" IdentityFile {folder / 'user'}", " IdentitiesOnly yes"]
    client += [" StrictHostKeyChecking no", " UserKnownHostsFile /dev/null", " LogLevel ERROR"]
    for number, name in enumerate(NODES):
        client += [f"Host {name}", f" HostName 127.0.0.{2 + number}"]
    client += ["Host refused", " HostName 127.0.0.1", " User nobody-of-this-name"]
    client += ["Host dark", " HostName 127.0.0.1", f" Port {free_port()}"]
    named, general = client[7 + 1 :], client[: 7 + 1]
    (folder / "config").write_text("\n".join([*named, *general]) + "\n")


def _await(port: int) -> None:
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.2", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("sshd does not listen")


if __name__ == "__main__":
    with running(Path(sys.argv[1])) as ssh:
        print(ssh, flush=True)
        signal.pause()
