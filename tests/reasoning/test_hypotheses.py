"""Candidates, their weight, their culprits, and the verdict."""

from __future__ import annotations

import msgspec
import pytest
from making import event, incident, signal, signature, step

from triage.model.bundle import File
from triage.model.event import Fact, Mark, Signal, Where
from triage.model.incident import Incident
from triage.model.report import Hypothesis
from triage.model.summary import Summary
from triage.reasoning import hypotheses
from triage.reasoning.confidence import SURE, Weighing, confidence
from triage.reasoning.loading import causes
from triage.reasoning.verdict import healthy, verdict

XID79 = signature("gpu/xid-79", covers=["xid-79-fell-off-bus"], sources=["kernel_log"])
OOM = signature("memory/cuda-oom", cause="memory/gpu-capacity", covers=["torch-cuda-oom"])
ERROR = signature("code/python-exception", cause="code/exception", covers=["traceback"])
WEAK = signature("host/killed", cause="host/process-killed", specificity="weak")
TIMEOUT = signature(
    "torch/watchdog", role="symptom", cause="collective/rank-stalled", covers=["torch-watchdog-timeout"]
)
ECHO = signature("torch/connection-closed", role="consequence", cause=None)


def ranked(built: Incident) -> list[Hypothesis]:
    return hypotheses.rank(built, causes(), [])


def test_a_death_explains_the_timeouts_and_names_only_itself() -> None:
    dead = signal(OOM, event("rank2.log", at=1000.0, rank=2))
    waiting = [
        signal(TIMEOUT, event(f"rank{rank}.log", at=1605.0, rank=rank), {"ran_ms": 600000}) for rank in (0, 1, 3)
    ]
    best, *others = ranked(incident([dead, *waiting]))
    assert best.cause == "memory/gpu-capacity"
    assert best.confidence >= SURE
    assert [culprit.rank for culprit in best.culprits] == [2]
    assert best.explains == ["torch/watchdog"]
    assert others == []


def launch_failure(rank: int) -> Signal:
    failed = signature("code/launch-failure", role="symptom", cause=None, covers=["cuda-719-launch-failure"])
    return signal(failed, event(f"rank{rank}.log", at=1001.0, rank=rank))


def test_the_process_that_reports_a_dead_card_is_that_cards_rank() -> None:
    dead = signal(XID79, event("k.log", at=1000.0, source="kernel_log"), pci="0000:3b:00")
    best = ranked(incident([dead, launch_failure(27)]))[0]
    assert [(culprit.pci, culprit.rank) for culprit in best.culprits] == [("0000:3b:00", 27)]


def test_a_fault_that_two_ranks_report_is_nobodys_in_particular() -> None:
    dead = signal(XID79, event("k.log", at=1000.0, source="kernel_log"), pci="0000:3b:00")
    best = ranked(incident([dead, launch_failure(27), launch_failure(3)]))[0]
    assert [(culprit.pci, culprit.rank) for culprit in best.culprits] == [("0000:3b:00", None)]


def test_symptoms_alone_are_never_sure() -> None:
    best = ranked(incident([signal(TIMEOUT, event(rank=0)), signal(TIMEOUT, event(line=2, rank=1))]))[0]
    assert best.cause == "collective/rank-stalled"
    assert best.confidence < SURE


def test_echoes_alone_name_nothing() -> None:
    built = incident([signal(ECHO, event())])
    assert ranked(built) == []
    assert verdict(built, []) == "inconclusive"


def test_a_weak_signature_never_decides_alone() -> None:
    assert ranked(incident([signal(WEAK, event())]))[0].confidence < SURE


def test_the_same_users_fault_on_every_rank_names_no_culprit() -> None:
    signals = [signal(ERROR, event(f"rank{rank}.log", at=1000.0, rank=rank, node=f"n{rank // 2}")) for rank in range(8)]
    assert ranked(incident(signals))[0].culprits == []


def test_one_cause_on_all_gpus_of_one_node_blames_the_node() -> None:
    signals = [
        signal(XID79, event(f"k{rank}.log", at=1000.0, rank=rank, node="n1"), pci=f"0000:{rank}b:00")
        for rank in range(8)
    ]
    culprits = ranked(incident(signals))[0].culprits
    assert [(culprit.node, culprit.rank, culprit.pci) for culprit in culprits] == [("n1", None, None)]


def test_later_failures_of_the_same_kind_are_not_the_culprit() -> None:
    first = signal(ERROR, event("rank5.log", at=1000.0, rank=5, node="n0"))
    later = signal(ERROR, event("rank6.log", at=1300.0, rank=6, node="n0"))
    quiet = [step(1, event(f"rank{rank}.log", at=900.0, rank=rank)) for rank in range(8)]
    assert [culprit.rank for culprit in ranked(incident([first, later], quiet))[0].culprits] == [5]


@pytest.mark.parametrize(
    ("weighing", "sure"),
    [
        (Weighing(support="moderate"), True),
        (Weighing(support="strong", explains=True), True),
        (Weighing(support="moderate", specificity="weak"), False),
        (Weighing(support="moderate", specificity="weak", weak_count=3, explains=True, first=True), False),
        (Weighing(support="strong", undecided=True), False),
        (Weighing(support="moderate", severity="warning"), False),
        (Weighing(support="strong", symptom_only=True), False),
    ],
)
def test_what_may_be_sure(weighing: Weighing, sure: bool) -> None:
    assert (confidence(weighing) >= SURE) is sure


def training(last_line: int, *, end: bool = False) -> Incident:
    marks = [step(number, event("train.log", line=number, rank=0)) for number in range(1, 100)]
    marks += [Mark(kind="end", event=event("train.log", line=100))] if end else []
    files = [File(path="train.log", size=9, sources=("training_log",))]
    built = incident([], marks, files=files)
    return msgspec.structs.replace(built, summaries=(Summary(file="train.log", last_line=last_line),))


@pytest.mark.parametrize(("line", "well"), [(99, False), (10, True)])
def test_a_traceback_that_nothing_could_read_is_not_health(line: int, well: bool) -> None:
    steps = training(last_line=100)
    last = steps.marks[-1]
    where = msgspec.structs.replace(last.event.where, line=line)
    raised = msgspec.structs.replace(last, kind="raised", event=msgspec.structs.replace(last.event, where=where))
    assert healthy(msgspec.structs.replace(steps, marks=(*steps.marks, raised))) is well


def test_healthy_needs_a_source_that_says_so() -> None:
    assert healthy(training(last_line=100))
    assert not healthy(training(last_line=5000))  # it stopped stepping long before its last line
    assert healthy(training(last_line=5000, end=True))
    assert not healthy(incident([], []))


def test_one_line_that_looks_like_a_step_is_not_health() -> None:
    built = training(last_line=100)
    assert not healthy(msgspec.structs.replace(built, marks=built.marks[-1:]))
    assert healthy(msgspec.structs.replace(built, marks=built.marks[-2:]))


def test_a_driver_that_speaks_of_an_error_is_not_health_but_where_training_goes_on() -> None:
    loaded, doubt = (Mark(kind=kind, event=event("dmesg.txt", line=at)) for kind, at in (("well", 1), ("doubt", 2)))
    assert healthy(incident([], [loaded]))
    assert not healthy(incident([], [loaded, doubt]))
    assert healthy(msgspec.structs.replace(training(100), marks=(*training(100).marks, loaded, doubt)))
    known = signature("gpu/noise", role="context", severity="info")
    assert healthy(incident([signal(known, event("dmesg.txt", line=2))], [loaded, doubt]))


def test_a_job_that_the_scheduler_calls_completed_is_well() -> None:
    def state(value: str) -> Incident:
        fact = Fact(name="slurm.job.state", value=value, where=Where(file="sacct.txt"))
        return incident([], [], [fact])

    assert healthy(state("COMPLETED"))
    assert not healthy(state("RUNNING"))
    assert not healthy(state("FAILED"))


def test_a_bad_exit_is_not_health() -> None:
    failed = Fact(name="slurm.job.exit_code", value="1:0", where=Where(file="sacct.txt"))
    assert not healthy(msgspec.structs.replace(training(100), facts=(failed,)))
    unreadable = Fact(name="gpu.readable", value="no", where=Where(file="smi.txt"))
    assert not healthy(msgspec.structs.replace(training(100), facts=(unreadable,)))


def test_the_next_check_names_the_device_and_takes_no_shell_from_a_log() -> None:
    from triage.model.signature import Check

    check = Check(command="lspci -s {pci} -vv; ls {path}; awk '{print $1}' {nic}", tells="is it there")
    lost = signature("gpu/lost", next_check=check)
    found = signal(lost, event(), {"path": "/tmp; rm -rf ~"}, pci="0000:3b:00")
    best = ranked(incident([found]))[0]
    assert best.next_check is not None
    assert best.next_check.command == "lspci -s 0000:3b:00 -vv; ls <path>; awk '{print $1}' <nic>"
