"""Jobs of Slurm: who ran where, as scontrol and sacct tell, and srun as the way to the nodes."""

from __future__ import annotations

import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from triage.errors import UsageError
from triage.transport import ssh as sshes
from triage.transport.fanout import Target, answer_of
from triage.transport.jobs import Job, Said
from triage.transport.packing import boot

ASK = 8.0  # seconds for one question; a controller that is overloaded must not eat the deadline
_RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "CONFIGURING", "STAGE_OUT")
_STEERING = re.compile(
    r"^(?:NCCL|TORCH|PYTORCH|CUDA|SLURM|TRIAGE|OMPI|UCX|FI|GLOO|NVTE)_|^(?:HOME|TMPDIR|MASTER_ADDR)$"
)
# Fields by age of Slurm: an unknown one makes sacct say nothing at all.
_FIELDS = (
    "JobID,JobName,User,Account,Partition,State,ExitCode,DerivedExitCode,Submit,Start,End,Elapsed,Timelimit,NNodes,NTasks,"
    "NodeList,AllocTRES,MaxRSS,Reason,Restarts,WorkDir,SubmitLine,StdOut,StdErr",
    "JobID,JobName,User,Account,Partition,State,ExitCode,DerivedExitCode,Submit,Start,End,Elapsed,Timelimit,NNodes,NTasks,"
    "NodeList,AllocTRES,MaxRSS,Reason,WorkDir,SubmitLine",
    "JobID,JobName,User,Partition,State,ExitCode,DerivedExitCode,Start,End,Elapsed,NNodes,NTasks,NodeList,MaxRSS",
)  # fmt: skip


def resolve(number: str) -> Job:
    """Everything Slurm knows of a job. Raises UsageError when it knows none, or there is no Slurm here."""
    with ThreadPoolExecutor(6) as pool:
        shown, accounted = pool.submit(_show, number), pool.submit(_account, number)
        variables = pool.submit(_ask, "sacct/environment.txt", "sacct", "-j", number, "--env-vars", "--noheader")
        script = pool.submit(_ask, "sacct/batch-script.txt", "sacct", "-j", number, "--batch-script", "--noheader")
        queue = pool.submit(_ask, "scontrol/squeue.txt", "squeue", "-j", number, "-l")
        said = [shown.result(), accounted.result(), variables.result(), script.result(), queue.result()]
    record = _record(said[0].data) or {}
    table = _table(said[1].data)
    if not record and not table:
        raise UsageError(_why(number, said))
    return _job(number, record, table, said)


def _why(number: str, said: list[Said]) -> str:
    if all("No such file" in (one.fault or "") for one in said[:2]):
        return f"Slurm job {number}: no scontrol and no sacct here; go where Slurm's commands are, or name --nodelist"
    return (
        f"Slurm job {number} is unknown: {said[0].fault or 'scontrol has forgotten it'}; {said[1].fault or 'sacct too'}"
    )


def _ask(path: str, *command: str) -> Said:
    data, fault = answer_of(command, ASK)
    return Said(path=path, data=data, fault=fault)


def _show(number: str) -> Said:
    return _ask("scontrol/job.txt", "scontrol", "show", "job", "-d", number)


def _account(number: str) -> Said:
    for fields in _FIELDS:
        said = _ask("sacct/sacct.txt", "sacct", "-j", number, "--parsable2", f"--format={fields}")
        if not said.fault or "nvalid field" not in said.fault:
            break
    return said


def _record(data: bytes) -> dict[str, str] | None:
    """The first record of `scontrol show job`: words `Name=value`, where a value may hold blanks."""
    text = data.decode("utf-8", "replace").split("\n\n")[0]
    found = dict(re.findall(r"(?:^|\s)([A-Za-z][A-Za-z:/]*)=(.*?)(?=\s+[A-Za-z][A-Za-z:/]*=|\s*\n|\s*$)", text))
    return found if "JobId" in found else None


def _table(data: bytes) -> list[dict[str, str]]:
    lines = data.decode("utf-8", "replace").splitlines()
    head = lines[0].split("|") if lines else []
    return [dict(zip(head, line.split("|"), strict=False)) for line in lines[1:] if line]


def _job(number: str, record: dict[str, str], table: list[dict[str, str]], said: list[Said]) -> Job:
    row = table[0] if table else {}
    state = (record.get("JobState") or row.get("State", "")).split(" ")[0]
    listed = record.get("NodeList") or row.get("NodeList", "")
    nodes = _hosts(listed) if listed and listed not in ("(null)", "None assigned") else []
    environment = dict(
        line.split("=", 1)
        for line in said[2].data.decode("utf-8", "replace").splitlines()
        if _STEERING.match(line) and "=" in line
    )
    more = [_ask("scontrol/nodes.txt", "scontrol", "show", "node", listed)] if nodes else []
    start, end = record.get("StartTime") or row.get("Start"), record.get("EndTime") or row.get("End")
    user = (record.get("UserId") or row.get("User", "")).split("(")[0] or None
    return Job(
        scheduler="slurm", id=number, name=record.get("JobName") or row.get("JobName"), state=state or None, user=user,
        workdir=record.get("WorkDir") or row.get("WorkDir") or None, nodes=tuple(nodes),
        outputs=tuple(_outputs(number, record, row, said[3].data)), running=state in _RUNNING, environment=environment,
        start=_seconds(start), end=_seconds(end) if state not in _RUNNING else None, said=(*said, *more),
    )  # fmt: skip


def _hosts(listed: str) -> list[str]:
    data, _ = answer_of(["scontrol", "show", "hostnames", listed], ASK)
    return data.decode("utf-8", "replace").split()


def _seconds(stamp: str | None) -> float | None:
    """Slurm prints local time of the machine that is asked, which is this one."""
    try:
        return datetime.fromisoformat(stamp or "").timestamp()
    except ValueError:
        return None


def _outputs(number: str, record: dict[str, str], row: dict[str, str], script: bytes) -> list[str]:
    """Files of standard output and error: as Slurm says, else as the options say, else slurm-N.out."""
    named = [record.get("StdOut"), record.get("StdErr"), row.get("StdOut"), row.get("StdErr")]
    words = _options(row.get("SubmitLine", "")) + _options(" ".join(_directives(script)))
    workdir = record.get("WorkDir") or row.get("WorkDir") or ""
    found = [name for name in [*named, *words] if name and name not in ("(null)", "/dev/null")]
    found = found or [f"slurm-{number}.out"]
    return sorted(
        {_filled(name if name.startswith("/") else f"{workdir}/{name}", number, record, row) for name in found}
    )


def _directives(script: bytes) -> list[str]:
    return [line[7:].strip() for line in script.decode("utf-8", "replace").splitlines() if line.startswith("#SBATCH")]


def _options(line: str) -> list[str]:
    found = re.findall(r"(?:^|\s)(?:-[oe]|--output|--error)[=\s]\s*(\S+)", line)
    found += re.findall(r"(?:^|\s)-[oe](?=[^\s=])(\S+)", line)
    return [word.strip("\"'") for word in found]


def _filled(name: str, number: str, record: dict[str, str], row: dict[str, str]) -> str:
    """Slurm's own placeholders filled in; those of nodes and tasks become patterns."""
    known = {"j": number, "A": number.split("_")[0], "x": record.get("JobName") or row.get("JobName") or "*", "%": "%"}
    known |= {"a": number.partition("_")[2] or "*", "u": (record.get("UserId") or row.get("User") or "*").split("(")[0]}
    return re.sub(r"%\d*([A-Za-z%])", lambda match: known.get(match[1], "*"), name)


# ---- the way to the nodes ----


def target(job: Job, node: str, ssh: str) -> Target:
    """A node of a job: a step inside a running job, a job of one node beside an ended one; ssh when Slurm refuses."""
    way = _inside if job.running else _beside
    return Target(
        node=node,
        command=lambda seconds: way(job.id, node, seconds),
        instead=lambda seconds: sshes.command(node, ssh, seconds),
    )


def _common(node: str, seconds: float) -> list[str]:
    return [
        "-N1",
        "-n1",
        "-w",
        node,
        "--unbuffered",
        "--quiet",
        "--mem=0",
        "--chdir=/",
        "sh",
        "-c",
        boot(node, seconds),
    ]


def _inside(number: str, node: str, seconds: float) -> list[str]:
    """--overlap: beside the job's own steps on the same processors, without waiting for them."""
    return ["srun", f"--jobid={number}", "--overlap", "--gres=none", *_common(node, seconds)]


def _beside(number: str, node: str, seconds: float) -> list[str]:
    """--immediate: a node that is taken or down refuses at once, and the next way is tried."""
    minutes = str(max(1, int(seconds // 60) + 1))
    most = str(max(2, min(10, int(seconds / 3))))
    name = f"--job-name=triage-collect-{number}"
    return ["srun", f"--immediate={most}", f"--time={minutes}", "--overcommit", name, *_common(node, seconds)]


def describe(command: list[str]) -> str:
    """A command as one would type it, the shell line left out."""
    return shlex.join([*command[:-1], "..."]) if command[-2:-1] == ["-c"] else shlex.join(command)
