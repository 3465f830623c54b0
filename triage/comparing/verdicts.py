"""Two runs: what changed, what moved, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triage.comparing import hardware
from triage.comparing.intervals import Mean, mean, ratio, typical
from triage.comparing.runs import Run
from triage.comparing.settings import WORK
from triage.model.comparison import Change, Comparison, Errors, Move, Moved, Result

ERRORS = 20  # signatures told
UNEXPLAINED = 0.05  # of the step before
PHASES = ("data_ms", "fwd_ms", "bwd_ms", "comm_ms", "opt_ms", "gc_ms", "ckpt_ms", "host_ms")
_SLOWNESS = ("performance/", "data/loader-bottleneck")
# Whose settings come from the same kind of place on both sides: a name that is missing on one is unset there.
_LISTED = {"environment": ("environment", "nccl"), "setting": ("arguments", "command"), "version": ("packages",)}


def compare(before: Run, after: Run, watch_for: str = "worse") -> Comparison:
    """All of it. `watch_for` (worse, better): where a small change shall be seen sooner."""
    changes, once = changed(before, after)
    moved = [*_timed(before, after, watch_for), *_rate(before, after, watch_for), *_memory(before, after)]
    result, why = _verdict(before, after, changes, moved)
    return Comparison(
        result=result,
        why=why,
        before=before.name,
        after=after.name,
        watched_for="better" if watch_for == "better" else "worse",
        one_change=len(changes) == 1 if before.settings and after.settings else None,
        changes=changes,
        known_once=once,
        moved=moved,
        errors=_errors(before, after),
        hardware=hardware.changed(before.hardware, after.hardware),
        causes_before=before.causes,
        causes_after=after.causes,
        notes=list(_notes(before, after, changes, moved)),
    )


def changed(before: Run, after: Run) -> tuple[list[Change], list[str]]:
    """What differs; and the names that only one side tells."""
    changes, once = [], []
    for kind, name in sorted(before.settings.keys() | after.settings.keys()):
        one, two = before.settings.get((kind, name)), after.settings.get((kind, name))
        if one == two:
            continue
        both = any(place in before.told and place in after.told for place in _LISTED.get(kind, ()))
        if (one is not None and two is not None) or both:
            changes.append(Change(kind=kind, name=name, before=_told(one), after=_told(two)))  # type: ignore[arg-type]
        else:
            once.append(name)
    if before.ranks != after.ranks and before.ranks and after.ranks:
        changes.append(Change(kind="topology", name="ranks", before=str(before.ranks), after=str(after.ranks)))
    return changes, once


def _told(values: Sequence[str] | None) -> str | None:
    return None if values is None else "; ".join(values)


def _timed(before: Run, after: Run, watch_for: str) -> Iterator[Moved]:
    """The typical step and its phases; the plain mean too, where stalls came or went."""
    if before.unit != after.unit:
        return
    for phase in ("step_ms", *PHASES):
        one, two = before.steps.get(phase, []), after.steps.get(phase, [])
        if one and two:
            name = "step time" if phase == "step_ms" else phase.removesuffix("_ms")
            yield moved(name, before.unit, typical(one), typical(two), watch_for)
    one, two = before.steps.get("step_ms", []), after.steps.get("step_ms", [])
    if one and two and (typical(one) != one or typical(two) != two):
        yield moved("step time with stalls", before.unit, one, two, watch_for)


def _rate(before: Run, after: Run, watch_for: str) -> Iterator[Moved]:
    if before.rates and after.rates:
        yield moved("throughput as logged", "", before.rates, after.rates, watch_for, "better")
    elif before.unit == after.unit == "ms" and before.steps.get("step_ms") and after.steps.get("step_ms"):
        rates = [[1000 / ms for ms in typical(run.steps["step_ms"]) if ms > 0] for run in (before, after)]
        if all(rates):
            yield moved("throughput", "steps/s", rates[0], rates[1], watch_for, "better")


def _memory(before: Run, after: Run) -> Iterator[Moved]:
    for name in sorted(before.memory.keys() & after.memory.keys()):
        one, two = before.memory[name], after.memory[name]
        factor = two / one if one > 0 else None
        yield Moved(name=f"memory {name}", unit="bytes", before=one, after=two, ratio=factor, result="unknown")


def moved(
    name: str, unit: str, one: Sequence[float], two: Sequence[float], watch_for: str, larger_is: str = "worse"
) -> Moved:
    """Means of two series with the interval of their ratio, and what it says."""
    means = mean(one), mean(two)
    plain = [sum(values) / len(values) for values in (one, two)]
    common = {"name": name, "unit": unit, "before": _short(plain[0]), "after": _short(plain[1])}
    steps = [len(one), len(two)]
    told = _ratio(means, watch_for, larger_is)
    if told is None:
        return Moved(**common, steps=steps, result="unknown", ratio=plain[1] / plain[0] if plain[0] > 0 else None)  # type: ignore[arg-type]
    value, low, high = told
    larger: Move = "worse" if larger_is == "worse" else "better"
    smaller: Move = "better" if larger_is == "worse" else "worse"
    result: Move = larger if low > 1 else smaller if high < 1 else "no difference"
    return Moved(**common, steps=steps, result=result, ratio=_short(value), low=_short(low), high=_short(high))  # type: ignore[arg-type]


def _ratio(means: tuple[Mean | None, Mean | None], watch_for: str, larger_is: str) -> tuple[float, float, float] | None:
    one, two = means
    found = ratio(one, two, watch_for, larger_is) if one is not None and two is not None else None
    return None if found is None else (found.value, found.low, found.high)


def _short(value: float) -> float:
    """Six digits: what differs beyond is the order in which a machine adds."""
    return float(f"{value:.6g}")


def _errors(before: Run, after: Run) -> list[Errors]:
    names = sorted(before.errors.keys() | after.errors.keys())
    rows = [Errors(signature=n, before=before.errors.get(n, 0), after=after.errors.get(n, 0)) for n in names]
    differing = [row for row in rows if row.before != row.after]
    return sorted(differing, key=lambda row: (-abs(row.after - row.before), row.signature))[:ERRORS]


def _verdict(before: Run, after: Run, changes: list[Change], moves: list[Moved]) -> tuple[Result, str]:
    fresh = [cause for cause in after.causes if cause not in before.causes]
    gone = [cause for cause in before.causes if cause not in after.causes]
    if fresh:
        return "worse", f"AFTER has what BEFORE had not: {', '.join(fresh)}"
    reason = _other_work(changes)
    slow = all(cause.startswith("performance/") for cause in gone)
    if gone and not after.causes and not (reason and slow):  # less work is a cure for a failure, not for slowness
        return _gone(gone, before, after, moves)
    if reason:
        return "not comparable", reason
    deciding = _deciding(moves)
    if deciding is None:
        return "not comparable", _nothing(before, after)
    return deciding.result, _words(deciding)  # type: ignore[return-value]


def _gone(gone: list[str], before: Run, after: Run, moves: list[Moved]) -> tuple[Result, str]:
    """A cause is gone only when the run shows by itself that it went well: silence proves nothing.

    Slowness whose going explains only a part of the gain is not what was fixed: better, and by what is open.
    """
    further = after.last_step is not None and (before.last_step is None or after.last_step >= before.last_step)
    if after.verdict != "healthy" and not further:
        return "not comparable", f"{', '.join(gone)} is not seen in AFTER, but neither does it show that it ran as far"
    deciding = _deciding(moves)
    if all(cause.startswith("performance/") for cause in gone) and deciding is not None and deciding.result != "better":
        return deciding.result, f"{', '.join(gone)} is not seen any more, yet {_words(deciding)}"  # type: ignore[return-value]
    if all(cause.startswith(_SLOWNESS) for cause in gone) and deciding is not None and (more := _unexplained(moves)):
        return "better", f"{', '.join(gone)} is gone; {_words(deciding)}, and {more}"
    slower = f"; {_words(deciding)}" if deciding is not None and deciding.result == "worse" else ""
    return "fixed", f"{', '.join(gone)} is gone{slower}"


def _other_work(changes: list[Change]) -> str:
    other = [change.name for change in changes if change.name in WORK or change.name == "ranks"]
    if not other:
        return ""
    hint = " (--scaling compares runs of different sizes)" if "ranks" in other else ""
    return f"the work is another: {', '.join(other)}{hint}"


def _deciding(moves: list[Moved]) -> Moved | None:
    """The typical step; the throughput as logged where no step times are; stalls only where they leave no doubt."""
    known = {move.name: move for move in moves if move.result != "unknown"}
    usual = known.get("step time") or known.get("throughput as logged")
    stalls = known.get("step time with stalls")
    if usual is not None and usual.result == "no difference" and stalls is not None and _beyond_doubt(stalls):
        return stalls
    return usual


def _beyond_doubt(move: Moved) -> bool:
    """Would an interval about twice as wide (1 in a thousand) still leave out one?"""
    if move.ratio is None or move.low is None or move.high is None:
        return False
    nearer = move.low if move.ratio > 1 else move.high
    return bool((nearer - 1) * (move.ratio - 1) > 0 and abs(move.ratio - 1) > 2 * abs(move.ratio - nearer))


def _words(move: Moved) -> str:
    ratio_, low, high = (100 * ((value or 1.0) - 1) for value in (move.ratio, move.low, move.high))
    if move.result == "no difference":
        return f"{move.name} {ratio_:+.1f} %, which may be chance (95 %: {low:+.1f} to {high:+.1f} %)"
    return f"{move.name} {ratio_:+.1f} % (95 %: {low:+.1f} to {high:+.1f} %)"


def _nothing(before: Run, after: Run) -> str:
    if before.unit != after.unit:
        return "one side tells ms a step, the other ms a sample"
    bare = [name for name, run in (("BEFORE", before), ("AFTER", after)) if not run.steps and not run.rates]
    if bare:
        return f"no step times in {' and '.join(bare)}"
    return "too few steps to say anything: six a side are the least, two hundred are good"


def _notes(before: Run, after: Run, changes: list[Change], moves: list[Moved]) -> Iterator[str]:
    for side, run in (("BEFORE", before), ("AFTER", after)):
        if run.slower_from is not None:
            yield f"{side} itself became slower at step {run.slower_from}: its mean is of two states"
        if run.causes:
            yield f"{side} has a fault of its own: {', '.join(run.causes)}"
    if reason := _other_work(changes):
        yield reason
    if len(changes) > 1:
        yield f"{len(changes)} things changed: what moved cannot be put down to one of them"
    if not changes and before.settings and after.settings:
        yield "nothing changed as far as both sides tell"
    if not before.settings or not after.settings:
        yield "what the runs were made of is not told: a bundle by `triage collect` holds versions and environment"
    if more := _unexplained(moves):
        yield more
    deciding = _deciding(moves)
    if deciding is not None and deciding.result == "no difference" and deciding.high is not None:
        yield f"a change beyond {100 * ((deciding.high or 1) - 1):+.1f} % would have been seen"


def _unexplained(moves: list[Moved]) -> str:
    """Said when steps gained more than what they wait for shrank by: the work itself changed too. Else empty."""
    known = {move.name: move for move in moves if move.unit == "ms"}
    step, waits = known.get("step time"), [known[name] for name in ("data", "comm") if name in known]
    if step is None or step.result != "better" or not waits:
        return ""
    saved, explained = step.before - step.after, sum(max(wait.before - wait.after, 0.0) for wait in waits)
    if explained <= 0 or saved - explained < UNEXPLAINED * step.before:
        return ""
    return (
        f"steps take {saved:.0f} ms less, of which shorter waiting for input and communication explains "
        f"{explained:.0f} ms: more than one thing changed"
    )
