"""The hang as NCCL RAS shows it: how many operations each rank launched on each communicator, sample by sample."""

from __future__ import annotations

from collections import defaultdict

from msgspec.structs import replace

from triage.analysis._stall import Stall
from triage.model.event import Fact, Where
from triage.model.incident import Incident

MANY = 8
_TIMEOUTS = ("torch/watchdog-timeout", "torch/watchdog-status")
Sample = dict[tuple[str, int], Fact]  # (communicator, rank in it) -> ras.count


def stall(incident: Incident) -> Stall | None:
    """Who launched less than the others and waits nowhere itself; dead peers when none. One sample is not enough."""
    samples = _samples(incident)
    if not samples or _moving(samples):
        return None
    behind = _behind(samples[-1])
    frozen = len(samples) > 1 or any(placed.signal.signature.id in _TIMEOUTS for placed in incident.signals)
    if behind and frozen:
        return _blamed(incident, samples[-1], behind)
    return _dead(incident)


def _samples(incident: Incident) -> list[Sample]:
    """One a file, in the order of their stamps; text and JSON of one moment agree.

    Text counts each kind of operation that differs by itself. Summed as in JSON, a rank that is behind in one kind and
    ahead in another is not behind.
    """
    stamps = {fact.where.file: str(fact.value) for fact in incident.facts if fact.name == "ras.sampled"}
    counts: dict[str, Sample] = defaultdict(dict)
    for fact in incident.facts:
        group, rank = fact.entity.get("group"), fact.entity.get("rank")
        if fact.name == "ras.count" and isinstance(group, str) and isinstance(rank, int) and _number(fact) is not None:
            sample = counts[fact.where.file]
            before = _number(sample[group, rank]) if (group, rank) in sample else 0
            sample[group, rank] = replace(fact, value=(before or 0) + (_number(fact) or 0))
    full = {file: sample for file, sample in counts.items() if file in stamps}
    return [(full or counts)[file] for file in sorted(full or counts, key=lambda file: (stamps.get(file, ""), file))]


def _number(fact: Fact) -> int | None:
    return fact.value if isinstance(fact.value, int) and not isinstance(fact.value, bool) else None


def _moving(samples: list[Sample]) -> bool:
    """Do counts that stand in the last two samples differ? Then the job goes on."""
    if len(samples) < 2:
        return False
    one, two = samples[-2:]
    return any(two[key].value != one[key].value for key in one.keys() & two.keys())


def _behind(sample: Sample) -> dict[int, tuple[str, int, int]]:
    """Ranks, in the widest communicator's numbers, that lag somewhere and lead nowhere: (communicator, own, most)."""
    names = _global_ranks(sample)
    most: dict[str, int] = defaultdict(int)
    least: dict[str, int] = {}
    for (group, _), fact in sample.items():
        count = _number(fact) or 0
        most[group] = max(most[group], count)
        least[group] = min(least.get(group, count), count)
    lag: dict[int, tuple[str, int, int]] = {}
    leads: set[int] = set()
    for (group, rank), fact in sorted(sample.items()):
        who, count = names.get((group, rank)), _number(fact) or 0
        if who is None or least[group] == most[group]:
            continue
        if count < most[group]:
            lag.setdefault(who, (group, count, most[group]))
        else:
            leads.add(who)
    return {who: state for who, state in lag.items() if who not in leads}


def _global_ranks(sample: Sample) -> dict[tuple[str, int], int]:
    """Ranks of sub-communicators as ranks of the widest one, by process and GPU; unknown ones are left out."""
    sizes: dict[str, int] = defaultdict(int)
    for group, _ in sample:
        sizes[group] += 1
    world = max(sorted(sizes), key=lambda group: sizes[group])
    if len(sizes) == 1:
        return {key: key[1] for key in sample}
    place = {key: tuple(fact.entity.get(name) for name in ("node", "pid", "gpu")) for key, fact in sample.items()}
    ranks = {place[key]: key[1] for key in sample if key[0] == world and None not in place[key]}
    return {key: ranks[where] for key, where in place.items() if where in ranks}


def _blamed(incident: Incident, sample: Sample, behind: dict[int, tuple[str, int, int]]) -> Stall | None:
    if len(behind) > max(MANY, len({rank for _, rank in sample}) // 4):
        return None
    facts = {rank: next(f for (g, _), f in sample.items() if g == state[0] and f.value == state[1])
             for rank, state in behind.items()}  # fmt: skip
    group, _, most = next(iter(behind.values()))
    operation = next((str(f.value) for f in incident.facts
                      if f.name == "ras.comm.operation" and f.entity.get("group") == group), None)  # fmt: skip
    return Stall(
        kind="never-arrived", culprits=tuple(sorted(behind)), op=operation, seq=most, group=group,
        waiting=len(sample) - len(behind), summary=f"others launched {most} operations on communicator {group}",
        places={rank: _place(fact, rank) for rank, fact in facts.items()},
        why={rank: f"rank {rank} launched {own} of {top} operations on communicator {name}"
             for rank, (name, own, top) in behind.items()},
        evidence=tuple((_place(fact, rank), "") for rank, fact in list(facts.items())[:MANY]),
    )  # fmt: skip


def _place(fact: Fact, rank: int) -> Where:
    return Where(file=fact.where.file, at=f"rank {rank}, launched {fact.value}")


def _dead(incident: Incident) -> Stall | None:
    """Ranks that RAS itself calls dead or absent from a communicator."""
    told = [fact for fact in incident.facts if fact.name == "ras.missing" and fact.value in ("dead", "absent")]
    found = {rank: fact for fact in told if isinstance(rank := fact.entity.get("rank"), int)}
    if not found or len(found) > MANY or not _single_group(incident):
        return None
    return Stall(
        kind="rank-dead", culprits=tuple(sorted(found)),
        places={rank: Where(file=fact.where.file, at=f"rank {rank} {fact.value}") for rank, fact in found.items()},
        why={rank: f"RAS reports rank {rank} as {fact.value}" for rank, fact in found.items()},
        evidence=tuple((Where(file=fact.where.file, at=f"rank {rank}"), "") for rank, fact in found.items()),
    )  # fmt: skip


def _single_group(incident: Incident) -> bool:
    """Ranks of sub-communicators are not the job's ranks."""
    return (
        len({fact.entity.get("group") for fact in incident.facts if fact.name in ("ras.missing", "ras.comm.size")}) == 1
    )
