"""A real Slurm with accounting on this machine: munged, mariadbd, slurmdbd, slurmctld and a slurmd for each node.

Needs root and Debian's packages slurmctld slurmd slurmdbd slurm-client slurm-wlm-mysql-plugin munge mariadb-server.
By hand: python tests/services/slurm.py /tmp/lab, then SLURM_CONF=/tmp/lab/slurm.conf sinfo; Ctrl-C ends it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from services.sshd import free_port

NODES = ("node001", "node002", "node003", "node004")
PROGRAMS = ("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "srun", "sacctmgr")


def missing() -> str | None:
    """Why it cannot be started here, or None."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")]
    if absent:
        return f"no Slurm here: {', '.join(absent)} (Debian: slurmctld slurmd slurmdbd munge mariadb-server)"
    return None if os.geteuid() == 0 else "Slurm's daemons are started as root only"


class Lab:
    """A running Slurm. `environment` is what its commands need."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ports = folder, [free_port() for _ in range(3 + len(NODES))]
        self.environment = dict(os.environ, SLURM_CONF=str(folder / "slurm.conf"))
        self.environment["PATH"] += ":/usr/sbin:/sbin"
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, *command: str, check: bool = True) -> str:
        """Output of a command of Slurm."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        if check and done.returncode:
            raise RuntimeError(f"{command}: {done.stderr}")
        return done.stdout.strip()

    def start(self, name: str, *command: str) -> None:
        """Start a daemon in the foreground."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.daemons[name] = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def stop(self, name: str) -> None:
        """End a daemon, hard: a node that dies does not say goodbye."""
        process = self.daemons.pop(name)
        process.kill()
        process.wait()

    def close(self) -> None:
        """End all, the database in peace."""
        for name in list(self.daemons):
            if name in ("mariadbd", "munged"):
                self.daemons[name].terminate()
            else:
                self.daemons[name].kill()
        for process in self.daemons.values():
            process.wait()


@contextmanager
def running(folder: Path) -> Iterator[Lab]:
    """Start everything, until all nodes are idle; about five seconds."""
    with ExitStack() as stack:
        lab = Lab(folder)
        stack.callback(lab.close)
        _munge(lab)
        _database(lab)
        _configure(lab)
        lab.start("slurmdbd", "slurmdbd", "-D")
        _await("slurmdbd", lambda: _ok(lab, "sacctmgr", "-n", "list", "cluster"))
        lab.run("sacctmgr", "-i", "add", "cluster", "lab", check=False)
        lab.run("sacctmgr", "-i", "add", "account", "train", "Description=d", "Organization=o", check=False)
        lab.run("sacctmgr", "-i", "add", "user", "root", "Account=train", check=False)
        lab.start("slurmctld", "slurmctld", "-D")
        for node in NODES:
            (folder / "spool" / node).mkdir(parents=True)
            lab.start(node, "slurmd", "-D", "-N", node)
        _await(
            "nodes",
            lambda: lab.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N", check=False).count("node") == len(NODES),
        )
        yield lab


def _munge(lab: Lab) -> None:
    folder = lab.folder / "munge"
    folder.mkdir(parents=True)
    lab.folder.chmod(0o755)
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o400)
    folder.chmod(0o711)
    parts = [f"--key-file={folder}/key", f"--socket={folder}/socket", f"--pid-file={folder}/pid"]
    parts += [f"--log-file={folder}/log", f"--seed-file={folder}/seed"]
    lab.start("munged", "munged", "--foreground", "--force", *parts)
    _await("munged", lambda: _ok(lab, "munge", "-S", f"{folder}/socket", "-n"))


def _database(lab: Lab) -> None:
    data = lab.folder / "sql"
    data.mkdir()
    shutil.chown(data, "mysql", "mysql")
    for parent in data.parents:
        if parent.stat().st_mode & 0o711 != 0o711 and str(parent).startswith("/tmp/"):
            parent.chmod(0o711)
    base = ["--no-defaults", "--user=mysql", f"--datadir={data}"]
    lab.run("mariadb-install-db", *base, "--skip-test-db", "--auth-root-authentication-method=normal")
    lab.start(
        "mariadbd", "mariadbd", *base, f"--socket={data}/socket", f"--port={lab.ports[0]}", "--bind-address=127.0.0.1",
        "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900", f"--pid-file={data}/pid",
    )  # fmt: skip
    query = ["mariadb", "--no-defaults", "-u", "root", "-S", f"{data}/socket", "-e"]
    _await("mariadbd", lambda: _ok(lab, *query, "select 1"))
    lab.run(
        *query, "create user slurm@'%' identified by 'lab'; create database slurm; grant all on slurm.* to slurm@'%'"
    )


def _configure(lab: Lab) -> None:
    folder, host = lab.folder, os.uname().nodename.split(".")[0]
    sql, dbd, ctld, *slurmds = lab.ports
    shared = ["AuthType=auth/munge", f"AuthInfo=socket={folder}/munge/socket", "SlurmUser=root"]
    accounting = [*shared, "DbdHost=localhost", "DbdAddr=127.0.0.1", f"DbdPort={dbd}", "StorageHost=127.0.0.1"]
    accounting += ["StorageType=accounting_storage/mysql", f"StoragePort={sql}", "StorageUser=slurm", "StoragePass=lab"]
    accounting += ["StorageLoc=slurm", f"LogFile={folder}/dbd.log", f"PidFile={folder}/dbd.pid"]
    _write(folder / "slurmdbd.conf", accounting)
    lines = [*shared, "ClusterName=lab", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={ctld}", "SlurmdUser=root"]
    lines += [
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool/%n",
        f"SlurmctldPidFile={folder}/c.pid",
    ]
    lines += [f"SlurmdPidFile={folder}/%n.pid", "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none"]
    lines += ["SwitchType=switch/none", "MpiDefault=none", "ReturnToService=2", "SelectType=select/cons_tres"]
    lines += ["SelectTypeParameters=CR_Core", "SlurmdParameters=config_overrides", "MessageTimeout=10", "KillWait=5"]
    lines += ["JobAcctGatherType=jobacct_gather/linux", "AccountingStorageType=accounting_storage/slurmdbd"]
    lines += [
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={dbd}",
        "AccountingStoreFlags=job_script,job_env",
    ]
    lines += [f"AccountingStoragePass={folder}/munge/socket", "SlurmdTimeout=300", "InactiveLimit=0"]
    lines += [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 RealMemory=8000 State=UNKNOWN"
        for node, port in zip(NODES, slurmds, strict=True)
    ]
    _write(
        folder / "slurm.conf", [*lines, f"PartitionName=gpu Nodes={','.join(NODES)} Default=YES MaxTime=60 State=UP"]
    )
    (folder / "state").mkdir()


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o600)


def _ok(lab: Lab, *command: str) -> bool:
    done = subprocess.run(command, env=lab.environment, capture_output=True, timeout=30, check=False)
    return done.returncode == 0


def _await(what: str, done: Callable[[], bool], seconds: float = 40) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if done():
            return
        time.sleep(0.2)
    raise RuntimeError(f"{what} did not start")


if __name__ == "__main__":
    with running(Path(sys.argv[1])) as lab:
        print(f"export SLURM_CONF={lab.environment['SLURM_CONF']}", flush=True)
        signal.pause()
