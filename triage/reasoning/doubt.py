"""What speaks against a hypothesis, and what evidence would settle it: said for every answer, also for a sure one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triage.model.incident import Incident, Placed
from triage.model.report import Missing
from triage.model.signature import Signature
from triage.reasoning.candidates import Candidate, earliest

MOST = 4
_HARDWARE = frozenset({"gpu", "link", "node", "fabric", "storage"})
_CLEAN = {"gpu/ecc-uncorrectable": "gpu.ecc.volatile_uncorrectable", "gpu/row-remap-failure": "gpu.remap.failure"}


def against(incident: Incident, candidate: Candidate, rivals: Sequence[Candidate]) -> list[str]:
    """Sentences that contradict the candidate or that it leaves unexplained."""
    return [*_unexplained(incident, candidate, rivals), *_went_on(incident, candidate), *_clean(incident, candidate)][
        :MOST
    ]


def _unexplained(incident: Incident, candidate: Candidate, rivals: Sequence[Candidate]) -> Iterator[str]:
    for rival in rivals:
        first = earliest(
            incident, [index for index in rival.indexes if _strong(incident.signals[index].signal.signature)]
        )
        if rival.cause.id != candidate.cause.id and first is not None:
            where = first.signal.event.where
            place = f"{where.file}:{where.line or where.at}"
            yield f"It does not explain {first.signal.signature.id} ({rival.cause.id}) at {place}"


def _strong(signature: Signature) -> bool:
    known = signature.role == "root-cause" and signature.specificity == "strong"
    return known and signature.severity in {"error", "fatal"}


def _went_on(incident: Incident, candidate: Candidate) -> Iterator[str]:
    """A later run that has not failed, or steps after the last line of what should have ended the job."""
    file, count = steps_after(incident, candidate)
    later = incident.episodes[incident.answered + 1 :]
    if later and not later[-1].failed and later[-1].file:
        yield f"It is of an earlier run: the last begins at {later[-1].file}:{later[-1].first_line} and has not failed"
    elif count > 1 and not candidate.cause.id.startswith("performance/"):
        yield f"Training went on: {count} steps are logged after it in {file}"


def steps_after(incident: Incident, candidate: Candidate) -> tuple[str, int]:
    """The file of the candidate's last line, and how many step lines follow it there."""
    last = max((_end(incident.signals[index]) for index in candidate.indexes), default=None)
    if last is None:
        return "", 0
    later = [mark for mark in incident.marks if mark.kind == "step" and mark.event.where.file == last[0]]
    return last[0], sum((mark.event.where.line or 0) > last[1] for mark in later)


def _end(item: Placed) -> tuple[str, int]:
    where = item.signal.event.where
    return where.file, item.signal.last_line or where.line or 0


def _clean(incident: Incident, candidate: Candidate) -> Iterator[str]:
    """Counters that should show the fault and read zero."""
    name = _CLEAN.get(candidate.cause.id)
    values = [fact.value for fact in incident.facts if fact.name == name]
    if values and all(value in {0, "no"} for value in values):
        yield f"{name} reads {values[0]} on every GPU that was asked; counters are cleared by a reset"


def missing(incident: Incident, candidate: Candidate) -> list[Missing]:
    """Evidence that this kind of cause leaves elsewhere, and that nobody collected."""
    sources = {source for file in incident.files for source in file.sources}
    wanted = list(_wanted(candidate, sources))
    return [Missing(what=what, how=how) for source, what, how in wanted if source not in sources]


def _wanted(candidate: Candidate, sources: set[str]) -> Iterator[tuple[str, str, str]]:
    blame, cause = candidate.cause.blame, candidate.cause.id
    if blame in _HARDWARE or cause in {"host/process-killed", "code/crash", "code/illegal-access", "memory/host-limit"}:
        yield (
            "kernel_log",
            "the kernel log of the nodes around that time",
            "dmesg -T, or triage collect --only kernel_log",
        )
    if blame == "gpu":
        yield "nvidia_smi", "the state of the GPUs (ECC, remapped rows, throttling)", "nvidia-smi -q"
    if cause in {"collective/rank-stalled", "collective/mismatch", "collective/timeout-too-short"}:
        how = "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 before the next run"
        yield "flight_recorder", "which operation each rank was in (flight recorder)", how
    if cause == "host/process-killed" and "slurm" not in sources:
        yield "kubernetes", "what the scheduler says of the process", "sacct -j JOB -P, or kubectl describe pod"
