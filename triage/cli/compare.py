"""Compare two runs, or see how runs of several sizes scale"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from triage.errors import UsageError

if TYPE_CHECKING:
    from triage.comparing.runs import Run
    from triage.model.comparison import Comparison

FORMS = ("text", "json")
WORSE, NOT_COMPARABLE = 21, 22


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="BEFORE AFTER")
@click.option(
    "--fail-over", metavar="PERCENT", help="Exit 21 when AFTER is worse by more than this, or has a new fault."
)
@click.option(
    "--watch-for",
    type=click.Choice(["worse", "better"]),
    default="worse",
    show_default=True,
    help="Where a small change shall be seen sooner.",
)
@click.option("--scaling", is_flag=True, help="Runs of several sizes: speed-up and efficiency against linear.")
@click.option("--mode", type=click.Choice(["weak", "strong"]), help="With --scaling (default: by the batch size told).")
@click.option("--format", "form", type=click.Choice(FORMS), default="text", help="Form of the answer.")
@click.option("-o", "--output", metavar="FILE", help="Write the answer there.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def command(
    paths: tuple[str, ...],
    fail_over: str | None,
    watch_for: str,
    scaling: bool,
    mode: str | None,
    form: str,
    output: str | None,
    force: bool,
    quiet: bool,
) -> int:
    """Compare BEFORE with AFTER: bundles, recordings, logs with step times, or profiler traces.

    Says what changed between them, what moved with a 95 % interval, and the verdict: fixed, better, no difference,
    worse or not comparable (exit code 22).

    \b
    Examples:
      triage compare before.tar.zst after.tar.zst
      triage compare recording-old/ recording-new/ --fail-over 5%
      triage compare --scaling run8/ run16/ run32/
    """
    from triage.cli import _output

    limit = _percent(fail_over)
    _output.refuse_overwrite(output, force)
    if scaling:
        _output.deliver(_scaled(paths, mode, form, quiet), output)
        return 0
    if len(paths) != 2 or mode:
        raise UsageError("compare takes BEFORE and AFTER; for runs of several sizes (and --mode) add --scaling")
    told = _compared(paths, watch_for, quiet)
    from triage.comparing import listing

    _output.deliver(_json(told) if form == "json" else listing.comparison(told), output)
    return _code(told, limit)


def _percent(text: str | None) -> float | None:
    try:
        value = None if text is None else float(text.strip().removesuffix("%")) / 100
    except ValueError as error:
        raise UsageError(f"--fail-over {text}: a percentage, as in 5%") from error
    if value is not None and not 0 <= value < 1000:
        raise UsageError(f"--fail-over {text}: a percentage of 0 or more")
    return value


def _compared(paths: tuple[str, ...], watch_for: str, quiet: bool) -> Comparison:
    from triage.comparing.verdicts import compare

    return compare(_run(paths[0], quiet), _run(paths[1], quiet), watch_for)


def _scaled(paths: tuple[str, ...], mode: str | None, form: str, quiet: bool) -> str:
    from triage.comparing import listing
    from triage.comparing.scaling import scaling

    if len(paths) < 2:
        raise UsageError("--scaling takes two runs or more, of different sizes")
    told = scaling([_run(path, quiet) for path in paths], mode)  # type: ignore[arg-type]
    return _json(told) if form == "json" else listing.scaling(told)


def _run(path: str, quiet: bool) -> Run:
    from triage.bundle.opening import open_evidence
    from triage.comparing import runs, settings
    from triage.parsers import recognise
    from triage.pipeline import reason, understand

    if not quiet and sys.stderr.isatty():
        click.echo(f"reading {path} …", err=True)
    with open_evidence([path], recognise=recognise) as evidence:
        incident = understand(evidence)
        found, told = settings.gather(evidence, incident)
        name = "<stdin>" if path == "-" else Path(path).name or path
        return runs.run(name, incident, reason(incident), found, told)


def _json(told: object) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(told), indent=1).decode() + "\n"


def _code(told: Comparison, limit: float | None) -> int:
    """21 for a fault that is new, and for a change that is real and larger than allowed."""
    if told.result == "not comparable":
        return NOT_COMPARABLE
    if limit is None or told.result not in {"worse", "fixed"}:
        return 0
    if any(cause not in told.causes_before for cause in told.causes_after):
        return WORSE
    slower = [
        (move.ratio if move.name.startswith("step time") else 1 / move.ratio) - 1
        for move in told.moved
        if move.result == "worse" and move.ratio and move.name.startswith(("step time", "throughput"))
    ]
    return WORSE if any(change > limit for change in slower) else 0
