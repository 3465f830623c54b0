"""Look up a number, a name, a line of a log or some words, without any evidence."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from triage.model.lookup import Answer, Entry
    from triage.report.language import Words

NOTHING = 4  # exit code
_WIDTH = 100
_INDENT = 14
_PASTED = 1 << 20  # characters of standard input that are read
_KINDS = {"cause": "causes", "signature": "signatures", "playbook": "playbooks"}  # those with translations
_BRACES = re.compile(r"(?<!\$)\{([a-z_]+)\}")  # a field of the signature: there is no evidence to fill it in
_TABLES = {
    "Xid": "xid",
    "exit code": "exit_codes",
    "signal": "exit_codes",
    "RDMA status": "rdma_status",
    "RDMA vendor error": "rdma_status",
    "job state": "states",
    "environment variable": "environment",
}
_ROLES = {
    "root-cause": "names a root cause",
    "symptom": "a symptom: it shows what was observed, not why",
    "consequence": "a consequence: something else came first",
    "context": "neither a cause nor a consequence by itself",
}


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
@click.option("--lang", envvar="TRIAGE_LANG", metavar="TAG", help="Language of the answer: en or zh.")
def command(words: tuple[str, ...], form: str, lang: str | None) -> int:
    """Tell what WORDS mean: an Xid, an SXid, an exit code, a signal, a job state, an RDMA status, an environment
    variable, the id of a cause, signature or playbook, a line of a log, or some words; `-` reads standard input.

    \b
    Examples:
      triage lookup 79
      triage lookup "SXid 12028"
      triage lookup "vendor err 129"
      triage lookup NCCL_IB_GID_INDEX=0
      triage lookup exit 137
      dmesg | tail -1 | triage lookup -
    """
    answer = _pasted() if words == ("-",) else _asked(" ".join(words))
    if form == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=1).decode())
    elif answer.found:
        language = _language(lang)
        click.echo("\n\n".join("\n".join(_lines(entry, language)) for entry in answer.found))
    _rest(answer, form)
    return 0 if answer.found else NOTHING


def _asked(query: str) -> Answer:
    from triage.lookup import lookup

    return lookup(query)


def _pasted() -> Answer:
    from triage.lookup import lookup_text

    return lookup_text(sys.stdin.buffer.read(_PASTED).decode("utf-8", errors="replace"))


def _language(lang: str | None) -> Words | None:
    """None is English, for which nothing has to be loaded."""
    if not lang or lang.lower().startswith("en"):
        return None
    from triage.report.language import words

    return words(lang)


def _rest(answer: Answer, form: str) -> None:
    """What else fits, or what is spelled alike; on stderr when stdout holds JSON or nothing."""
    if answer.further and form == "text":
        click.echo("\n" + _wrapped("also", ", ".join(answer.further)))
    if not answer.found:
        close = f"; nearest names: {', '.join(answer.nearest)}" if answer.nearest else ""
        click.echo(f"triage: nothing known about {_printable(answer.query)[:80]!r}{close}", err=True)


def _lines(entry: Entry, words: Words | None = None) -> Iterator[str]:
    """An entry under fixed headings; those without content are left out."""
    if words is not None:
        entry = _translated(entry, words)
    yield _printable(entry.title if entry.kind != "signature" else f"{entry.title}  [{entry.name}]")
    for heading, text in _parts(entry, words):
        if text:
            key = f"lookup.{heading}"
            yield _wrapped(words(key) if words is not None and words.has(key) else heading, _printable(text))


def _translated(entry: Entry, words: Words) -> Entry:
    from triage.report.language import translated
    from triage.report.translations import ids

    named = [(_KINDS[entry.kind], entry.name)] if entry.kind in _KINDS else []
    if table := _TABLES.get(entry.kind):
        named = [(table, name) for name in ids(table)]
    return translated(entry, words, *named, *(("signatures", name) for name in entry.signatures[:3]))


def _parts(entry: Entry, words: Words | None) -> Iterator[tuple[str, str | None]]:
    yield "line", entry.line
    yield "with", ", ".join(f"{name} {value}" for name, value in entry.fields.items())
    yield "means", entry.means
    yield "role", words(f"role.{entry.role}") if words is not None and entry.role else _ROLES.get(entry.role or "")
    yield "severity", words(f"value.{entry.severity}") if words is not None and entry.severity else entry.severity
    if entry.kind != "cause" and entry.cause:
        yield "cause", f"{entry.cause}: {entry.cause_title}" if entry.cause_title else entry.cause
    yield from entry.notes.items()
    yield "look first" if entry.kind == "playbook" else "look", entry.look
    if entry.next_check:
        command = _BRACES.sub(r"<\1>", entry.next_check.command)
        yield "check", f"{command}\n{entry.next_check.tells}"
    for number, action in enumerate(entry.actions):
        risk = words(f"risk.{action.risk}") if words is not None else action.risk
        yield "" if number else "do", action.do + (f" [{risk}]" if action.risk != "safe" else "")
    yield "vendor says", " then ".join(filter(None, (entry.vendor_action, entry.vendor_follow_up)))
    yield "follows", ", ".join(entry.follows)
    yield "repeated", "; ".join(entry.history)
    for number, other in enumerate(entry.confused_with):
        yield "" if number else "not to mix", f"{other.id}: {other.tell}"
    yield "playbook", ", ".join(entry.playbooks)
    yield "signature", ", ".join(entry.signatures) if entry.kind != "signature" else None


def _wrapped(heading: str, text: str) -> str:
    """A heading and its text, wrapped behind it."""
    if any(char >= "\u2e80" for char in heading + text):
        return _wide(heading, text)
    first = f"  {heading:<{_INDENT - 2}}" if len(heading) < _INDENT - 2 else f"  {heading}: "
    lines = [
        line
        for number, part in enumerate(text.split("\n"))
        for line in textwrap.wrap(
            part, _WIDTH, initial_indent=" " * _INDENT if number else first, subsequent_indent=" " * _INDENT,
            break_long_words=False, break_on_hyphens=False,
        )
    ]  # fmt: skip
    return "\n".join(lines)


def _wide(heading: str, text: str) -> str:
    """The same for characters that are two columns wide."""
    from triage.report.columns import padded, wrapped

    labels = [padded(f"  {heading}", _INDENT - 2), *[" " * (_INDENT - 2)] * text.count("\n")]
    return "\n".join(
        line for label, part in zip(labels, text.split("\n"), strict=True) for line in wrapped(label, part, _WIDTH)
    )


def _printable(text: str) -> str:
    """Text of a log without control characters: it goes to a terminal."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)
