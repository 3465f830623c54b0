"""Kubernetes: objects as JSON or YAML, `kubectl describe` and `kubectl get` tables, kubelet lines (klog text and JSON).

Facts of pods (entity node when known): k8s.pod.name  k8s.pod.node  k8s.pod.phase  k8s.pod.message  k8s.pod.restarts
    k8s.pod.reason (of the pod and of each container's present and last state)  k8s.pod.exit_code  k8s.pod.signal
    k8s.pod.exit (reason and code together: `Error 137`)  k8s.pod.disruption (reason of its DisruptionTarget condition)
Facts of events (entity node when it is about one): k8s.event.reason  k8s.event.message
Facts of nodes (entity node): k8s.node.ready (True, False, Unknown)  k8s.node.pressure  k8s.node.taints
    k8s.node.gpus_capacity  k8s.node.gpus_allocatable
Facts of jobs and operators' jobs: k8s.job.reason (of a condition Failed, Suspended or Restarting)
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import yaml

from triage.model.bundle import Document, Window
from triage.model.event import Event, Fact, Where
from triage.parsers import _kubernetes_facts, _kubernetes_text, _prefix, _stamps
from triage.parsers._documents import json_value, listing, mapping

SOURCE = "kubernetes"
BEFORE = AFTER = 0  # klog and JSON lines hold a whole message
MARKS = (("well", r"^[\w.-]{1,100} {1,20}0/\d{1,3} {1,20}Completed {1,20}\d"),)
YAML_LIMIT = 4 << 20  # bytes: about four hundred pods; the C parser reads one or two megabytes a second
TEXT_LIMIT = 32 << 20
REACH = 1 << 20  # bytes within which a value is looked for, so that many objects do not mean many whole scans
DEPTH = 64  # levels of YAML; a pod has about twelve
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

_KLOG = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +(?P<pid>\d+) [\w./-]+\.go:\d+\] ?")
_KINDS = (
    rb"(?:Pod|PodList|List|Event|EventList|Job|JobList|Node|NodeList|PyTorchJob|MPIJob|TFJob|XGBoostJob|PaddleJob|JAXJob"
    rb"|TrainJob|JobSet|RayJob|RayCluster)"
)
_OBJECT = re.compile(rb'"kind"\s*:\s*"' + _KINDS + rb'"|^(?:- |  )?kind: ' + _KINDS + rb"\s*$", re.MULTILINE)
_API = re.compile(rb'"apiVersion"\s*:\s*"|^(?:- )?(?:  )?apiVersion: \S', re.MULTILINE)
_TEXT = re.compile(
    rb"^(?:NAMESPACE +)?(?:NAME +READY +STATUS +RESTARTS|LAST SEEN +(?:FIRST SEEN +COUNT +)?TYPE +REASON"
    rb"|NAME +STATUS +ROLES +AGE)"
    rb"|^Name: +[a-z0-9][a-z0-9.-]*[ \t]*\n(?:[A-Z][A-Za-z ]*:.*\n| .*\n){0,30}?(?:Node|Namespace|Roles|Taints):",
    re.MULTILINE,
)
_KLOG_LINE = re.compile(
    rb"^(?:.{0,80}\b(?:kubelet|kube-\w+)\[\d+\]: )?[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w./-]+\.go:\d+\]",
    re.MULTILINE,
)
_JSON_LINE = re.compile(rb'^\{"ts":[\d.]+,"(?:caller|logger|msg|v|level)":', re.MULTILINE)
_MENTION = re.compile(
    rb"\bkubelet\b|\bkubectl\b|containerStatuses|\bback-off restarting failed container\b", re.IGNORECASE
)
_ON_NODE = re.compile(r'(?:\bon node|node=|"node":|nodeName[":]+) ?"?(?P<node>[a-z0-9][a-z0-9.-]{1,120})')
SIGNS = (_OBJECT, _TEXT, _KLOG_LINE, _JSON_LINE, _MENTION)


def recognises(head: bytes, tail: bytes) -> int:
    """2 for API objects, descriptions, tables and klog files; 1 for text that speaks of kubelet or kubectl."""
    if _OBJECT.search(head) and _API.search(head):
        return 2
    if _TEXT.search(head) or len(_KLOG_LINE.findall(head)) > 1 or len(_JSON_LINE.findall(head)) > 1:
        return 2
    return 1 if _KLOG_LINE.search(head) or _JSON_LINE.search(head) or _MENTION.search(head + b"\n" + tail) else 0


def parse(window: Window) -> Event:
    """The message at the hit, without klog's head; JSON lines stay as they stand."""
    line = window.lines[window.hit]
    stamp, used = _stamps.find(line)
    klog = _KLOG.search(line, 0, 400)
    prefix = _prefix.split(line[: klog.start()] if klog else line)
    text = (line[klog.end() :] if klog else line[used:] if used else prefix.rest).strip()[:2000]
    node = _ON_NODE.search(line, 0, 4000)
    return Event(
        where=Where(file=window.file.path, line=window.numbers[window.hit]),
        text=text, body=text, source=SOURCE, time=stamp or (_stamps.find(line[klog.start() :])[0] if klog else None),
        node=node["node"].rstrip(".") if node else window.file.node,
        rank=prefix.rank if prefix.rank is not None else window.file.rank,
        local_rank=window.file.local_rank, pid=prefix.pid if prefix.pid is not None else window.file.pid,
    )  # fmt: skip


def facts(document: Document) -> Iterator[Fact]:
    """What the objects, descriptions or tables say; nothing for a file without any."""
    data, file = document.data, document.file.path
    if data.lstrip()[:1] == b"{" and _OBJECT.search(data, 0, 1 << 20):
        yield from _objects(_json(data), _Lines(file, data))
    elif _API.search(data, 0, 1 << 20) and _OBJECT.search(data, 0, 1 << 20):
        yield from _objects(_documents(data), _Lines(file, data))
    elif _TEXT.search(data, 0, TEXT_LIMIT):
        yield from _kubernetes_text.facts(file, data[:TEXT_LIMIT].decode("utf-8", "replace").splitlines())


def _json(data: bytes) -> list[Any]:
    try:
        return [json_value(data)]
    except ValueError:
        return []


def _documents(data: bytes) -> list[Any]:
    """YAML documents; none when the text is too large, too deep or has aliases, with which little text means much."""
    if len(data) > YAML_LIMIT:
        return []
    try:
        if not _harmless(data):
            return []
        return list(yaml.load_all(data, Loader=_Loader))  # the base loader makes text, lists and dictionaries only
    except (yaml.YAMLError, ValueError, RecursionError):
        return []


def _harmless(data: bytes) -> bool:
    depth = 0
    for event in yaml.parse(data, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH or isinstance(event, yaml.AliasEvent):
            return False
    return True


def _objects(trees: list[Any], lines: _Lines) -> Iterator[Fact]:
    for tree in trees:
        top = mapping(tree)
        items = listing(top.get("items")) if "items" in top else [top]
        for item in items[: _kubernetes_facts.ITEMS]:
            yield from _kubernetes_facts.of_object(_kind(mapping(item), top), lines.find)


def _kind(item: dict[Any, Any], top: dict[Any, Any]) -> dict[Any, Any]:
    """Items of a `PodList` may lack their kind."""
    kind = str(top.get("kind", ""))
    return item if "kind" in item or not kind.endswith("List") else item | {"kind": kind.removesuffix("List")}


class _Lines:
    """Finds the line of a document that shows a value, so that a fact can be cited."""

    def __init__(self, file: str, data: bytes) -> None:
        self.file, self.data, self.anchor, self.name = file, data, 0, b""
        self.starts = [0, *(match.end() for match in re.finditer(b"\n", data))]

    def find(self, *words: str) -> tuple[Where, str]:
        """The line of the last word, behind that of the object named first; else the line of the object's name."""
        if len(words) > 1:
            self._enter(words[0].encode())
        spots = [self._seek(form) for form in _forms(words[-1] if words else "")]
        index = bisect_right(self.starts, min((spot for spot in spots if spot >= 0), default=self.anchor)) - 1
        end = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.data)
        cited = self.data[self.starts[index] : min(end, self.starts[index] + 300)].decode("utf-8", "replace").strip()
        return Where(file=self.file, line=index + 1), cited

    def _enter(self, name: bytes) -> None:
        """Move on to the object of this name: objects come in the order of the file."""
        if name == self.name or not name:
            return
        spot = max(self._seek(b'"' + name + b'"'), self._seek(b"name: " + name))
        self.name, self.anchor = name, max(spot, self.anchor)

    def _seek(self, form: bytes) -> int:
        return self.data.find(form, self.anchor, self.anchor + REACH)


def _forms(words: str) -> list[bytes]:
    """`reason: X` as YAML and as JSON write it, and words with their quotes escaped."""
    if not words:
        return []
    key, colon, value = words.partition(": ")
    keyed = [f'"{key}": "{value}"', f'"{key}":"{value}"', f'"{key}": {value}', f'"{key}":{value}'] if colon else []
    return [form.encode() for form in (words, json.dumps(words)[1:-1], *keyed)]
