"""Every template: complete, bounded, runnable text, and nothing of the evidence in it that could run."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from triage.cli.repro import command
from triage.content import root
from triage.errors import UsageError
from triage.reasoning.loading import causes
from triage.repro.building import as_comment, as_name, as_python, build, write
from triage.repro.evidence import Found
from triage.repro.spec import FOLDER, of_cause, templates, why_not

NAMES = sorted(templates())
HOSTILE = "x'\"; rm -rf ~ #\n`id` $(id) {{ 7 * 7 }} {% raw %} \\ \x1b[31m"
WANTED = [  # the faults that must have one
    "rank-stalled",
    "missing-call",
    "other-operation",
    "other-size",
    "order-inversion",
    "dead-rank",
    "slow-gpu",
    "slow-host",
    "slow-data",
    "imbalance",
    "oom-capacity",
    "oom-spike",
    "oom-leak",
    "oom-shared",
    "oom-one-rank",
    "fragmentation",
    "device-assert",
    "illegal-access",
    "loader-worker-death",
    "shared-memory",
    "pairwise-bandwidth",
]


def test_all_are_there() -> None:
    assert set(WANTED) <= set(NAMES)
    assert {path.name.split(".")[0] for path in FOLDER.glob("[!_]*.py.j2")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_default_values_give_scripts_that_parse(name: str, tmp_path: Path) -> None:
    files = build(name, templates()[name].causes[0], Found())
    ast.parse(files["repro.py"])
    assert set(files) == {"repro.py", "run.sh", "job.sbatch", "README.md"}
    for script in ("run.sh", "job.sbatch"):
        (tmp_path / script).write_text(files[script])
        subprocess.run(["bash", "-n", script], cwd=tmp_path, check=True)
    for text in (templates()[name].expect, templates()[name].stop, templates()[name].risk.why):
        assert text in files["README.md"]


@pytest.mark.parametrize("name", NAMES)
def test_texts_as_values_end_as_defaults(name: str) -> None:
    hostile = dict.fromkeys(templates()[name].params, HOSTILE)
    values = build(name, templates()[name].causes[0], Found(values=hostile))  # type: ignore[arg-type]
    assert values == build(name, templates()[name].causes[0], Found())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [10**18, -5, float("1e300"), 0])
def test_numbers_stay_in_bounds(name: str, value: float) -> None:
    spec = templates()[name]
    text = build(name, spec.causes[0], Found(values=dict.fromkeys(spec.params, value), ranks=10**9))["repro.py"]
    ast.parse(text)
    assigned = {
        node.targets[0].id: node.value.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    for key, param in spec.params.items():
        told = assigned.get(key.upper())
        if isinstance(told, (int, float)) and param.most is not None and param.least is not None and told != value:
            assert param.least * 0.5 <= told <= 2 * param.most


def test_a_hostile_environment_is_quoted(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    found = Found(
        environment={"NCCL_ALGO": f"Ring'; touch {marker}; '$(touch {marker})"}, alloc_conf=f"a:1; touch {marker}"
    )
    files = build("fragmentation", "memory/gpu-fragmentation", found)
    (tmp_path / "run.sh").write_text(files["run.sh"].replace("exec python3 repro.py", "env"))
    done = subprocess.run(["bash", "run.sh"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"NCCL_ALGO=Ring'; touch {marker}; '$(touch {marker})" in done.stdout
    assert not marker.exists()


def test_filters_refuse_what_they_cannot_quote() -> None:
    assert "\n" not in as_comment(HOSTILE) and "\x1b" not in as_comment(HOSTILE)
    assert ast.literal_eval(as_python(HOSTILE)) == HOSTILE
    with pytest.raises(ValueError, match="no name"):
        as_name("float32; import os")
    with pytest.raises(TypeError):
        as_python(["a"])  # type: ignore[arg-type]


def test_every_cause_is_known_and_each_without_a_template_says_why() -> None:
    known = causes()
    assert {cause for each in templates().values() for cause in each.causes} <= set(known)
    for cause in known:
        assert of_cause(cause) or why_not(cause) != "no template names it"


def test_of_several_the_evidence_chooses() -> None:
    kinds = {kind: of_cause("collective/mismatch", kind) for kind in (None, "operation", "size", "order-inversion")}
    assert kinds == {None: "missing-call", "operation": "other-operation", "size": "other-size",
                     "order-inversion": "order-inversion"}  # fmt: skip


@pytest.mark.parametrize("path", sorted(root().glob("playbooks/*.yaml")), ids=lambda path: path.stem)
def test_playbooks_name_templates(path: Path) -> None:
    leaves = yaml.safe_load(path.read_text())["leaves"].values()
    assert {leaf["repro"] for leaf in leaves if leaf.get("repro")} <= set(NAMES)


def test_a_rank_of_a_larger_job_is_told() -> None:
    text = build("slow-gpu", "gpu/slow", Found(values={"culprit": 30}, ranks=64))
    assert "CULPRIT = 6 " in text["repro.py"]
    assert "rank 30 of a larger job" in text["README.md"]


def test_the_other_call_differs() -> None:
    text = build(
        "other-operation", "collective/mismatch", Found(values={"operation": "all_reduce", "other": "all_reduce"})
    )
    assert "OTHER = 'broadcast'" in text["repro.py"] or "OTHER = 'reduce'" in text["repro.py"]


def test_a_folder_in_use_is_kept(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(UsageError, match="--force"):
        write({"repro.py": ""}, tmp_path)
    assert (write({"repro.py": "#"}, tmp_path, force=True)[0].stat().st_mode & 0o777) == 0o755


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--list"], 0, "order-inversion"),
        (["--cause", "memory/gpu-leak", "--dry-run"], 0, "=== job.sbatch"),
        (["--template", "slow-gpu", "--dry-run"], 0, "performance/straggler"),
    ],
)
def test_command(arguments: list[str], code: int, text: str) -> None:
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == code and text in done.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--cause", "memory/gpu-leek"], "did you mean memory/gpu-leak"),
        (["--cause", "gpu/fallen-off-bus"], "cannot be provoked without risk"),
        (["--template", "nothing", "--dry-run"], "no such reproduction"),
        ([], "--cause ID"),
        (["--cause", "memory/gpu-leak"], "-o DIR"),
    ],
)
def test_what_is_refused(arguments: list[str], text: str) -> None:
    done = CliRunner().invoke(command, arguments)
    assert isinstance(done.exception, UsageError) and text in str(done.exception)
