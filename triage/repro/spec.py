"""What stands beside a template: the causes it reproduces, its values and their bounds, what to expect and to risk."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from triage import content
from triage.errors import ContentError
from triage.model.base import Spec
from triage.vocabulary import Risk

FOLDER = Path(__file__).with_name("templates")


class Param(Spec, frozen=True, kw_only=True):
    """A value of the script. Whatever evidence says ends within `least` and `most`, or is one of `choices`.

    type: rank is an int below the number of ranks.
    """

    type: Literal["int", "float", "rank", "choice"]
    default: str
    means: str
    least: float | None = None
    most: float | None = None
    choices: list[str] = []


class Ranks(Spec, frozen=True, kw_only=True):
    """How many processes it starts without evidence, and at least."""

    default: int
    least: int


class Danger(Spec, frozen=True, kw_only=True):
    """What running it risks."""

    level: Risk
    why: str


class Needs(Spec, frozen=True, kw_only=True):
    """What it takes at least; with `gpus: 0` CPU ranks do, and GPUs are used where there are enough."""

    processes: int
    gpus: int


class Template(Spec, frozen=True, kw_only=True):
    """One reproduction: `<name>.py.j2` with `<name>.yaml` beside it.

    kinds: of templates for one cause, the words of the evidence (see evidence.kind) that choose this one.
    allocator: the failed job's allocator settings are part of it. shm_mib: it runs with a /dev/shm of its own so large.
    """

    title: str
    causes: list[str]
    ranks: Ranks
    params: dict[str, Param]
    expect: str
    stop: str
    risk: Danger
    needs: Needs
    kinds: list[str] = []
    nodes: int = 1
    allocator: bool = False
    shm_mib: int | None = None


class Reason(Spec, frozen=True, kw_only=True):
    """Why no cause of an area has a reproduction unless a template names it."""

    area: str
    why: str


class Reasons(Spec, frozen=True, kw_only=True):
    """The file of all reasons."""

    reasons: list[Reason]


@cache
def templates() -> dict[str, Template]:
    """All reproductions by name. Raises ContentError when a file is at fault."""
    found, faults = {}, []
    for path in sorted(FOLDER.glob("[!_]*.yaml")):
        marked = content.read(path)
        record = content.convert(marked, Template) if not marked.faults else None
        faults += marked.faults
        if record is not None:
            found[path.stem] = record
    if faults:
        raise ContentError(faults)
    return found


def of_cause(cause: str, kind: str | None = None) -> str | None:
    """Name of the reproduction of a cause; of several the one for `kind`, else the first by name. None: none."""
    fitting = {name: each for name, each in templates().items() if cause in each.causes}
    chosen = [name for name, each in fitting.items() if kind in each.kinds]
    return next(iter([*chosen, *fitting]), None)


@cache
def why_not(cause: str) -> str:
    """Why a cause has no reproduction."""
    reasons = content.load(FOLDER / "_never.yaml", Reasons).reasons
    return next((each.why for each in reasons if each.area == cause.split("/")[0]), "no template names it")


def names(path: Path) -> list[str]:
    """The names that a template file uses, for tests."""
    from jinja2 import Environment, meta

    tree = Environment(autoescape=False).parse(path.read_text(encoding="utf-8"))  # noqa: S701 - parsed, not rendered
    return sorted(meta.find_undeclared_variables(tree))
