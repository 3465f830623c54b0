"""`nvidia-smi -q -x`. Entities are refused, so that a document cannot grow while it is read."""

from __future__ import annotations

import xml.parsers.expat as expat
from typing import Any

from triage.parsers import _stamps
from triage.parsers._smi_device import Device, Process

DEPTH, ELEMENTS, TEXT = 24, 500_000, 2_000  # far above what any machine prints


class _RefusedError(Exception):
    """The document is not what nvidia-smi writes."""


class _Reader:
    def __init__(self, first_line: int) -> None:
        self.devices: list[Device] = []
        self.head: dict[str, tuple[str, int]] = {}
        self.path: list[str] = []
        self.text: list[str] = []
        self.count, self.first_line = 0, first_line
        self.process: dict[str, str] = {}
        self.parser: Any = expat.ParserCreate()
        self.parser.StartElementHandler = self.open
        self.parser.EndElementHandler = self.close
        self.parser.CharacterDataHandler = self.add
        self.parser.EntityDeclHandler = self.refuse

    def line(self) -> int:
        return int(self.parser.CurrentLineNumber) + self.first_line - 1

    def open(self, tag: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if self.count > ELEMENTS or len(self.path) >= DEPTH:
            raise _RefusedError
        self.path.append(tag)
        self.text = []
        if self.path == ["nvidia_smi_log", "gpu"]:
            self.devices.append(Device(line=self.line(), complete=True))
            self.devices[-1].readings["header"] = (attributes.get("id", ""), self.line())
        if tag == "process_info":
            self.process = {}

    def close(self, tag: str) -> None:
        text = "".join(self.text).strip()[:TEXT]
        if len(self.path) == 2:
            self.head[tag] = (text, self.line())
        elif self.path[1:2] == ["gpu"] and self.devices:
            self._leaf(tag, text)
        self.path.pop()
        self.text = []

    def _leaf(self, tag: str, text: str) -> None:
        device = self.devices[-1]
        if "process_info" in self.path:
            self.process[tag] = text
            if tag == "process_info" and self.process.get("pid", "").isdigit():
                pid = int(self.process["pid"][:10])
                name, memory = self.process.get("process_name"), self.process.get("used_memory")
                device.processes.append(Process(pid=pid, line=self.line(), name=name, memory=memory))
            return
        path = "/".join(self.path[2:])
        device.readings.setdefault(path, (text or "present", self.line()))

    def add(self, text: str) -> None:
        if len(self.text) < TEXT:
            self.text.append(text)

    def refuse(self, *_: object) -> None:
        raise _RefusedError


def devices(document: str, first_line: int) -> list[Device]:
    """The GPUs of the document; those before the first fault when it is cut or broken, none when it has entities."""
    reader = _Reader(first_line)
    try:
        reader.parser.Parse(document, True)
    except expat.ExpatError:
        pass
    except _RefusedError:
        return []
    whole = reader.head.get("attached_gpus", ("", 0))[0] == str(len(reader.devices))
    time, _ = _stamps.find(reader.head.get("timestamp", ("", 0))[0])
    for position, device in enumerate(reader.devices):
        minor = device.readings.get("minor_number", ("", 0))[0]
        device.index = position if whole else int(minor) if minor.isdigit() and len(minor) < 5 else None
        device.time = time
        if "driver_version" in reader.head:
            device.readings["driver_version"] = reader.head["driver_version"]
    return reader.devices
