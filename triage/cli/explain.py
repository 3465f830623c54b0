"""Explain what went wrong, from a log, a folder, a bundle or standard input."""

from __future__ import annotations

import click


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--format", "form", default="text", help="text, json or md.")
@click.option("-v", "--verbose", count=True, help="Tell why.")
def command(paths: tuple[str, ...], form: str, verbose: int) -> None:
    """Explain the incident whose evidence lies in PATHS.

    Example: triage explain slurm-1234.out
    """
    del verbose
    from importlib import import_module

    from triage.pipeline import explain

    report = explain(paths)
    click.echo(import_module(f"triage.report.render.{form}").render(report), nl=False)
