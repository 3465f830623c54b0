"""Where an answer goes and in which form: shared by the commands that render."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from triage.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from triage.model.pictures import Pictures
    from triage.model.report import Report
    from triage.report.language import Words
    from triage.report.terminal import Style


def form_of(output: str | None, asked: str | None, forms: tuple[str, ...]) -> str:
    """The form that was asked for, else the one of the output's suffix, else the first. Raises UsageError."""
    if asked:
        return asked
    if output is None:
        return forms[0]
    suffix = Path(output).suffix.lower()
    for form in forms:
        if suffix in import_module(f"triage.report.render.{form}").SUFFIXES:
            return form
    raise UsageError(f"{output}: no form has the suffix {suffix or '(none)'!r}; add --format {'|'.join(forms)}")


def refuse_overwrite(output: str | None, force: bool) -> None:
    """Raises UsageError before any work when the output exists."""
    if output and Path(output).exists() and not force:
        raise UsageError(f"{output} exists; --force overwrites it")


def render(
    report: Report,
    form: str,
    verbose: int,
    to_terminal: bool,
    words: Words,
    style: Style | None = None,
    pictures: Pictures | None = None,
) -> str:
    """The report in a form, as wide as the terminal (at most 120 columns; 100 when piped)."""
    module = import_module(f"triage.report.render.{form}")
    if form == "json":
        return str(module.render(report))
    words = words.about(report)
    width = max(60, min(120, shutil.get_terminal_size((100, 24)).columns)) if to_terminal else 100
    if form == "text" and style is not None:
        return str(module.render(report, verbose, width, words, style, pictures))
    return str(module.render(report, verbose, width, words))


def style(paths: list[str]) -> Style:
    """What this terminal can show: colour unless NO_COLOR is set, links into the evidence, charts of blocks."""
    from triage.report.terminal import Style

    dumb = os.environ.get("TERM", "") in {"", "dumb"}
    charts = "utf" in (sys.stdout.encoding or "").lower()
    links = None if dumb or len(paths) != 1 else _links(Path(paths[0]))
    told = {} if "-" in paths else {"evidence": shlex.join(paths)}
    return Style(colour=not dumb and not os.environ.get("NO_COLOR"), link=links, charts=charts, **told)


def _links(root: Path) -> Callable[[str], str | None] | None:
    """URLs of files in a folder, or of the only file; what lies in an archive has none."""
    base = root.resolve()

    def url(file: str) -> str | None:
        if not base.is_dir():  # the file itself, or a member of an archive
            return base.as_uri() if file == base.name else None
        path = base / file
        return path.as_uri() if path.is_file() else None

    return url if base.exists() else None


def deliver(text: str, output: str | None) -> None:
    """To a file, complete or not at all, or to stdout. Raises UsageError when it cannot be written."""
    if output is None:
        click.echo(text, nl=False)
        return
    path = Path(output)
    part = path.with_name(f".{path.name}.partial")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UsageError(f"{output}: {error.strerror or error}") from error
        raise


def stdout_is_terminal() -> bool:
    """Is a person looking?"""
    return sys.stdout.isatty()
