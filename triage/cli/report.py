"""Write a post-mortem: one page, Markdown or JSON"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from triage.errors import UsageError

if TYPE_CHECKING:
    from triage.model.pictures import Pictures
    from triage.model.report import Report

FORMS = ("html", "md", "json")
SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", help="Where to write it; the suffix decides the form.")
@click.option("--format", "form", type=click.Choice(FORMS), help="Form (default: by -o's suffix, else md).")
@click.option("--force", is_flag=True, help="Overwrite the output.")
@click.option("--template", metavar="FILE", help="Your own Jinja template (sandboxed) for html or md.")
@click.option("--lang", envvar="TRIAGE_LANG", metavar="TAG", help="Language of the report: en or zh.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def command(
    paths: tuple[str, ...],
    output: str | None,
    form: str | None,
    force: bool,
    template: str | None,
    lang: str | None,
    quiet: bool,
) -> None:
    """Write a draft of a post-mortem of the incident in PATHS: what happened, what it cost, why, and what to do.

    Every sentence names the file and line that it rests on. The page is one file that loads nothing from anywhere.

    \b
    Examples:
      triage report triage-job1234.tar.zst -o postmortem.html
      triage report logs/ -o postmortem.md --lang zh
      triage report logs/ -o ticket.md --template our-form.md.j2
    """
    from triage.cli import _output
    from triage.report.language import words

    form = form or _form(output)
    _output.refuse_overwrite(output, force)
    _fits(template, form)
    language = words(lang)
    report, pictures = _understood(list(paths), quiet)
    _output.deliver(_rendered(report, pictures, form, template, language), output)
    if output and not quiet and sys.stderr.isatty():
        click.echo(f"wrote {output}", err=True)


def _form(output: str | None) -> str:
    if output is None:
        return "md"
    suffix = Path(output).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"{output}: no form has the suffix {suffix or '(none)'!r}; add --format {'|'.join(FORMS)}")
    return SUFFIXES[suffix]


def _fits(template: str | None, form: str) -> None:
    if template and form == "json":
        raise UsageError("--template is for html and md; JSON is a fixed contract (triage schema report)")
    if template and not Path(template).is_file():
        raise UsageError(f"{template}: no such template")


def _understood(paths: list[str], quiet: bool) -> tuple[Report, Pictures]:
    from triage.pipeline import illustrate

    if not quiet and sys.stderr.isatty():
        click.echo(f"reading {', '.join(paths)} …", err=True)
    return illustrate(paths)


def _rendered(report: Report, pictures: Pictures, form: str, template: str | None, words: object) -> str:
    from triage.report.documents import document

    return document(report, pictures, form, words, Path(template) if template else None)  # type: ignore[arg-type]
