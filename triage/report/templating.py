"""Jinja for reports: sandboxed, and escaping everything that a template does not mark as made by us."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from triage.errors import ContentError
from triage.report import wording
from triage.report.clean import clean, indented
from triage.report.language import Words

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

Form = Literal["html", "md"]
OWN = Path(__file__).with_name("templates")
_OWN_FAULTS = (  # of what a template does when it runs
    TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError, MemoryError,
)  # fmt: skip
_SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]<>|#~"})


class Plain(str):
    """Markdown that we made ourselves: it is not escaped again."""

    __slots__ = ()


class Tidy(str):
    """Text that is clean already and keeps its blanks; it is still escaped."""

    __slots__ = ()


class Made(str):
    """HTML that we made ourselves, its texts escaped: it is not escaped again."""

    __slots__ = ()

    def __html__(self) -> str:
        """What autoescape takes."""
        return str(self)


def escape_md(text: str) -> Plain:
    """Text of the evidence as plain Markdown text."""
    return Plain(clean(text).translate(_SPECIAL))


def code_md(text: str) -> Plain:
    """Text of the evidence as a code span, which nothing can leave."""
    return Plain("`" + clean(text).replace("`", "'") + "`")


def made_md(text: str) -> Plain:
    """What a macro gave: its parts are escaped already."""
    return Plain(text)


def render(template: Path, form: Form, words: Words, **values: Any) -> str:
    """A template of ours, or a team's own, filled in.

    Raises ContentError (file:line) for a template that is wrong or asks for what the sandbox forbids.
    """
    import jinja2

    environment = _environment(template.parent, form, words)
    try:
        return environment.get_template(template.name).render(**values)
    except jinja2.TemplateSyntaxError as error:
        raise ContentError([f"{error.filename or template}:{error.lineno}: {error.message}"]) from error
    except (jinja2.TemplateError, *_OWN_FAULTS) as error:
        raise ContentError(
            [f"{template}:{_line(error, template)}: {clean(str(error)) or type(error).__name__}"]
        ) from error


def _line(error: BaseException, template: Path) -> int:
    """The line of the template where it failed, as Jinja's rewritten traceback tells it."""
    line, trace = 1, error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).name == template.name:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _environment(folder: Path, form: Form, words: Words) -> ImmutableSandboxedEnvironment:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        loader=jinja2.FileSystemLoader([folder, OWN]),
        autoescape=form == "html",
        finalize=_tidy if form == "html" else _markdown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["words"] = words
    environment.filters |= {"clean": clean, "indented": indented_lines, "code": code_md, "made": made_md}
    environment.filters |= {"duration": wording.duration, "place": place}
    return environment


def indented_lines(text: str) -> Tidy:
    """A line as it stands, its blanks kept."""
    return Tidy(indented(text))


def place(source: Any) -> str:
    """`file:line` of anything that has a file and a line."""
    return wording.where(source.file, source.line, getattr(source, "at", None))


def _tidy(value: Any) -> Any:
    """HTML: autoescape does the rest; control and bidirectional characters would pass it."""
    return clean(value, 4000) if type(value) is str else value


def _markdown(value: Any) -> Any:
    return value if isinstance(value, Plain | int | float) else escape_md(str(value))
