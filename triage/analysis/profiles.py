"""What bounds a profiled step.

profile.verdict   one a profile (entity rank, where profiles differ):
                  data-wait | communication | launch | memory-bandwidth | compute | kernel-inefficient
profile.gain      the highest factor by which the step could get faster were that alone gone; absent for compute
profile.bound.data_ms, .communication_ms, .launch_ms, .both_ms
                  the median step with that waiting hidden, or the two largest of them, at least
Nothing is said when no part is large enough, or when the profile has no work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import structs

from triage.analysis._bounds import both, memory, ordered, sentence, utilisation, words
from triage.model.base import Value
from triage.model.event import Fact
from triage.model.incident import Incident

WAITING = 0.25  # of the window, for data, communication, launches
BUSY = 0.6  # below this the kernels do not bound the step
MOST = 0.5  # of kernel time
SMALL = 10.0  # us: shorter kernels are mostly start and end
LIMIT = 1e4
NEAR_PEAK = 0.6  # of what the part of the GPU can do: from here on it bounds the kernel
_WAITS = ("data-wait", "communication", "launch")


def derive(incident: Incident) -> Iterator[Fact]:
    """The verdict of each profile."""
    profiles: dict[tuple[str, object, object], dict[str, Fact]] = defaultdict(dict)
    for fact in incident.facts:
        if fact.name.startswith("profile."):
            place = (fact.where.file, fact.entity.get("rank"), fact.entity.get("gpu"))
            profiles[place][fact.name.removeprefix("profile.")] = fact
    yield from _counted(incident)
    judged = [list(_judged(incident, facts)) for facts in profiles.values()]
    verdicts = {fact.value for facts in judged for fact in facts if fact.name == "profile.verdict"}
    for facts in judged:  # what holds for all that were profiled singles none of them out
        yield from (facts if len(verdicts) > 1 else [structs.replace(fact, entity={}) for fact in facts])


def _judged(incident: Incident, facts: dict[str, Fact]) -> Iterator[Fact]:
    shares = {name: float(fact.value) for name, fact in facts.items()
              if isinstance(fact.value, (int, float)) and not isinstance(fact.value, bool)}  # fmt: skip
    if "busy" not in shares:
        return
    kind, share, why = _waits(shares) or _kernels(shares) or ("", 0.0, "")
    if not kind:
        return
    origin = facts["busy"]
    parts = ordered(_parts(shares))
    works = shares.get("compute")
    memory_full = memory(incident)
    why = sentence(words(parts, shares.get("step_ms")) if parts and kind in _WAITS else why,
                   utilisation(incident, works if kind != "compute" else None), memory_full)  # fmt: skip
    yield _fact(origin, "profile.verdict", kind, why)
    if kind != "compute":
        gain = min(1 / max(1 - share, 1e-4), LIMIT)
        yield _fact(origin, "profile.gain", round(gain, 2), why)
    if (step_ms := shares.get("step_ms")) is not None and parts:
        for part in parts:
            yield _fact(origin, f"profile.bound.{part.name}_ms", round(step_ms * (1 - part.share), 3), why)
        if len(parts) > 1:
            yield _fact(origin, "profile.bound.both_ms", round(step_ms * both(parts), 3), why)


def _counted(incident: Incident) -> Iterator[Fact]:
    """What bounds kernels whose counters were read one by one: whatever comes near to its peak, or nothing does."""
    files: dict[str, dict[str, Fact]] = defaultdict(dict)
    for fact in incident.facts:
        if fact.name in ("ncu.compute", "ncu.memory"):
            files[fact.where.file][fact.name] = fact
    for facts in files.values():
        if len(facts) < 2:
            continue
        compute, memory_ = (float(facts[name].value) for name in ("ncu.compute", "ncu.memory"))  # type: ignore[arg-type]
        kind = "kernel-inefficient" if max(compute, memory_) < NEAR_PEAK else "compute"
        kind = "memory-bandwidth" if kind == "compute" and memory_ > compute else kind
        why = (
            f"kernels reach {100 * compute:.0f} % of the peak of arithmetic and {100 * memory_:.0f} % of that of memory"
        )
        yield _fact(facts["ncu.compute"], "profile.verdict", kind, why)


def _fact(origin: Fact, name: str, value: Value, text: str) -> Fact:
    where = origin.where
    return Fact(name=name, value=value, where=where, entity=dict(origin.entity), text=text, evidence=(where,))


def _parts(shares: dict[str, float]) -> dict[str, float]:
    """What the step waits for; these times do not overlap."""
    data = shares.get("data_wait", 0.0) + shares.get("host_silent", 0.0)
    return {
        "data": data,
        "communication": shares.get("communication_exposed", 0.0),
        "launch": shares.get("launch_wait", 0.0),
    }


def _waits(shares: dict[str, float]) -> tuple[str, float, str] | None:
    """The largest kind of waiting, when one is large."""
    data = shares.get("data_wait", 0.0) + shares.get("host_silent", 0.0)
    found = max(
        (data, "data-wait", "the device is idle while the host fetches input, or does nothing that the profiler sees"),
        (shares.get("communication_exposed", 0.0), "communication", "communication runs with no other work under it"),
        (shares.get("launch_wait", 0.0), "launch", "short gaps between kernels while the host launches the next"),
    )
    return (found[1], found[0], f"{100 * found[0]:.0f} % of the window: {found[2]}") if found[0] >= WAITING else None


def _kernels(shares: dict[str, float]) -> tuple[str, float, str] | None:
    """The device is busy: with what?"""
    busy = shares["busy"]
    if busy < BUSY:
        return None
    moving = sum(shares.get(kind, 0.0) for kind in ("elementwise", "reduction", "normalisation"))
    matrix = shares.get("gemm", 0.0) + shares.get("attention", 0.0)
    if shares.get("kernel_us", SMALL) < SMALL and shares.get("occupancy", 0.0) < 50:
        return "kernel-inefficient", busy / 2, f"half of the kernels take less than {shares['kernel_us']:.1f} us"
    if moving >= MOST:
        return (
            "memory-bandwidth",
            busy * moving * 0.8,
            f"{100 * moving:.0f} % of kernel time moves data, little is computed",
        )
    if matrix < MOST:
        return None
    if shares.get("gemm", 0.0) >= MOST and shares.get("tensor_cores", 1.0) < 0.1:
        return "kernel-inefficient", busy * shares["gemm"] * 0.75, "matrix products run without tensor cores"
    return ("compute", 0.0, f"{100 * matrix:.0f} % of kernel time are matrix products") if busy >= 0.8 else None
