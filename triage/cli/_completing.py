"""What the shell may offer for a value: files, ids, names. File names and one plain read alone: TAB must be instant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

FILE_METAVARS = {"FILE", "DIR", "PATH", "BEFORE AFTER", "[BUNDLE]...", "-- CMD..."}


class Word(click.types.StringParamType):
    """Text as it is, with what could stand there."""

    def __init__(self, offer: Callable[[], Iterable[str]] | None) -> None:
        self.offer = offer

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names that begin so; without an offer the shell's own files. Behind a comma the next name begins."""
        if self.offer is None:
            return [CompletionItem(incomplete, type="file")]
        done, comma, begun = incomplete.rpartition(",")
        return [CompletionItem(done + comma + name) for name in self.offer() if name.startswith(begun)]


def signatures() -> list[str]:
    """Ids of all signatures, by their files."""
    from triage import content

    return sorted(f"{path.parent.name}/{path.stem}" for path in content.files("signatures"))


def playbooks() -> list[str]:
    """Ids of all playbooks, by their files."""
    from triage import content

    return sorted(path.stem for path in content.files("playbooks"))


def causes() -> list[str]:
    """Ids of causes.yaml, without parsing its YAML (that takes longer than a TAB may)."""
    from triage import content

    return sorted(re.findall(r"^- id: (\S+)$", content.data("causes.yaml").read_text(encoding="utf-8"), re.MULTILINE))


def areas() -> list[str]:
    """Causes, and the areas that they lie in."""
    known = causes()
    return sorted({each.partition("/")[0] for each in known}) + known


def known() -> list[str]:
    """Everything that has an id, for look-ups."""
    return [*causes(), *playbooks(), *signatures()]


def templates() -> list[str]:
    """Reproductions, by their files."""
    from triage import content

    return sorted(path.stem for path in content.data("").parent.glob("repro/templates/*.yaml"))


def collectors() -> list[str]:
    """Collectors, ours and the team's."""
    from triage.transport.packing import collectors as names

    return names()


def demos() -> list[str]:
    """Incidents in the package."""
    from triage.cli.explain import demos as names

    return [*names(), "list"]


def languages() -> list[str]:
    """Tags of languages."""
    from triage import content

    return ["en", *sorted(path.stem for path in content.data("i18n").glob("*.yaml"))]


def layers() -> list[str]:
    """Beginnings of a new signature's id."""
    from triage.vocabulary import LAYERS

    return [f"{layer}/" for layer in LAYERS]


# command, parameter -> what it may be; parameters with a metavar of FILE_METAVARS are files by that
VALUES: dict[tuple[str, str], Callable[[], Iterable[str]] | None] = {
    ("explain", "paths"): None,
    ("explain", "demo"): demos,
    ("explain", "lang"): languages,
    ("report", "paths"): None,
    ("report", "lang"): languages,
    ("redact", "paths"): None,
    ("collect", "only"): collectors,
    ("collect", "skip"): collectors,
    ("lookup", "words"): known,
    ("lookup", "lang"): languages,
    ("playbook show", "lang"): languages,
    ("playbook walk", "lang"): languages,
    ("playbook show", "name"): playbooks,
    ("playbook walk", "name"): playbooks,
    ("repro", "cause"): causes,
    ("repro", "template"): templates,
    ("signature show", "name"): signatures,
    ("signature test", "names"): signatures,
    ("signature docs", "names"): signatures,
    ("signature new", "name"): layers,
    ("signature lint", "lang"): languages,
    ("history list", "cause"): areas,
    ("history list", "signature"): signatures,
    ("history nodes", "cause"): areas,
}


def equip(name: str, command: click.Command) -> None:
    """Give the parameters of a command, and of those below it, what completes them."""
    for parameter in command.params:
        if (name, str(parameter.name)) in VALUES:
            parameter.type = Word(VALUES[name, str(parameter.name)])
        elif parameter.metavar in FILE_METAVARS:
            parameter.type = Word(None)
    for inner, each in command.commands.items() if isinstance(command, click.Group) else ():
        equip(f"{name} {inner}", each)
