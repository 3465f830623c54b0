"""PyTorch profiler traces (Kineto, Chrome trace JSON). Times are microseconds of the trace.

Facts of the profile (entity rank when the trace or the file's name says); shares are of the profiled window, 0 to 1:
profile.window_ms, profile.steps        the profiled steps together, how many; without steps the span of all work
profile.step_ms                         median step
profile.series.step_ms                  the steps in order, at most STEPS
profile.busy                            some kernel or copy ran
profile.compute, .communication, .memcpy    that kind ran (they may overlap)
profile.communication_exposed           communication ran and nothing else did
profile.idle                            nothing ran on the device
profile.data_wait                       the host was in the DataLoader's `next` and the device was idle
profile.loader                          the host was in the DataLoader's `next`
profile.host_silent                     in a step, with an idle device and nothing seen on the host
profile.launch_wait                     idle in gaps shorter than GAP while the host was busy: it launches too slowly
profile.sync                            the host waited for the device (cudaStreamSynchronize and kin)
profile.elementwise, .reduction, .gemm, .attention, .normalisation    share of the kernel time by what kernels do
profile.tensor_cores                    share of the gemm time in kernels that use them, as far as names tell
profile.kernels, profile.kernel_us      kernels a step, median duration of a kernel
profile.occupancy                       estimated occupancy in percent, weighted by time
profile.gpu                             the device's name
profile.top_kernels                     `share name`, at most TOP
profile.unreadable                      why nothing was read
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from triage.model.base import number
from triage.model.bundle import Document
from triage.model.event import Fact
from triage.parsers._documents import Teller, inflated, integer, listing, mapping, rank_of, text
from triage.parsers._json_pieces import Pieces
from triage.parsers._profile import Profile

SOURCE = "kineto"
STREAMED = True
SIGNS = (re.compile(rb'"traceEvents"'),)
EVENTS = 8_000_000  # looked at; each takes up to 56 bytes


def recognises(head: bytes, tail: bytes) -> int:
    """2 for a Chrome trace with Kineto's keys; compressed ones are recognised by the opener's inflated head."""
    if b'"traceEvents"' in head and (b'"schemaVersion"' in head or b'"deviceProperties"' in head):
        return 2
    trace = b'"traceEvents"' in head or b'"traceEvents"' in tail
    return 2 if trace and b'"ph"' in head and (b'"cat"' in head or b"ProfilerStep" in head) else 0


class Args(msgspec.Struct, gc=False, rename={"occupancy": "est. achieved occupancy %"}):
    """Of an event's own values the one that is read."""

    occupancy: Any = None


class Traced(msgspec.Struct, gc=False):
    """One event, as far as it is read; other members and values are skipped undecoded."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    ts: float | str | None = None
    dur: float | str | None = None
    args: Args | None = None


_decode = msgspec.json.Decoder(list[Traced]).decode


def facts(document: Document) -> Iterator[Fact]:
    """The profile in shares of its window."""
    teller = Teller(document, {"rank": rank_of(document.file)})
    pieces = Pieces(document.stream or io.BytesIO(inflated(document.data)), "traceEvents", _decode, _traced)
    try:
        profile = _profile(pieces)
    except ValueError as error:
        yield teller.fact("profile.unreadable", str(error)[:200])
        return
    told = integer(mapping(pieces.beside.get("distributedInfo")).get("rank"))
    teller = teller.about({"rank": told})
    devices = [mapping(item) for item in listing(pieces.beside.get("deviceProperties"))[:1]]
    yield from teller.some({"profile.gpu": text(devices[0].get("name")) or None if devices else None})
    yield from teller.some(profile.values())


def _profile(pieces: Pieces) -> Profile:
    """Raises ValueError when there is nothing, or no JSON."""
    profile, count = Profile(), 0
    for events in pieces:
        count += len(events)
        for event in events[: max(EVENTS - count + len(events), 0)]:
            if event.ph == "X" and event.ts is not None and event.dur is not None:
                _add(profile, event)
    if not count:
        raise ValueError("no events")
    return profile


def _add(profile: Profile, event: Traced) -> None:
    start, length = event.ts, event.dur
    if type(start) is not float or type(length) is not float:  # what was decoded as a number is finite
        start, length = number(start), number(length)
    if start is None or length is None or not (length >= 0 and start + length < math.inf):
        return
    share = number(event.args.occupancy) if event.args is not None else None
    profile.add(str(event.cat).lower(), text(event.name, 400), start, start + length, share)


def _traced(item: Any) -> Traced:
    """An event of unusual content: nothing in it is of a known type."""
    known = mapping(item)
    args = Args(occupancy=mapping(known.get("args")).get("est. achieved occupancy %"))
    return Traced(
        ph=known.get("ph"), cat=known.get("cat"), name=known.get("name"), ts=number(known.get("ts")),
        dur=number(known.get("dur")), args=args,
    )  # fmt: skip
