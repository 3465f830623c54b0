"""Write a script that provokes a fault again"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from triage.errors import UsageError

if TYPE_CHECKING:
    from triage.repro.evidence import Found


@click.command()
@click.argument("paths", nargs=-1, metavar="[BUNDLE]...")
@click.option("--cause", metavar="ID", help="Reproduce this cause (with BUNDLE: its values, this cause).")
@click.option("--template", metavar="NAME", help="This reproduction, whatever the cause.")
@click.option("-o", "--output", metavar="DIR", help="Where to write repro.py, run.sh, job.sbatch and README.md.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--force", is_flag=True, help="Write into a folder that is not empty.")
@click.option("--list", "listing", is_flag=True, help="List the reproductions and what they need.")
def command(
    paths: tuple[str, ...], cause: str | None, template: str | None, output: str | None, dry_run: bool, force: bool,
    listing: bool,
) -> None:  # fmt: skip
    """Turn the first hypothesis about BUNDLE, or a cause by its id, into a script that provokes the same fault.

    Ranks, collective, sizes, types, allocator settings and variables are those of the evidence where it has them. The
    README beside the script says what to expect, when to stop and what it risks. Nothing is run, and no text of the
    evidence is executed.

    \b
    Examples:
      triage repro triage-job1234.tar.zst -o repro/
      triage repro --cause memory/gpu-fragmentation -o repro/ && bash repro/run.sh
    """
    from triage.repro import building

    if listing:
        _list()
        return
    cause, found, named = _wanted(list(paths), cause, template)
    files = building.build(template or _template(cause, found, named), cause, found)
    if dry_run:
        for name, text in files.items():
            click.echo(f"=== {name}\n{text}")
        return
    if not output:
        raise UsageError("say where to write with -o DIR, or look first with --dry-run")
    for path in building.write(files, Path(output), force):
        click.echo(str(path))


def _list() -> None:
    from triage.repro import building, spec

    for name, each in spec.templates().items():
        click.echo(f"{name:<22} {each.title}. Needs {building.needs(each)}. For {', '.join(each.causes)}")


def _wanted(paths: list[str], cause: str | None, template: str | None) -> tuple[str, Found, str | None]:
    from triage.repro import spec
    from triage.repro.evidence import Found

    if paths:
        return _from_evidence(paths, cause)
    if template and not cause:
        each = spec.templates().get(template)
        return (each.causes[0] if each else template), Found(), None
    if not cause:
        raise UsageError("give a bundle, --cause ID or --template NAME (triage repro --list)")
    return cause, Found(), None


def _from_evidence(paths: list[str], cause: str | None) -> tuple[str, Found, str | None]:
    """The cause asked for, else that of the first hypothesis, with the values of the evidence.

    Third: the reproduction that the playbook names.
    """
    from triage.bundle.opening import open_evidence
    from triage.parsers import recognise
    from triage.pipeline import reason, understand
    from triage.repro import evidence

    with open_evidence(paths, recognise=recognise) as opened:
        incident = understand(opened)
    report = reason(incident)
    fitting = [each for each in report.hypotheses if cause in (None, each.cause)]
    if not fitting:
        told = ", ".join(each.cause for each in report.hypotheses) or "no hypothesis"
        raise UsageError(f"{paths[0]}: {told}; --cause ID alone makes a script with default values")
    return fitting[0].cause, evidence.found(incident, fitting[0]), fitting[0].repro


def _template(cause: str, found: Found, named: str | None) -> str:
    from triage import content
    from triage.reasoning import loading
    from triage.repro import spec

    known = list(loading.causes())
    if cause not in known:
        raise UsageError(f"{cause}: no such cause{content.nearest(cause, known)}")
    name = named or spec.of_cause(cause, found.kind)
    if name is None:
        raise UsageError(f"{cause}: no reproduction, since {spec.why_not(cause)}")
    return name
