"""Explain what went wrong, from a log, a folder, a bundle or standard input."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import click

from triage.cli import _history
from triage.errors import UsageError

if TYPE_CHECKING:
    from triage.model.pictures import Pictures
    from triage.model.report import Report

FORMS = ("text", "json", "md")
EXIT_CODES = {"healthy": 0, "diagnosed": 10, "suspected": 11, "inconclusive": 12}


@click.command()
@click.argument("paths", nargs=-1)
@click.option(
    "--format", "form", type=click.Choice(FORMS), help="Form of the answer (default: text, or by -o's suffix)."
)
@click.option("-o", "--output", metavar="FILE", help="Write the answer there instead of to the terminal.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
@click.option("--exit-code", is_flag=True, help="Exit 0 healthy, 10 diagnosed, 11 suspected, 12 inconclusive.")
@click.option(
    "--demo", is_flag=False, flag_value="", metavar="[NAME]", help="Explain a shipped incident; `list` names them."
)
@click.option("-v", "--verbose", count=True, help="Tell why: the time line, the path taken, what was demoted.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
@click.option("--lang", envvar="TRIAGE_LANG", metavar="TAG", help="Language of the answer: en or zh.")
@click.option(
    "--engine", envvar="TRIAGE_ENGINE", default="local", metavar="ENGINE",
    help="Who scans: local, or dask://HOST:PORT, a cluster that has the files at the same paths.",
)  # fmt: skip
@click.option("--no-history", is_flag=True, help="Do not keep this incident for `triage history`.")
@_history.OPTION
def command(
    paths: tuple[str, ...],
    form: str | None,
    output: str | None,
    force: bool,
    exit_code: bool,
    demo: str | None,
    verbose: int,
    quiet: bool,
    lang: str | None,
    engine: str,
    no_history: bool,
    place: str | None,
) -> int:
    """Explain the incident whose evidence lies in PATHS: logs, folders, archives, or `-` for standard input.

    \b
    Examples:
      triage explain slurm-1234.out
      triage explain logs/ --format json
      kubectl logs trainer-0 | triage explain -
      triage explain --demo
    """
    from triage.cli import _names, _output
    from triage.report.language import words

    if demo == "list":
        click.echo("\n".join(demos()))
        return 0
    if not paths and demo is None:
        paths = _given(quiet)
    _history.check(place)
    _output.refuse_overwrite(output, force)
    form = _output.form_of(output, form, FORMS)
    language, terminal = words(lang), output is None and _output.stdout_is_terminal()
    told = [demo_path(demo)] if demo is not None else list(paths)
    kept = demo is None and not no_history
    report, pictures = _explain(told, quiet, engine, terminal or kept)
    style = _output.style(told) if terminal else None
    text = _output.render(report, form, verbose, terminal, language, style, pictures)
    _output.deliver(_names.shown(text, told) if form == "text" and output is None else text, output)
    if kept and pictures is not None:
        _history.keep(report, pictures, quiet, verbose, place)
    return EXIT_CODES[report.verdict] if exit_code else 0


def _given(quiet: bool) -> tuple[str, ...]:
    """Standard input when a file or a pipe was put there (`triage explain < file`). Raises UsageError."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # closed, or none that the system knows
        mode = 0
    if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
        raise UsageError("nothing to explain: name a log, a folder or an archive, `-` for standard input, or --demo")
    if stat.S_ISFIFO(mode) and not quiet:  # it may never end
        click.echo("triage: reading standard input", err=True)
    return ("-",)


def _explain(paths: list[str], quiet: bool, engine: str, drawn: bool) -> tuple[Report, Pictures | None]:
    """The report, with what is drawn of it where somebody looks or it is kept: of many ranks it takes time."""
    from triage.engines import engine as found
    from triage.pipeline import explain, illustrate

    who = found(engine)
    silent = quiet or not sys.stderr.isatty() or os.environ.get("TERM", "") in {"", "dumb"}
    if not silent:
        click.echo(f"reading {', '.join(paths)} …", err=True, nl=False)
    try:
        return illustrate(paths, contexts=False, engine=who) if drawn else (explain(paths, who), None)
    finally:
        if not silent:
            click.echo("\r\x1b[K", err=True, nl=False)


def demos() -> list[str]:
    """Names of the incidents in the package."""
    from triage import content

    return sorted(path.name for path in content.data("demo").iterdir() if path.is_dir())


def demo_path(name: str) -> str:
    """Folder of a shipped incident; without a name the first. Raises UsageError."""
    from triage import content

    known = demos()
    if name and name not in known:
        raise UsageError(f"no demo {name!r}{content.nearest(name, known)}; there are: {', '.join(known)}")
    return str(content.data("demo") / (name or known[0]))
