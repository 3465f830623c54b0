"""Manual pages: one a command, as roff (`man ./build/man/man1/triage-explain.1`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from _commands import Described, commands, described

from triage import __version__
from triage.cli import cli

ENVIRONMENT = {
    "TRIAGE_LANG": "Language of answers for people: en or zh.",
    "TRIAGE_HISTORY": "Where explain keeps what it answered; off keeps nothing.",
    "TRIAGE_CONTENT": "A folder with signatures/, playbooks/ and collectors/ of your own.",
    "TRIAGE_RECORD_DIR": "Where triage record writes.",
    "NO_COLOR": "No colour on terminals.",
}


def man_pages() -> Iterator[tuple[str, str]]:
    """`triage.1` with all commands, then `triage-<command>.1` for each."""
    told = list(commands())
    yield "triage.1", "\n".join(_top(described("", cli), told)) + "\n"
    for each in told:
        yield f"{_name(each)}.1", "\n".join(_page(each, told)) + "\n"


def _name(one: Described) -> str:
    return "triage-" + one.path.replace(" ", "-")


def text(words: str) -> str:
    """Words for roff: no control characters, no line that is a request, dashes that can be copied."""
    escaped = words.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("'", "\\(aq")
    return re.sub(r"^([.])", r"\\&\1", re.sub(r"\s+", " ", escaped))


def _head(name: str, brief: str) -> list[str]:
    brief = brief.split(". ")[0].rstrip(".:")
    return [
        f'.TH "{name.upper()}" "1" "" "triage {__version__}" "triage manual"', ".SH NAME",
        f"{text(name)} \\- {text(brief[:1].lower() + brief[1:])}",
    ]  # fmt: skip


def _page(one: Described, told: list[Described]) -> Iterator[str]:
    yield from _head(_name(one), one.paragraphs[0])
    yield from (".SH SYNOPSIS", f".B {text(one.usage)}", ".SH DESCRIPTION")
    for paragraph in one.paragraphs:
        yield from (".PP", text(paragraph))
    yield from _listed("OPTIONS", one.options)
    inner = [each for each in told if each.path.rpartition(" ")[0] == one.path]
    yield from _listed("COMMANDS", [(_name(each) + "(1)", each.paragraphs[0]) for each in inner])
    if one.examples:
        yield from (".SH EXAMPLES", ".nf", *map(_line, one.examples.splitlines()), ".fi")
    above = one.path.rpartition(" ")[0]
    yield from (".SH SEE ALSO", f".BR {text('triage-' + above.replace(' ', '-') if above else 'triage')} (1)")


def _line(line: str) -> str:
    """A line as it is, which must not become a request."""
    return re.sub(r"^([.'])", r"\\&\1", line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq"))


def _listed(title: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    if rows:
        yield f".SH {title}"
    for name, said in rows:
        yield from (".TP", f".B {text(name)}", text(said))


def _top(top: Described, told: list[Described]) -> Iterator[str]:
    yield from _head("triage", top.paragraphs[0])
    yield from (".SH SYNOPSIS", ".B triage COMMAND [OPTIONS] ...", ".SH DESCRIPTION")
    for paragraph in top.paragraphs:
        yield from (".PP", text(paragraph))
    yield from _listed("COMMANDS", [(f"{_name(one)}(1)", one.paragraphs[0]) for one in told if " " not in one.path])
    yield from _listed("ENVIRONMENT", list(ENVIRONMENT.items()))
    yield from (".SH EXAMPLES", ".nf", _line(top.examples), ".fi")
