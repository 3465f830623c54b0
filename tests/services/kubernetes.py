"""A real Kubernetes control plane on loopback: etcd, API server, controllers, scheduler; kubelets are played.

Needs root no more than the ports need it, Debian's etcd-server and openssl, a kubectl, and the servers that
tests/services/build_kubernetes.sh builds once. By hand: TRIAGE_TEST_K8S=1 python tests/services/kubernetes.py /tmp/lab,
then KUBECONFIG=/tmp/lab/kubeconfig kubectl get nodes; Ctrl-C ends it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when run by hand

from services.kubelet import Api, Kubelets
from services.sshd import free_port

SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODES = ("node001", "node002", "node003", "node004")
TOKEN = "of-the-test"  # the server listens on loopback, for as long as the tests take
NAMESPACE = "train"


def programs() -> Path:
    """The folder of the servers."""
    found = os.environ.get("TRIAGE_TEST_K8S_PROGRAMS")
    return Path(found) if found else Path.home() / ".cache" / "triage-test" / "kubernetes"


def kubectl() -> str | None:
    """A kubectl that speaks WebSockets to exec (1.31 and later), or the one there is."""
    places = [os.environ.get("TRIAGE_TEST_KUBECTL"), *map(shutil.which, ("kubectl.1.33", "kubectl.1.32", "kubectl"))]
    return next((place for place in places if place), None)


def missing() -> str | None:
    """Why it is not started here, or None."""
    if not os.environ.get("TRIAGE_TEST_K8S"):
        return "a real Kubernetes is started only when TRIAGE_TEST_K8S=1 asks for it"
    absent = [name for name in ("etcd", "openssl") if not shutil.which(name)]
    absent += [name for name in SERVERS if not (programs() / name).is_file()]
    absent += [] if kubectl() else ["kubectl"]
    return f"no {', '.join(absent)}: see tests/services/build_kubernetes.sh" if absent else None


class Lab:
    """A running control plane. `environment` is what kubectl needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.etcd, self._peer, self.port, self._kubelet = (free_port() for _ in range(4))
        self.kubectl = kubectl() or "kubectl"
        self.environment = dict(os.environ, KUBECONFIG=str(folder / "kubeconfig"), HOME=str(folder))
        self.api = Api(self.port, TOKEN)
        self._daemons: list[subprocess.Popen[bytes]] = []

    def ask(self, *words: str, data: str | None = None, check: bool = True) -> str:
        """Output of kubectl in the namespace of the tests."""
        done = subprocess.run(
            [self.kubectl, "-n", NAMESPACE, *words], env=self.environment, input=data, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"kubectl {words}: {done.stderr}")
        return done.stdout

    def apply(self, *objects: dict[str, Any]) -> None:
        """Create objects."""
        self.ask("create", "-f", "-", data=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def uid(self, kind: str, name: str) -> str:
        """The identity of an object, for the references of those below it."""
        return self.ask("get", kind, name, "-o", "jsonpath={.metadata.uid}")

    # ---- daemons ----

    def start(self) -> None:
        """Everything, in the order in which each needs the other."""
        self._secrets()
        self._etcd()
        self._server()
        self._await("API server", lambda: bool(self.api.ask("GET", "/api/v1/namespaces/kube-system")))
        self._clients()
        self._await("nodes", lambda: len(self.api.ask("GET", "/api/v1/nodes").get("items", [])) == len(NODES))
        self.api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})

    def _secrets(self) -> None:
        subject = ["-days", "2", "-subj", "/CN=127.0.0.1"]
        for name in ("kubelet", "accounts"):
            files = ["-keyout", self.folder / f"{name}.key", "-out", self.folder / f"{name}.crt"]
            command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files, *subject]
            subprocess.run(command, check=True, capture_output=True)
        (self.folder / "tokens.csv").write_text(f"{TOKEN},test,test,system:masters\n")
        cluster = {"server": f"https://127.0.0.1:{self.port}", "insecure-skip-tls-verify": True}
        known = {
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}], "users": [{"name": "test", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": NAMESPACE}}],
        }  # fmt: skip
        (self.folder / "kubeconfig").write_text(json.dumps(known))

    def _etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self.etcd}", f"http://127.0.0.1:{self._peer}"
        self._run(
            "etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", client, "--advertise-client-urls",
            client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
            f"default={peer}", "--unsafe-no-fsync",
        )  # fmt: skip

    def _server(self) -> None:
        accounts = self.folder / "accounts.key"
        self._run(
            programs() / "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.etcd}", "--bind-address=127.0.0.1",
            f"--secure-port={self.port}", f"--cert-dir={self.folder / 'certificates'}", "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder / 'tokens.csv'}", "--service-account-issuer=https://test.invalid",
            f"--service-account-key-file={accounts}", f"--service-account-signing-key-file={accounts}",
            "--service-cluster-ip-range=10.96.0.0/24", "--disable-admission-plugins=ServiceAccount",
        )  # fmt: skip

    def _clients(self) -> None:
        common = [f"--kubeconfig={self.folder / 'kubeconfig'}", "--leader-elect=false", "--bind-address=127.0.0.1"]
        common += [f"--cert-dir={self.folder / 'certificates'}", "--port=0"]
        self._run(programs() / "kube-controller-manager", *common, f"--secure-port={free_port()}")
        self._run(programs() / "kube-scheduler", *common, f"--secure-port={free_port()}")
        self._run(sys.executable, Path(__file__), "kubelets", self.folder, str(self.port), str(self._kubelet))

    def _run(self, *command: str | Path) -> None:
        name = f"{Path(command[0]).name}{len(self._daemons)}.log"
        with (self.folder / name).open("wb") as log:
            self._daemons.append(
                subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment)
            )

    def _await(self, what: str, ready: Callable[[], bool], seconds: float = 120) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if any(daemon.poll() is not None for daemon in self._daemons):
                raise RuntimeError(f"a daemon ended at once: {self._last_words()}")
            try:
                if ready():
                    return
            except (OSError, RuntimeError):
                pass
            time.sleep(0.2)
        raise RuntimeError(f"{what}: not there after {seconds:.0f} s: {self._last_words()}")

    def _last_words(self) -> str:
        return "; ".join(f"{path.name}: {path.read_text()[-300:]}" for path in sorted(self.folder.glob("*.log")))

    def stop(self) -> None:
        """End all of it."""
        self.ask("delete", "pods", "--all", "--wait=false", check=False)
        time.sleep(1)  # the kubelets end what runs
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


@contextmanager
def running(folder: Path) -> Iterator[Lab]:
    """Start it and end it."""
    folder.mkdir(parents=True, exist_ok=True)
    lab = Lab(folder)
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()


if __name__ == "__main__":
    if sys.argv[1] == "kubelets":
        place, server, own = sys.argv[2:]
        Kubelets(Api(int(server), TOKEN), list(NODES), Path(place), int(own)).serve()
    else:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with running(Path(sys.argv[1])) as found:
            print(f"KUBECONFIG={found.folder / 'kubeconfig'} {found.kubectl}", flush=True)
            signal.pause()
