"""From a template and values to files. Each value is a bounded number or a known word before a template sees it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from triage.errors import UsageError
from triage.model.base import Scalar
from triage.repro.evidence import Found
from triage.repro.spec import FOLDER, Param, Template, templates

MOST_LOCAL = 8  # ranks on one machine
FILES = {"repro.py": ".py.j2", "run.sh": "_run.sh.j2", "job.sbatch": "_job.sbatch.j2", "README.md": "_README.md.j2"}


class Row(dict[str, str]):
    """A line of the table of values: name, value, origin (evidence | default), means."""


def build(name: str, cause: str, found: Found) -> dict[str, str]:
    """Texts by file name. Raises UsageError for a name without a template."""
    spec = templates().get(name)
    if spec is None:
        raise UsageError(f"{name}: no such reproduction; there are {', '.join(templates())}")
    ranks = _ranks(spec, found)
    values, rows = _values(spec, found, ranks)
    rows.insert(0, Row(name="ranks", value=str(ranks), origin=_origin(found.ranks), means="processes of the job"))
    context = _context(name, cause, spec, found, ranks) | values | {"values": rows}
    return {file: _render(name + part if part[0] == "." else part, context) for file, part in FILES.items()}


def write(files: dict[str, str], folder: Path, force: bool = False) -> list[Path]:
    """Write them; the scripts are made executable. Raises UsageError when the folder is not empty or not writable."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not force:
            raise UsageError(f"{folder} exists; --force overwrites it")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            path = folder / name
            path.write_text(text, encoding="utf-8")
            path.chmod(0o644 if name.endswith(".md") else 0o755)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or error}") from error
    return [folder / name for name in files]


def _ranks(spec: Template, found: Found) -> int:
    """As many as the job had, as far as one machine starts them; a smaller job shows the same fault."""
    if spec.ranks.default == 1:
        return 1
    wanted = found.ranks or spec.ranks.default
    return max(spec.ranks.least, min(wanted, MOST_LOCAL * spec.nodes))


def _values(spec: Template, found: Found, ranks: int) -> tuple[dict[str, Scalar], list[Row]]:
    values: dict[str, Scalar] = {}
    rows = []
    for name, param in spec.params.items():
        told = _fit(param, found.values.get(name), ranks)
        values[name] = told if told is not None else _fit(param, param.default, ranks)
        moved = param.type == "rank" and told is not None and told != found.values[name]
        origin = f"evidence: rank {found.values[name]} of a larger job" if moved else _origin(told)
        rows.append(Row(name=name, value=str(values[name]), origin=origin, means=param.means))
    if "other" in values and values["other"] == values.get("operation"):
        values["other"] = next(each for each in spec.params["other"].choices if each != values["operation"])
    if "other_numel" in values and values["other_numel"] == values["numel"]:
        values["other_numel"] = 2 * int(str(values["numel"]))
    if "wanted_mib" in values:  # it must not fit into one piece
        values["piece_mib"] = min(int(str(values["piece_mib"])), max(int(str(values["wanted_mib"])) * 2 // 3, 64))
    return values, rows


def _origin(told: Scalar) -> str:
    return "default" if told is None else "evidence"


def _fit(param: Param, value: Scalar, ranks: int) -> Scalar:
    """The value within its bounds, or None when it is none of what the parameter may be."""
    if param.type == "choice":
        return value if value in param.choices else None
    try:
        number = float(str(value)) if value is not None else None
    except ValueError:
        return None
    if number is None:
        return None
    if param.type == "rank":
        return int(number) % ranks
    number = min(max(number, param.least if param.least is not None else number), param.most or number)
    return int(number) if param.type == "int" else round(number, 4)


def _context(name: str, cause: str, spec: Template, found: Found, ranks: int) -> dict[str, Any]:
    nodes = max(spec.nodes, 1)
    per_node = max(ranks // nodes, 1)
    launch = ["torchrun", "--standalone", "--nproc-per-node", str(ranks), "repro.py"]
    if spec.shm_mib is not None:
        mount = f"mount -t tmpfs -o size={spec.shm_mib}m tmpfs /dev/shm && exec python3 repro.py"
        launch = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount]
    elif ranks == 1:
        launch = ["python3", "repro.py"]
    return {
        "template": name, "cause": cause, "title": spec.title, "expect": spec.expect, "stop": spec.stop,
        "risk": f"{spec.risk.level}. {spec.risk.why}", "needs": needs(spec), "shell": shlex.join(launch),
        "about": [f"Expect: {spec.expect}", f"Stop: {spec.stop}", f"Risk: {spec.risk.level}. {spec.risk.why}"],
        "environment": found.environment, "alloc_conf": found.alloc_conf if spec.allocator else None,
        "nodes": nodes, "per_node": per_node, "gpus_per_node": per_node if ranks > 1 else spec.needs.gpus,
        "nodelist": list(found.nodes) if len(found.nodes) >= spec.nodes > 1 else [], "shm": spec.shm_mib is not None,
    }  # fmt: skip


def needs(spec: Template) -> str:
    """What it takes, in words."""
    gpus = f"{spec.needs.gpus} GPU" if spec.needs.gpus else "no GPU (CPU ranks over Gloo show it too)"
    return f"{spec.needs.processes} process{'es' if spec.needs.processes > 1 else ''}, {gpus}" + (
        f", {spec.nodes} nodes" if spec.nodes > 1 else ""
    )


def _render(template: str, context: dict[str, Any]) -> str:
    """The text of a template. Autoescape is off, since nothing is HTML; filters quote for where a value goes."""
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(FOLDER), undefined=StrictUndefined, autoescape=False, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {"py": as_python, "sh": as_shell, "name": as_name, "comment": as_comment, "cell": as_cell}
    return environment.get_template(template).render(context)


def as_python(value: Scalar) -> str:
    """A literal of Python: of a number, a truth value or a plain word."""
    if not isinstance(value, (int, float, str)):
        raise TypeError(f"no literal for {type(value).__name__}")
    return repr(value)


def as_shell(value: object) -> str:
    """One word of a shell command."""
    return shlex.quote(str(value))


def as_name(value: object) -> str:
    """A name of a variable or attribute, nothing else."""
    text = str(value)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,80}", text):
        raise ValueError("no name")
    return text


def as_comment(value: object) -> str:
    """One line of printable text: it cannot leave the comment that it stands in."""
    return "".join(char if char.isprintable() else " " for char in str(value))


def as_cell(value: object) -> str:
    """Text inside a code span in a table."""
    return as_comment(value).replace("|", "\\|").replace("`", "'")


def listed(causes: Sequence[str]) -> list[tuple[str, Template]]:
    """Templates that reproduce one of the causes; all when none is given."""
    return [(name, each) for name, each in templates().items() if not causes or set(causes) & set(each.causes)]
