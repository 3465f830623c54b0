"""List, show, search, walk or lint the decision trees for a person on call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from triage.errors import ContentError, UsageError
from triage.model.playbook import OperatorQuestion, Playbook, Question
from triage.vocabulary import Answer

if TYPE_CHECKING:
    from triage.cli._playbooks import Numbering
    from triage.reasoning.questions import View

FORM = click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
LANG = click.option("--lang", envvar="TRIAGE_LANG", metavar="TAG", help="Language: en or zh.")
NOTHING_FOUND = 4
_PLAIN: dict[str, Answer] = {"yes": "yes", "no": "no", "unknown": "unknown", "?": "unknown"}


@click.group()
def command() -> None:
    """Decision trees: what to ask, in which order, and where each answer leads.

    Example: triage playbook show collective-timeout
    """


@command.command("list")
@FORM
def list_(form: str) -> None:
    """Name every playbook. Example: triage playbook list"""
    _rows(list(_all().values()), form)


@command.command(short_help="Print one playbook: its questions, then its ends.")
@click.argument("name")
@FORM
@LANG
def show(name: str, form: str, lang: str | None) -> None:
    """Print one playbook: questions in the order in which they are met, then the ends.

    Example: triage playbook show cuda-out-of-memory
    """
    from triage.cli import _playbooks
    from triage.report.language import words

    playbook = _get(name)
    if form == "json":
        _json(playbook)
    else:
        click.echo(_playbooks.whole(playbook, words(lang)), nl=False)


@command.command(short_help="Find the playbooks that speak of all WORDS.")
@click.argument("words", nargs=-1, required=True)
@FORM
def search(words: tuple[str, ...], form: str) -> int:
    """Find the playbooks that speak of all WORDS, those that do so in their title first.

    Example: triage playbook search nvlink
    """
    wanted = [word.lower() for word in words]
    found = [each for each in _all().values() if all(word in _text(each) for word in wanted)]
    found.sort(key=lambda each: not all(word in f"{each.id} {each.title}".lower() for word in wanted))
    _rows(found, form)
    return 0 if found else NOTHING_FOUND


@command.command()
@click.argument("name")
@click.option("--bundle", "paths", multiple=True, metavar="PATH", help="Evidence that answers what it can.")
@LANG
def walk(name: str, paths: tuple[str, ...], lang: str | None) -> None:
    """Walk a playbook: you answer what the evidence does not. `b` goes back one question, `q` quits.

    Example: triage playbook walk gpu-lost --bundle logs/
    """
    from triage.cli import _playbooks
    from triage.report.language import words

    numbers = _playbooks.Numbering(_get(name), words(lang))
    view = _view(list(paths)) if paths else None
    click.echo("\n".join([*_playbooks.opening(numbers), ""]))
    _Talk(numbers, view).hold()


@command.command(short_help="Say everything that is wrong with playbooks.")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
def lint(paths: tuple[Path, ...]) -> None:
    """Say everything that is wrong with playbooks: all of them, or the files named.

    Example: triage playbook lint playbooks/gpu-lost.yaml
    """
    from triage.matching.loading import catalogue
    from triage.reasoning.lint import lint as faults

    found = faults(catalogue(), [path.resolve() for path in paths] or None)
    if found:
        raise ContentError(found)
    click.echo(f"{len(paths) or len(_all())} playbooks, no fault")


class _Quit(Exception):  # noqa: N818 (no error, a way out of a walk)
    """The person has had enough."""


class _Back(Exception):  # noqa: N818
    """The person takes the last answer back."""


class _Talk:
    """One walk with a person. Answers are remembered, so that going back is walking again without the last one."""

    def __init__(self, numbers: Numbering, view: View | None) -> None:
        self.numbers, self.view = numbers, view
        self.given: dict[str, Answer] = {}
        self.told: dict[str, Answer] = {}

    def hold(self) -> None:
        """Until an end is reached or the person quits."""
        from triage.cli import _playbooks
        from triage.reasoning.walking import BROKEN
        from triage.reasoning.walking import walk as go

        while True:
            try:
                found = go(self.numbers.playbook, self._answer)
            except _Back:
                self.given.pop(next(reversed(self.given), ""), None)
                continue
            except _Quit:
                click.echo(f"Left. So far: {'; '.join(f'{k}: {v}' for k, v in self._path().items()) or 'nothing'}")
                return
            lines = ["This tree leads nowhere."] if found.name == BROKEN else _playbooks.end(self.numbers, found.name)
            click.echo("\n".join(["", *lines, "", f"Path: {'; '.join(found.path)}"]))
            return

    def _path(self) -> dict[str, Answer]:
        return self.told | self.given

    def _answer(self, name: str, question: Question) -> Answer:
        if name in self.given:
            return self.given[name]
        known: Answer = self.view.answer(question) if self.view else "unknown"
        if known != "unknown":
            self._tell(name, known)
            return known
        self.given[name] = answer = self._ask(name, question)
        return answer

    def _tell(self, name: str, answer: Answer) -> None:
        if name not in self.told:
            self.told[name] = answer
            ask = self.numbers.playbook.nodes[name].ask
            click.echo(f"{self.numbers.node(name)}. {ask}\n   {answer}, by the evidence\n")

    def _ask(self, name: str, question: Question) -> Answer:
        from triage.cli import _playbooks
        from triage.reasoning.walking import edge_of

        click.echo("\n".join(_playbooks.question(self.numbers, name)))
        answer = _prompt(question, first=not self.given)
        edge = edge_of(self.numbers.playbook, name, answer)
        if answer == "unknown" and edge.collect:
            click.echo(f"   {_playbooks.wanted(edge, self.numbers.words)}")
        click.echo()
        return answer


def _prompt(question: Question, first: bool) -> Answer:
    """One answer; its first letters will do. Asks again until it is understood."""
    words = dict(_PLAIN)
    if isinstance(question, OperatorQuestion):
        words |= {word.lower(): _PLAIN[means] for word, means in question.answers.items() if means in _PLAIN}
    orders = ["q"] if first else ["b", "q"]
    while True:
        said = click.prompt(f"   yes, no, unknown ({', '.join(orders)})", default="unknown", show_default=False)
        said = said.strip().lower()
        if said in {"q", "quit"}:
            raise _Quit
        if said in {"b", "back"} and not first:
            raise _Back
        meant = {words[said]} if said in words else {means for word, means in words.items() if word.startswith(said)}
        if len(meant) == 1:
            return meant.pop()
        click.echo(f"   {'not understood' if not meant else 'that could be several'}: {', '.join(words)}")


def _view(paths: list[str]) -> View:
    from triage.pipeline import view

    return view(paths)


def _all() -> dict[str, Playbook]:
    from triage.reasoning.loading import playbooks

    return playbooks()


def _get(name: str) -> Playbook:
    from triage.content import nearest

    known = _all()
    if name not in known:
        raise UsageError(f"no playbook {name!r}{nearest(name, list(known))}; `triage playbook list` names them")
    return known[name]


def _text(playbook: Playbook) -> str:
    """All that a playbook says, with the titles of its causes, in lower case."""
    import msgspec

    from triage.reasoning.loading import causes

    titles = [causes()[leaf.cause].title for leaf in playbook.leaves.values() if leaf.cause in causes()]
    return " ".join([msgspec.json.encode(playbook).decode(), *titles]).lower()


def _rows(found: list[Playbook], form: str) -> None:
    if form == "json":
        _json([{"id": each.id, "title": each.title, "means": each.means} for each in found])
        return
    for each in found:
        click.echo(f"{each.id:<30} {each.title}")


def _json(value: Any) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
