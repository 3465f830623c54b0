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

from collections.abc import Iterator

from triage.model.bundle import Document
from triage.model.event import Fact
from triage.parsers._documents import Teller, inflated, integer, json_value, listing, mapping, rank_of, text
from triage.parsers._profile import Profile

SOURCE = "kineto"
EVENTS = 8_000_000


def recognises(head: bytes, tail: bytes) -> int:
    """2 for a Chrome trace with Kineto's keys; compressed ones are recognised by the opener's inflated head."""
    if b'"traceEvents"' in head and (b'"schemaVersion"' in head or b'"deviceProperties"' in head):
        return 2
    trace = b'"traceEvents"' in head or b'"traceEvents"' in tail
    return 2 if trace and b'"ph"' in head and (b'"cat"' in head or b"ProfilerStep" in head) else 0


def facts(document: Document) -> Iterator[Fact]:
    """The profile in shares of its window."""
    data = inflated(document.data)
    teller = Teller(document, {"rank": rank_of(document.file)})
    try:
        trace = mapping(json_value(data))
        events = listing(trace.get("traceEvents"))[:EVENTS]
        if not events:
            raise ValueError("no events")
    except ValueError as error:
        yield teller.fact("profile.unreadable", str(error)[:200])
        return
    told = integer(mapping(trace.get("distributedInfo")).get("rank"))
    teller = teller.about({"rank": told})
    profile = Profile(events)
    devices = [mapping(item) for item in listing(trace.get("deviceProperties"))[:1]]
    yield from teller.some({"profile.gpu": text(devices[0].get("name")) or None if devices else None})
    yield from teller.some(profile.values())
