"""Releases of the driver's kernel module and of its library, where one log tells both.

driver.differs   `yes` when libcuda and the kernel module are of two releases; nothing when they agree or one is unknown
"""

from __future__ import annotations

from collections.abc import Iterator

from triage.model.event import Fact, Signal
from triage.model.incident import Incident

_MODULE, _LIBRARY = "driver/module-version", "driver/library-version"


def derive(incident: Incident) -> Iterator[Fact]:
    """The first log that tells two releases."""
    modules = {signal.event.where.file: signal for signal in _told(incident, _MODULE)}
    for library in _told(incident, _LIBRARY):
        module = modules.get(library.event.where.file)
        if module is not None and _release(module) != _release(library):
            text, places = library.event.text, (library.event.where, module.event.where)
            yield Fact(name="driver.differs", value="yes", where=library.event.where, text=text, evidence=places)
            return


def _told(incident: Incident, name: str) -> Iterator[Signal]:
    return (item.signal for item in incident.signals if item.signal.signature.id == name)


def _release(signal: Signal) -> tuple[int, ...]:
    """384.130 and 384.130.0 are one release, and so are 535.161.08 and 535.161.8."""
    numbers = [int(part) for part in str(signal.fields.get("version")).split(".") if part.isdigit()]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
