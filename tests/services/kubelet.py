"""Plays the kubelets of a few nodes against a real API server: pods are processes of this machine.

What it cannot know it makes up as a kubelet would say it: a container killed by signal 9 counts as OOMKilled. It serves
what kubectl asks a kubelet for through the API server: logs, also of the run before, and exec over WebSockets.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import signal
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
PAUSE = 0.2  # seconds between two looks at the pods
BEAT = 10.0  # seconds between two signs of life; the controller waits 40


def now() -> str:
    """The present as the API writes it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Api:
    """The API server, asked in JSON with a token."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """The answer; {} for what is not there (any more) or there already. Raises RuntimeError."""
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        unchecked = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=20, context=unchecked)
        try:
            head = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
            connection.request(method, path, json.dumps(body) if body is not None else None, head)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if answer.status in (404, 409):
            return {}
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:300]!r}")
        return cast("dict[str, Any]", json.loads(data))


class Container:
    """A container of a pod: one process after another, each with a log."""

    def __init__(self, pod: dict[str, Any], spec: dict[str, Any], folder: Path) -> None:
        self.name, self.restarts, self.last = spec["name"], 0, dict[str, Any]()
        self._pod, self._spec, self._folder = pod, spec, folder
        self._process: subprocess.Popen[bytes] | None = None
        self.state: dict[str, Any] = {"waiting": {"reason": "PodInitializing"}}
        folder.mkdir(parents=True, exist_ok=True)

    def log(self, previous: bool) -> Path:
        """The log of this run, or of the one before."""
        return self._folder / f"{self.restarts - previous}.log"

    def start(self) -> None:
        """Begin a run."""
        variables = {one["name"]: str(one.get("value", "")) for one in self._spec.get("env", [])}
        self._process = subprocess.Popen(
            [*self._spec["command"], *self._spec.get("args", [])], env=os.environ | variables, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.state = {"running": {"startedAt": now()}}
        threading.Thread(target=self._write, args=(self._process, self.log(False)), daemon=True).start()

    def _write(self, process: subprocess.Popen[bytes], path: Path) -> None:
        with path.open("wb") as log:
            for line in cast("Any", process.stdout):
                log.write(f"{datetime.now(timezone.utc).isoformat().removesuffix('+00:00')}Z ".encode() + line)
                log.flush()

    def look(self, again: bool) -> bool:
        """Whether it ended just now; a failed run is begun again when the pod wants that, at most twice."""
        if self._process is None or "running" not in self.state or (code := self._process.poll()) is None:
            return False
        number = 128 - code if code < 0 else code
        reason = "OOMKilled" if number == 137 else "Error" if number else "Completed"
        times = {"startedAt": self.state["running"]["startedAt"], "finishedAt": now()}
        self.state = {"terminated": {"exitCode": number, "reason": reason, "containerID": self._id(), **times}}
        if again and number and self.restarts < 2:
            self.last, self.restarts = self.state, self.restarts + 1
            self.start()
        return True

    def _id(self) -> str:
        return "test://" + hashlib.sha256(f"{self._pod['metadata']['uid']}/{self.name}".encode()).hexdigest()

    def end(self) -> None:
        """Kill it."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def status(self) -> dict[str, Any]:
        """As `containerStatuses` has it."""
        return {
            "name": self.name, "image": self._spec["image"], "imageID": "", "containerID": self._id(),
            "ready": "running" in self.state, "started": "running" in self.state, "restartCount": self.restarts,
            "state": self.state, "lastState": self.last,
        }  # fmt: skip


class Pod:
    """A pod on one of our nodes."""

    def __init__(self, tree: dict[str, Any], folder: Path) -> None:
        self.tree, meta = tree, tree["metadata"]
        self.path, self.began = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", now()
        self._again = tree["spec"].get("restartPolicy", "Always") != "Never"
        self.containers = [Container(tree, one, folder / one["name"]) for one in tree["spec"]["containers"]]
        for one in self.containers:
            one.start()

    def look(self) -> bool:
        """Whether anything changed."""
        changed = [one.look(self._again) for one in self.containers]
        return any(changed)

    def status(self) -> dict[str, Any]:
        """As the API wants it."""
        states = [one.state for one in self.containers]
        codes = [state["terminated"]["exitCode"] for state in states if "terminated" in state]
        phase = "Running" if len(codes) < len(states) else "Failed" if any(codes) else "Succeeded"
        ready = {"type": "Ready", "status": str(phase == "Running"), "lastTransitionTime": now()}
        return {
            "phase": phase, "startTime": self.began, "hostIP": "10.0.0.1", "podIP": "10.0.1.1", "conditions": [ready],
            "containerStatuses": [one.status() for one in self.containers],
        }  # fmt: skip


class Kubelets:
    """All nodes of the test. `serve` never returns."""

    def __init__(self, api: Api, nodes: list[str], folder: Path, port: int) -> None:
        self._api, self._nodes, self._folder, self._port = api, nodes, folder, port
        self.pods: dict[str, Pod] = {}

    def serve(self) -> None:
        """Register the nodes, answer kubectl, run what the scheduler binds."""
        server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "kubelet.crt", self._folder / "kubelet.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        cast("Any", server).pods = self.pods
        threading.Thread(target=server.serve_forever, daemon=True).start()
        threading.Thread(target=self._beat, daemon=True).start()
        while True:
            self._round()
            time.sleep(PAUSE)

    def _beat(self) -> None:
        while True:
            for node in self._nodes:
                self._api.ask("POST", "/api/v1/nodes", {"metadata": {"name": node, "labels": {"gpu": "h200"}}})
                self._api.ask("PATCH", f"/api/v1/nodes/{node}/status", {"status": self._node()})
            time.sleep(BEAT)

    def _node(self) -> dict[str, Any]:
        size = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
        times = {"lastHeartbeatTime": now(), "reason": "KubeletReady"}
        return {
            "capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True", **times}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
        }  # fmt: skip

    def _round(self) -> None:
        there = set()
        for tree in self._api.ask("GET", "/api/v1/pods").get("items", []):
            uid, node = tree["metadata"]["uid"], tree["spec"].get("nodeName")
            if node not in self._nodes:
                continue
            there.add(uid)
            self._one(uid, tree)
        for uid in set(self.pods) - there:
            self._ended(self.pods.pop(uid))

    def _one(self, uid: str, tree: dict[str, Any]) -> None:
        fresh = uid not in self.pods
        if fresh:
            self.pods[uid] = Pod(tree, self._folder / "pods" / uid)
        pod = self.pods[uid]
        if tree["metadata"].get("deletionTimestamp"):
            self._ended(pod)
            self._api.ask("DELETE", pod.path, {"gracePeriodSeconds": 0})
        elif pod.look() or fresh:
            self._api.ask("PATCH", f"{pod.path}/status", {"status": pod.status()})

    def _ended(self, pod: Pod) -> None:
        for container in pod.containers:
            container.end()


class Handler(BaseHTTPRequestHandler):
    """/containerLogs/NAMESPACE/POD/CONTAINER and /exec/NAMESPACE/POD/CONTAINER."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Logs, or exec when the client asks for WebSockets."""
        url = urlsplit(self.path)
        kind, namespace, pod, name = url.path.strip("/").split("/")[:4]
        container = self._container(namespace, pod, name)
        if container is None:
            self.send_error(404)
        elif kind == "containerLogs":
            self._logs(container, parse_qs(url.query))
        elif "v5.channel.k8s.io" in self.headers.get("Sec-WebSocket-Protocol", ""):
            self._exec(parse_qs(url.query)["command"])
        else:
            self.send_error(400, "exec is served over WebSockets, protocol v5, only")

    def _container(self, namespace: str, pod: str, name: str) -> Container | None:
        pods = [one for one in cast("Any", self.server).pods.values() if one.path.endswith(f"/{namespace}/pods/{pod}")]
        return next((one for found in pods for one in found.containers if one.name == name), None)

    def _logs(self, container: Container, query: dict[str, list[str]]) -> None:
        path = container.log(query.get("previous") == ["true"])
        if not path.exists():
            self.send_error(400, "previous terminated container not found")
            return
        lines = path.read_bytes().splitlines(keepends=True)
        lines = lines[-int(query["tailLines"][0]) :] if "tailLines" in query else lines
        if query.get("timestamps") != ["true"]:
            lines = [line.split(b" ", 1)[1] for line in lines]
        data = b"".join(lines)
        data = (
            data[: int(query["limitBytes"][0])] if "limitBytes" in query else data
        )  # the beginning, as a kubelet does
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    # ---- exec: channel 0 is standard input, 1 output, 2 errors, 3 the outcome, 255 the end of a channel ----

    def _exec(self, command: list[str]) -> None:
        accept = hashlib.sha1((self.headers["Sec-WebSocket-Key"] + GUID).encode()).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(accept).decode())
        self.send_header("Sec-WebSocket-Protocol", "v5.channel.k8s.io")
        self.end_headers()
        self._lock = threading.Lock()
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
        threading.Thread(target=self._input, args=(process,), daemon=True).start()
        pumps = [threading.Thread(target=self._pump, args=(process, number)) for number in (1, 2)]
        for pump in pumps:
            pump.start()
        for pump in pumps:
            pump.join()
        self._send(3, json.dumps(outcome(process.wait())).encode())
        self._frame(8, struct.pack(">H", 1000))
        self.close_connection = True

    def _pump(self, process: subprocess.Popen[bytes], channel: int) -> None:
        stream = cast("Any", process.stdout if channel == 1 else process.stderr)
        while data := stream.read1(1 << 15):
            self._send(channel, data)

    def _input(self, process: subprocess.Popen[bytes]) -> None:
        sink = cast("Any", process.stdin)
        for data in self._frames():
            if data[0] == 255 and data[1] == 0:
                sink.close()
            elif data[0] == 0 and not sink.closed:
                sink.write(data[1:])
                sink.flush()
        if process.poll() is None:  # the client is gone
            os.killpg(process.pid, signal.SIGTERM)

    def _send(self, channel: int, data: bytes) -> None:
        self._frame(2, bytes([channel]) + data)

    def _frame(self, code: int, data: bytes) -> None:
        size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack(">H", len(data))
        with self._lock:
            self.wfile.write(bytes([0x80 | code]) + size + data)
            self.wfile.flush()

    def _frames(self) -> Iterator[bytes]:
        """Messages of the client, unmasked, until it closes."""
        while head := self.rfile.read(2):
            size = head[1] & 0x7F
            size = struct.unpack(">H", self.rfile.read(2))[0] if size == 126 else size
            size = struct.unpack(">Q", self.rfile.read(8))[0] if size == 127 else size
            mask, data = self.rfile.read(4), self.rfile.read(size)
            if head[0] & 0x0F == 8:
                return
            if head[0] & 0x0F == 9:
                self._frame(10, _unmasked(data, mask))
            elif data:
                yield _unmasked(data, mask)

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


def _unmasked(data: bytes, mask: bytes) -> bytes:
    wide = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(wide, "big")).to_bytes(len(data), "big")


def outcome(code: int) -> dict[str, Any]:
    """The status object behind an exec."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    cause = {"reason": "ExitCode", "message": str(code)}
    message = f"command terminated with non-zero exit code {code}"
    about = {"reason": "NonZeroExitCode", "details": {"causes": [cause]}}
    return {"metadata": {}, "status": "Failure", "message": message, **about}
