"""Nodes over the site's own ssh, with its configuration, keys and jump hosts: directly, or as ClusterShell's tree."""

from __future__ import annotations

import importlib.util
import shlex
import tempfile
import time
from collections.abc import Sequence
from typing import IO, Any, cast

from triage.bundle.writing import DiskFullError
from triage.transport.fanout import WIDTH, Fanout, Target, allowed
from triage.transport.packing import boot
from triage.transport.receiving import Answer, Receiver

CONNECT = 8  # seconds until a host that does not answer is given up
OPTIONS = ("-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT}", "-o", "ServerAliveInterval=5")
_QUIET = ("-T", "-x")


def target(node: str, ssh: str) -> Target:
    """A host. ssh: the program with the site's own options, as in a shell."""
    return Target(node=node, command=lambda seconds: command(node, ssh, seconds))


def command(node: str, ssh: str, seconds: float) -> list[str]:
    """The argument list that collects from a host. A name that looks like an option stays a name."""
    line = f"sh -c {shlex.quote(boot(node, seconds))}"
    return [*shlex.split(ssh), *_QUIET, *OPTIONS, "--", node, line]


def tree_is_there() -> bool:
    """Whether ClusterShell can be imported."""
    return importlib.util.find_spec("ClusterShell") is not None


def run_tree(fanout: Fanout, receiver: Receiver, nodes: Sequence[str], app: bytes, ends: float, ssh: str) -> None:
    """Collect from all hosts through ClusterShell, by way of the gateways of the site's topology.conf if it has one.

    ClusterShell hands over lines, so the answers come as base64; each is kept in a temporary file until it is whole.
    """
    from ClusterShell.Task import task_self

    left = ends - time.time()
    task, keeper = task_self(), _keeper()(nodes)
    program, *options = shlex.split(ssh)
    task.set_info("ssh_path", program)
    task.set_info("ssh_options", shlex.join([*options, *OPTIONS]))
    task.set_info("fanout", WIDTH)
    task.set_info("connect_timeout", CONNECT)
    task.set_default("auto_tree", True)
    seconds, started = allowed(left), time.time()
    for node in nodes:  # a worker each, for the line names the node; the task bounds how many run at once
        line = f"sh -c {shlex.quote(boot(node, seconds, encoded=True))}"
        worker = task.shell(line, nodes=node, handler=keeper, stderr=True, timeout=max(1.0, left))
        worker.write(app)
        worker.set_write_eof()
    try:
        task.resume()
    except BaseException:
        task.abort()
        raise
    finally:
        _hand_over(fanout, receiver, keeper, started)


def _hand_over(fanout: Fanout, receiver: Receiver, keeper: Any, started: float) -> None:
    for node, file in sorted(keeper.files.items()):
        answer = Answer(node, started)
        file.seek(0)
        try:
            receiver.receive(answer, file, encoded=True)
        except DiskFullError as error:
            fanout.full = error
        file.close()
        answer.offset = None  # when the answer is read says nothing of when it was sent
        fanout.tell(answer, _trouble(keeper, answer), started)
    if fanout.full:
        raise fanout.full


def _trouble(keeper: Any, answer: Answer) -> dict[str, Any]:
    if answer.ended is not None:
        return {}
    words = " ".join(keeper.words.get(answer.node, []))[-500:]
    if answer.node in keeper.codes:
        message = answer.fault or words or f"ssh ended with {keeper.codes[answer.node]}"
        return {"denied" if "denied" in message.lower() else "failed": [message]}
    return {"timed_out": ["no answer within the deadline"]}


def _file() -> IO[bytes]:
    return cast("IO[bytes]", tempfile.TemporaryFile())


def _keeper() -> type[Any]:
    """An event handler class of ClusterShell: keeps each host's lines, last words and exit code."""
    from ClusterShell.Event import EventHandler

    class Keeper(EventHandler):  # type: ignore[misc]
        def __init__(self, nodes: Sequence[str]) -> None:
            self.files: dict[str, IO[bytes]] = {node: _file() for node in nodes}
            self.words: dict[str, list[str]] = {}
            self.codes: dict[str, int] = {}

        def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
            if sname == "stdout":
                self.files[node].write(msg + b"\n")
            else:
                self.words.setdefault(node, []).append(msg.decode("utf-8", "replace").strip())

        def ev_hup(self, worker: Any, node: str, rc: int) -> None:
            self.codes[node] = rc

    return Keeper
