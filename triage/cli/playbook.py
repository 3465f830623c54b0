"""List, show, search or walk the decision trees for a person on call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from triage.errors import UsageError
from triage.model.playbook import Edge, Leaf, Node, Playbook
from triage.vocabulary import Answer

if TYPE_CHECKING:
    from triage.reasoning.questions import View


@click.group()
def command() -> None:
    """Decision trees: what to ask, in which order, and where each answer leads.

    Example: triage playbook show collective-timeout
    """


@command.command("list")
def list_() -> None:
    """Name every playbook. Example: triage playbook list"""
    for playbook in _all().values():
        click.echo(f"{playbook.id:<28} {playbook.title}")


@command.command()
@click.argument("name")
def show(name: str) -> None:
    """Print one playbook. Example: triage playbook show cuda-out-of-memory"""
    playbook = _get(name)
    click.echo(f"{playbook.title}\n\nLook first: {playbook.look_first}\n")
    for key, node in playbook.nodes.items():
        click.echo(_node(key, node))
    for key, leaf in playbook.leaves.items():
        click.echo(_leaf(key, leaf))


@command.command()
@click.argument("words", nargs=-1, required=True)
def search(words: tuple[str, ...]) -> int:
    """Find playbooks that speak of WORDS. Example: triage playbook search nvlink"""
    import msgspec

    found = 0
    for playbook in _all().values():
        text = msgspec.json.encode(playbook).decode().lower()
        if all(word.lower() in text for word in words):
            click.echo(f"{playbook.id:<28} {playbook.title}")
            found += 1
    return 0 if found else 4


@command.command()
@click.argument("name")
@click.option("--bundle", "paths", multiple=True, help="Evidence that answers what it can.")
def walk(name: str, paths: tuple[str, ...]) -> None:
    """Walk a playbook, asking what evidence cannot answer. Example: triage playbook walk gpu-lost --bundle logs/"""
    from triage.reasoning.walking import walk as go

    playbook = _get(name)
    view = _view(list(paths)) if paths else None
    click.echo(f"{playbook.title}\nLook first: {playbook.look_first}\n")
    found = go(playbook, lambda key, question: _ask(playbook.nodes[key], view.answer(question) if view else "unknown"))
    click.echo("\nPath: " + "; ".join(found.path) + "\n" + _leaf(found.name, found.leaf))


def _ask(node: Node, known: Answer) -> Answer:
    if known != "unknown":
        click.echo(f"{node.ask}  {known} (from the evidence)")
        return known
    if node.how:
        click.echo(f"  how to see: {node.how}")
    answer: Answer = click.prompt(node.ask, type=click.Choice(["yes", "no", "unknown"]), default="unknown")
    return answer


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


def _node(key: str, node: Node) -> str:
    how = f"\n    how    {node.how}" if node.how else ""
    ways = "".join(
        f"\n    {answer:<8}-> {_edge(edge)}"
        for answer, edge in (("yes", node.if_yes), ("no", node.if_no), ("unknown", node.if_unknown))
    )
    return f"[{key}] {node.ask}{how}{ways}"


def _edge(edge: Edge) -> str:
    inner = edge.then or edge
    target = inner.node or edge.node or inner.leaf or edge.leaf or "?"
    collect = f"  (collect {', '.join(edge.collect)}: {edge.why or 'it would decide'})" if edge.collect else ""
    return target + collect


def _leaf(key: str, leaf: Leaf) -> str:
    lines = [f"({key}) {leaf.title or leaf.cause or 'no cause named here'}"]
    lines += [
        f"    do     {action.do}" + (f" [{action.risk}]" if action.risk != "safe" else "") for action in leaf.actions
    ]
    if leaf.next_check:
        lines.append(f"    check  {leaf.next_check.command}: {leaf.next_check.tells}")
    if leaf.if_not_this:
        lines.append(f"    else   {', '.join(leaf.if_not_this)}")
    return "\n".join(lines)
