"""Run a training job so that its failure can be explained"""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("job", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.option("-o", "--output", metavar="DIR", help="Where to record (default: $TRIAGE_RECORD_DIR, else "
              "triage-record-<job id or time>).")  # fmt: skip
@click.option("--on-failure", type=click.Choice(("explain", "collect", "none")), default="explain", show_default=True,
              help="What to do when the job fails: collect and explain, collect alone, or nothing.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show what would be set in the job's environment, and stop.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing beside the job's own output.")
def command(job: tuple[str, ...], output: str | None, on_failure: str, dry_run: bool, quiet: bool) -> None:
    """Run CMD with everything on that makes it diagnosable, without a change to its code.

    Each rank writes its step times (steps.rank<R>.jsonl); NCCL, the flight recorder and, when memory runs out, the
    allocator write beside them. Variables that you set stay as you set them. The exit code is the job's.

    \b
    Examples:
      triage record -- torchrun --nproc-per-node 8 train.py
      srun triage record -o /shared/rec-$SLURM_JOB_ID -- torchrun ... train.py
    """
    import os

    from triage.recorder import launch

    folder = Path(output or os.environ.get("TRIAGE_RECORD_DIR") or launch.default_folder())
    if dry_run:
        for name, value in sorted(launch.additions(folder.resolve(), os.environ).items()):
            click.echo(f"{name}={value}")
        return
    code = launch.run(job, folder, sys.stdout.buffer, sys.stderr.buffer)
    if not quiet:
        click.echo(f"triage: recorded in {folder}", err=True)
    if code and on_failure != "none":
        _after_failure(folder, explain=on_failure == "explain")
    sys.exit(code)


def _after_failure(folder: Path, explain: bool) -> None:
    """Collect this node beside the recording, and explain what there is. No trouble here changes the exit code."""
    from triage.errors import TriageError
    from triage.recorder import launch

    bundle = folder.with_name(folder.name + ".tar.zst")
    trouble = launch.collect(folder, bundle)
    if trouble:
        click.echo(f"triage: nothing collected beside the recording ({trouble})", err=True)
    else:
        click.echo(f"triage: collected {bundle}", err=True)
    if explain:
        try:
            _explain(str(folder if trouble else bundle))
        except TriageError as error:
            click.echo(f"triage: {error}", err=True)


def _explain(path: str) -> None:
    from triage.cli import _output
    from triage.pipeline import explain
    from triage.report.language import words

    click.echo(_output.render(explain([path]), "text", 0, sys.stderr.isatty(), words(None)), err=True, nl=False)
