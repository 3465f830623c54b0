"""A real Slurm of four nodes: what it knows of a job, and the way to the nodes of a running and of an ended one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from services import slurm as service
from transport.collected import HANGING, QUICK, Bundle, collect, explained, fault

from triage.transport import slurm

pytestmark = pytest.mark.skipif(service.missing() is not None, reason=str(service.missing()))

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPT = """\
#!/bin/bash
#SBATCH -J train -N 4 --ntasks-per-node=1 --time=5 -o out-%j.log
export NCCL_DEBUG=INFO
srun -l bash -c 'export MASTER_ADDR=node001; echo "rank $SLURM_PROCID on $SLURMD_NODENAME"; exec sleep {seconds}'
exit 1
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[service.Lab]:
    with service.running(tmp_path_factory.mktemp("slurm")) as found:
        yield found


def submit(lab: service.Lab, folder: Path, seconds: int) -> str:
    (folder / "job.sh").write_text(SCRIPT.format(seconds=seconds))
    return lab.run("sbatch", "--parsable", f"--chdir={folder}", str(folder / "job.sh"))


def wait_for(lab: service.Lab, number: str, state: str) -> None:
    for _ in range(150):
        if lab.run("sacct", "-n", "-X", "-j", number, "-o", "State").strip().startswith(state):
            return
        time.sleep(0.2)
    raise AssertionError(lab.run("scontrol", "show", "job", number))


def test_a_running_job(tmp_path: Path, lab: service.Lab) -> None:
    number = submit(lab, tmp_path, 60)
    wait_for(lab, number, "RUNNING")
    time.sleep(1)
    code, out, errors = collect(
        tmp_path, "--job", number, "--only", f"{QUICK},environment", "--timeout", "15", environment=lab.environment
    )
    lab.run("scancel", number)
    assert code == 0, out + errors
    bundle = Bundle(tmp_path / "b.tar.zst")
    assert {node for node, _ in bundle.rows if node} == set(service.NODES)
    assert bundle.manifest["job"] == number
    assert bundle.manifest["scheduler"].items() >= {"name": "train", "state": "RUNNING"}.items()
    assert b"JobState=RUNNING" in bundle.files["job/scontrol/job.txt"]
    assert b"rank 3 on node004" in bundle.files[f"job/stdout/out-{number}.log"]
    ranks = [path for path in bundle.files if "/environment/rank" in path]
    # The nodes of this Slurm share one machine: reached past srun, each sees the ranks of all.
    assert {path.split("/")[1] for path in ranks} == set(service.NODES)
    assert {path.split("/")[-1].split(".")[0] for path in ranks} == {"rank0", "rank1", "rank2", "rank3"}
    assert b"MASTER_ADDR=node001" in bundle.files[ranks[0]]
    wait_for(lab, number, "CANCELLED")


@pytest.mark.long
def test_examples_after_a_failure(tmp_path: Path, lab: service.Lab) -> None:
    """The epilog collects by itself; the job that depends on the failed one explains it in its output."""
    program = tmp_path / "triage"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m triage "$@"\n')
    program.chmod(0o755)
    environment = dict(lab.environment, TRIAGE_PROGRAM=str(program), TRIAGE_BUNDLES=str(tmp_path / "bundles"))
    environment |= {"TRIAGE_TIMEOUT": "10", "TRIAGE_COLLECT_ONLY": "proc_stat"}
    number = submit(lab, tmp_path, 0)
    line = f"--dependency=afternotok:{number}", f"--export=ALL,FAILED_JOB={number}", f"--chdir={tmp_path}"
    done = subprocess.run(
        ["sbatch", "--parsable", *line, str(EXAMPLES / "afternotok.sbatch")],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    wait_for(lab, number, "FAILED")
    for code, made in (("0:0", False), ("1:0", True)):
        variables = environment | {"SLURM_JOB_ID": number, "SLURM_JOB_EXIT_CODE2": code}
        subprocess.run([str(EXAMPLES / "slurm_epilog.sh")], env=variables, check=True, timeout=5)
        assert (tmp_path / "bundles").exists() is made
    wait_for(lab, done.stdout.strip(), "COMPLETED")
    said = (tmp_path / f"triage-{done.stdout.strip()}.out").read_text()
    assert f"next: triage explain triage-job{number}.tar.zst" in said
    assert "nconclusive" in said or "uspected" in said or "iagnosed" in said
    for _ in range(100):
        if list((tmp_path / "bundles").glob("*.tar.zst")):
            break
        time.sleep(0.2)
    (bundle,) = (tmp_path / "bundles").glob("*.tar.zst")
    assert Bundle(bundle).manifest["job"] == number


@pytest.mark.long
def test_an_ended_job_with_a_sick_cluster(tmp_path: Path, lab: service.Lab) -> None:
    """One node hangs in a collector, one refuses, one is down; the fault is on the one that hangs."""
    number = submit(lab, tmp_path, 0)
    wait_for(lab, number, "FAILED")
    (tmp_path / "content" / "collectors").mkdir(parents=True)
    (tmp_path / "content" / "collectors" / "site_hangs.py").write_text(HANGING.replace("{node}", "node002"))
    for node in service.NODES:
        (tmp_path / "logs" / node).mkdir(parents=True)
        (tmp_path / "logs" / node / "kern.log").write_text(
            fault() if node == "node002" else fault().splitlines()[0] + "\n"
        )
    lab.run("scontrol", "update", "NodeName=node003", "State=DRAIN", "Reason=test")
    lab.stop("node004")
    lab.run("scontrol", "update", "NodeName=node004", "State=DOWN", "Reason=test")
    started = time.monotonic()
    code, _, errors = collect(
        tmp_path, "--job", f"slurm:{number}", "--only", f"{QUICK},site_hangs", "--skip", "kernel_log",
        "--timeout", "15", "--include", f"{tmp_path}/logs/{{node}}/*.log",
        environment=dict(lab.environment, TRIAGE_CONTENT=str(tmp_path / "content")),
    )  # fmt: skip
    assert time.monotonic() - started < 20
    assert code == 6, errors
    bundle = Bundle(tmp_path / "b.tar.zst")
    assert bundle.row("node001", "proc_stat")["bytes"]
    assert not [row for (node, _), row in bundle.rows.items() if node == "node001" and row.get("timed_out")]
    assert bundle.row("node002", "site_hangs")["timed_out"]
    assert "nodes/node002/job_logs/kern.log" in bundle.files
    for node in ("node003", "node004"):
        assert bundle.row(node)["ran"] is False
        assert bundle.row(node).keys() & {"failed", "denied", "timed_out"}
    report = explained(tmp_path)
    first = report["hypotheses"][0]
    assert (first["cause"], first["culprits"][0]["node"]) == ("gpu/fallen-off-bus", "node002")
    assert {gap["node"] for gap in report["gaps"] if gap["what"] == "the whole node"} == {"node003", "node004"}


def test_an_unknown_job(tmp_path: Path, lab: service.Lab) -> None:
    code, _, errors = collect(tmp_path, "--job", "99999", environment=lab.environment)
    assert code == 2
    assert "99999" in errors
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("sbatch -o a.out -e b.err job.sh", ["a.out", "b.err"]),
        ("sbatch --output=logs/%x-%j.out --error logs/%j.err job.sh", ["logs/%x-%j.out", "logs/%j.err"]),
        ("sbatch -ofoo.out job.sh", ["foo.out"]),
        ("sbatch job.sh", []),
    ],
)
def test_outputs_of_a_command_line(line: str, names: list[str]) -> None:
    assert sorted(slurm._options(line)) == sorted(names)
