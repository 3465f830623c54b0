"""What bounds a profiled step.

profile.verdict   one a profile (entity rank):
                  data-wait | communication | launch | memory-bandwidth | compute | kernel-inefficient
profile.gain      the highest factor by which the step could get faster were that alone gone; absent for compute
Nothing is said when no part is large enough, or when the profile has no work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from triage.model.event import Fact
from triage.model.incident import Incident

WAITING = 0.25  # of the window, for data, communication, launches
BUSY = 0.6  # below this the kernels do not bound the step
MOST = 0.5  # of kernel time
SMALL = 10.0  # us: shorter kernels are mostly start and end
LIMIT = 1e4


def derive(incident: Incident) -> Iterator[Fact]:
    """The verdict of each profile."""
    profiles: dict[tuple[str, object], dict[str, Fact]] = defaultdict(dict)
    for fact in incident.facts:
        if fact.name.startswith("profile."):
            profiles[fact.where.file, fact.entity.get("rank")][fact.name.removeprefix("profile.")] = fact
    for facts in profiles.values():
        yield from _judged(facts)


def _judged(facts: dict[str, Fact]) -> Iterator[Fact]:
    shares = {name: float(fact.value) for name, fact in facts.items()
              if isinstance(fact.value, (int, float)) and not isinstance(fact.value, bool)}  # fmt: skip
    if "busy" not in shares:
        return
    kind, share, why = _waits(shares) or _kernels(shares) or ("", 0.0, "")
    if not kind:
        return
    origin = facts["busy"]
    entity = dict(origin.entity)
    yield Fact(
        name="profile.verdict", value=kind, where=origin.where, entity=entity, text=why, evidence=(origin.where,)
    )
    if kind != "compute":
        gain = min(1 / max(1 - share, 1e-4), LIMIT)
        places = (origin.where,)
        yield Fact(
            name="profile.gain", value=round(gain, 2), where=origin.where, entity=entity, text=why, evidence=places
        )


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
