"""List, show, write, lint, test and document the signatures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from triage.errors import ContentError, UsageError
from triage.model.signature import Signature

SKELETON = """\
id: {id}
title: Say in a few words what is wrong
means: Say what it means for the job, for somebody who is woken up by it.
status: experimental                    # stable once it was seen in a real incident
layer: {layer}
role: root-cause                        # root-cause | symptom | consequence | context
severity: error                         # info | warning | error | fatal
cause: area/cause                       # an id of triage/data/causes.yaml
specificity: weak                       # strong: the line alone proves the cause
sources: [torch_log]
match:
  - regex: 'the fixed part of the message (?P<rank>\\d+)'
fields:
  rank: {{type: int, entity: rank}}
next_check: {{command: a command to run next, tells: what its answer says}}
actions:
  - {{do: what to do about it, risk: safe}}
examples:
  matches:
    - text: '[rank3]: a whole line as users see it, with its prefix'
      fields: {{rank: '3'}}
  does_not_match:
    - text: 'a line that looks alike and means nothing'
      why: say why it must not match
"""


@click.group()
def command() -> None:
    """Signatures: the messages and values that triage knows, and what they mean.

    Example: triage signature show gpu/xid-79-fallen-off-bus
    """


@command.command("list")
@click.argument("words", nargs=-1)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
def list_(words: tuple[str, ...], form: str) -> None:
    """Name every signature, or those whose id or title holds all WORDS. Example: triage signature list ecc"""
    found = [each for each in _all().values() if all(word.lower() in _name(each) for word in words)]
    if form == "json":
        _json([{"id": each.id, "title": each.title, "role": each.role, "cause": each.cause} for each in found])
        return
    for each in found:
        click.echo(f"{each.id:<40} {each.role:<12} {each.title}")


@command.command()
@click.argument("name", metavar="ID")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
def show(name: str, form: str) -> None:
    """Print one signature with its examples. Example: triage signature show torch/watchdog-timeout"""
    signature = _get(name)
    if form == "json":
        _json(signature)
    else:
        click.echo("\n".join(_lines(signature)))


@command.command()
@click.argument("name", metavar="LAYER/NAME")
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    help="Content folder (default: $TRIAGE_CONTENT, else this checkout, else here).",
)
def new(name: str, into: Path | None) -> None:
    """Write the skeleton of a signature, which lint then explains. Example: triage signature new gpu/fan-stopped"""
    from triage import content
    from triage.vocabulary import LAYERS

    layer, _, short = name.partition("/")
    if layer not in LAYERS:
        raise UsageError(f"unknown layer {layer!r}{content.nearest(layer, LAYERS)}; layers: {', '.join(LAYERS)}")
    if not short or not all(part.isalnum() for part in short.split("-")):
        raise UsageError(f"{name!r}: a name is small letters, digits and dashes, as in gpu/fan-stopped")
    folder = into or content.own()
    path = folder / "signatures" / layer / f"{short}.yaml"
    if path.exists():
        raise UsageError(f"{path} exists already")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SKELETON.format(id=name, layer=layer), encoding="utf-8")
    click.echo(f"{path}\nNow fill it in and run: triage signature lint {path}")
    if path not in content.files("signatures"):
        click.echo(f"triage uses it where this is set: export TRIAGE_CONTENT={folder.resolve()}")


@command.command(short_help="Say everything that is wrong with signatures or translations.")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--lang", metavar="TAG", help="List what this language lacks, and stop: zh.")
def lint(paths: tuple[Path, ...], lang: str | None) -> None:
    """Tell every fault of all signatures and translations, or of the signatures below PATHS; exit 2 if there are any.

    Example: triage signature lint signatures/gpu
    """
    from triage.matching.lint import lint as faults
    from triage.report import language

    if lang:
        click.echo("\n".join(language.missing(language.words(lang).tag)) or "nothing is missing")
        return
    told = [] if paths else language.languages()
    found = [*faults(paths), *(fault for tag in told for fault in language.faults(tag))]
    if found:
        raise ContentError(found)
    click.echo("no faults")
    for tag in told:
        shares = (f"{done} of {every} {kind}" for kind, (done, every) in language.shares(tag).items())
        click.echo(f"{tag}: translated in full are {', '.join(shares)}")


@command.command(short_help="Run the examples of signatures.")
@click.argument("names", nargs=-1, metavar="[ID]...")
def test(names: tuple[str, ...]) -> None:
    """Run the examples of all signatures, or of those named; exit 2 when one fails.

    Example: triage signature test gpu/xid-79-fallen-off-bus
    """
    from triage.matching.examples import failures

    chosen = [_get(name) for name in names] or list(_all().values())
    found = [f"{each.id}: {failure}" for each in chosen for failure in failures(each)]
    if found:
        raise ContentError(found)
    count = sum(len(each.examples.matches) + len(each.examples.does_not_match) for each in chosen)
    click.echo(f"{count} examples of {len(chosen)} signatures hold")


@command.command(short_help="Write signatures as Markdown, a page each.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder to write to.")
@click.argument("names", nargs=-1, metavar="[ID]...")
def docs(out: Path, names: tuple[str, ...]) -> None:
    """Write a page for all signatures, or for those named, and an index, as Markdown.

    Example: triage signature docs --out site/signatures
    """
    from triage.report import pages

    chosen = [_get(name) for name in names] or list(_all().values())
    texts = {pages.path_of(each.id): pages.page(each) for each in chosen} | {"index.md": pages.index(chosen)}
    try:
        for name, text in texts.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from error
    click.echo(f"{len(chosen)} pages and index.md in {out}")


def _all() -> dict[str, Signature]:
    from triage.matching.loading import catalogue

    return catalogue()


def _get(name: str) -> Signature:
    from triage.content import nearest

    known = _all()
    if name not in known:
        raise UsageError(f"no signature {name!r}{nearest(name, list(known))}; `triage signature list` names them")
    return known[name]


def _name(signature: Signature) -> str:
    return f"{signature.id} {signature.title}".lower()


def _json(value: object) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=1).decode())


def _lines(signature: Signature) -> list[str]:
    """A signature under fixed headings; those without content are left out."""
    parts: tuple[tuple[str, Callable[[Signature], list[str]]], ...] = (
        ("What it looks like", _looks),
        ("Next check", lambda each: [f"{each.next_check.command}: {each.next_check.tells}"] if each.next_check else []),
        ("What to do", lambda each: [f"{action.do} [{action.risk}]" for action in each.actions]),
        ("Easily confused with", lambda each: [f"{other.id}: {other.tell}" for other in each.confused_with]),
        ("Matches", lambda each: [_example(example.text, example.facts) for example in each.examples.matches]),
        ("Does not match", _refusals),
        ("References", lambda each: [f"{page.title} {page.url}".strip() for page in each.references]),
    )
    head = f"{signature.role}, {signature.severity}, {signature.specificity}, {signature.status}"
    out = [signature.id, signature.title, f"{head}; cause: {signature.cause or 'none'}", "", signature.means]
    for title, content in parts:
        if lines := content(signature):
            out += ["", title, *(f"  {line}" for line in lines)]
    return out


def _refusals(signature: Signature) -> list[str]:
    return [f"{_example(each.text, each.facts)}  ({each.why})" for each in signature.examples.does_not_match]


def _looks(signature: Signature) -> list[str]:
    facts = [f"{each.name} {each.op} {each.value or ''}".strip() for each in signature.facts]
    return [*(pattern.regex for pattern in signature.match), *facts, f"in: {', '.join(signature.sources)}"]


def _example(text: str, facts: dict[str, str]) -> str:
    return text.replace("\n", "\n    ") if text else ", ".join(f"{name} = {value}" for name, value in facts.items())
