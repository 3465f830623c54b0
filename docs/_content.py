"""Pages about what triage knows: signatures, causes, playbooks as trees, the evidence that parsers read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from _commands import module_doc
from _text import block, code, document, link, plain, section, table

from triage.cli._playbooks import ANSWERS, Numbering, wanted
from triage.matching.loading import catalogue
from triage.model.playbook import Edge, Playbook
from triage.model.signature import Action, Cause, Signature
from triage.reasoning.loading import causes, playbooks
from triage.reasoning.walking import edge_of, target
from triage.report import pages
from triage.repro import spec
from triage.vocabulary import sources

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "parsers"
ROOTS = {"cause": "reference/causes", "playbook": "reference/playbooks", "signature": "reference/signatures"}


def place(kind: str, name: str) -> str:
    """Where the page of a cause, playbook or signature lies."""
    return f"{ROOTS[kind]}/{name}.md"


def linked(kind: str, name: str, of: str) -> str:
    """A link by the id, for an id of any kind that is known; else the id as code."""
    known = {"cause": causes(), "playbook": playbooks(), "signature": catalogue()}[kind]
    return link(code(name), place(kind, name), of) if name in known else code(name)


def anything(name: str, of: str) -> str:
    """A link by an id whose kind is not told."""
    if name in causes():
        return linked("cause", name, of)
    return linked("playbook" if name in playbooks() else "signature", name, of)


# ---- signatures ----


def signature_pages() -> Iterator[tuple[str, str]]:
    """The catalogue: a page a signature, with links to its cause and playbook, and an index by area."""
    known = catalogue()
    for each in known.values():
        here = place("signature", each.id)
        yield here, _linked_ids(pages.page(each), each, here)
    home = f"{ROOTS['signature']}/index.md"
    by_layer: dict[str, list[Signature]] = defaultdict(list)
    for each in sorted(known.values(), key=lambda each: each.id):
        by_layer[each.layer].append(each)
    rows = [
        (link(layer, f"{ROOTS['signature']}/{layer}/index.md", home), str(len(of))) for layer, of in by_layer.items()
    ]
    yield home, document("Signatures", [f"{len(known)} messages and values that triage knows.", *table(("area", "signatures"), rows)])  # fmt: skip  # noqa: E501
    for layer, of in by_layer.items():
        yield _layer_page(layer, of)


def _layer_page(layer: str, of: list[Signature]) -> tuple[str, str]:
    home = f"{ROOTS['signature']}/{layer}/index.md"
    rows = []
    for each in of:
        cause = linked("cause", each.cause, home) if each.cause else ""
        rows.append((linked("signature", each.id, home), plain(each.title), each.role, cause))
    return home, document(f"Signatures: {layer}", table(("signature", "means", "role", "cause"), rows))


def _linked_ids(text: str, each: Signature, here: str) -> str:
    if each.cause:
        text = text.replace(f"- cause: `{each.cause}`", f"- cause: {linked('cause', each.cause, here)}", 1)
    if each.playbook:
        shown = f"- playbook: `triage playbook show {each.playbook}`"
        text = text.replace(shown, f"- playbook: {linked('playbook', each.playbook, here)}", 1)
    source = ", ".join(link(name, f"reference/evidence/{name}.md", here) for name in each.sources)
    return text.replace(f"- seen in: {', '.join(each.sources)}", f"- seen in: {source}", 1)


# ---- causes ----


def cause_pages() -> Iterator[tuple[str, str]]:
    """A page a cause, and an index."""
    home = f"{ROOTS['cause']}/index.md"
    rows = [(linked("cause", each.id, home), plain(each.title), each.blame) for each in causes().values()]
    text = "The closed list of what can be wrong. Ids are stable: they are added, never renamed."
    yield home, document("Causes", [text, *table(("cause", "title", "blame"), rows)])
    for each in causes().values():
        here = place("cause", each.id)
        yield here, document(plain(each.title), _cause(each, here))


def _cause(each: Cause, here: str) -> Iterator[str]:
    yield from (code(each.id), "", plain(each.means), "")
    if each.next_check:
        yield from section("What to check next", [*block(each.next_check.command, "sh"), plain(each.next_check.tells)])
    yield from section("What to do", actions(each.actions))
    ends = [name for name, tree in playbooks().items() if any(leaf.cause == each.id for leaf in tree.leaves.values())]
    yield from section("Playbooks that end here", [f"- {linked('playbook', name, here)}" for name in ends])
    made = [name for name, one in spec.templates().items() if each.id in one.causes]
    told = [f"- `triage repro --template {name} --cause {each.id} -o repro/`" for name in made]
    yield from section("Reproduction", told or [f"None, since {plain(spec.why_not(each.id))}."])
    shown = [one for one in catalogue().values() if one.cause == each.id]
    rows = [(linked("signature", one.id, here), plain(one.title), one.specificity) for one in shown]
    yield from section("Signatures that name it", table(("signature", "means", "specificity"), rows))


def actions(of: list[Action]) -> list[str]:
    """Numbered; what a risk is, where there is one."""
    return [
        f"{number}. {plain(each.do)}" + ("" if each.risk == "safe" else f" *({each.risk})*")
        for number, each in enumerate(of, 1)
    ]


# ---- playbooks ----


def playbook_pages() -> Iterator[tuple[str, str]]:
    """A page a playbook as a tree, and an index."""
    home = f"{ROOTS['playbook']}/index.md"
    rows = [(linked("playbook", each.id, home), plain(each.title)) for each in playbooks().values()]
    yield home, document("Playbooks", table(("playbook", "what for"), rows))
    for each in playbooks().values():
        here = place("playbook", each.id)
        yield here, document(plain(each.title), _playbook(each, here))


def _playbook(each: Playbook, here: str) -> Iterator[str]:
    numbers = Numbering(each)
    yield from (plain(each.means), "", f"**Look first.** {plain(each.look_first)}", "")
    yield f"One question at a time: `triage playbook walk {each.id}`."
    yield from section("The tree", _tree(numbers, numbers.nodes[0], 0, set()))
    for name in numbers.nodes:
        yield from section(f"Question {numbers.node(name)}", _question(numbers, name))
    for name in numbers.leaves:
        yield from section(f"End {numbers.leaf(name)}", _leaf(numbers, name, here))
    starts = [one if isinstance(one, str) else None for one in each.start_when.any or each.start_when.all]
    told = ", ".join(linked("signature", one, here) for one in starts if one)
    yield from section("explain walks it on", [told] if told else [])


def _tree(numbers: Numbering, name: str, depth: int, seen: set[str]) -> Iterator[str]:
    """Each question is spread out once; where it is met again there is a link."""
    seen.add(name)
    if not depth:
        yield f"- {_to_node(numbers, name)}: {plain(numbers.playbook.nodes[name].ask)}"
    for answer in ANSWERS:
        node, leaf = target(edge_of(numbers.playbook, name, answer))
        pad = "    " * (depth + 1)
        if leaf is not None:
            yield f"{pad}- *{answer}*: {_to_leaf(numbers, leaf)}"
        elif node is not None and node not in seen:
            yield f"{pad}- *{answer}*: {_to_node(numbers, node)}: {plain(numbers.playbook.nodes[node].ask)}"
            yield from _tree(numbers, node, depth + 1, seen)
        elif node is not None:
            yield f"{pad}- *{answer}*: {_to_node(numbers, node)}"


def _to_node(numbers: Numbering, name: str) -> str:
    return f"[question {numbers.node(name)}](#question-{numbers.node(name)})"


def _to_leaf(numbers: Numbering, name: str) -> str:
    leaf, letter = numbers.playbook.leaves[name], numbers.leaf(name)
    title = leaf.title or (causes()[leaf.cause].title if leaf.cause in causes() else name)
    return f"[end {letter}](#end-{letter.lower()}): {plain(title)}"


def _question(numbers: Numbering, name: str) -> Iterator[str]:
    node = numbers.playbook.nodes[name]
    yield from (f"**{plain(node.ask)}**", "")
    yield from block(node.how, "sh") if node.how else ()
    for answer in ANSWERS:
        yield f"- *{answer}*: {_way(numbers, edge_of(numbers.playbook, name, answer))}"


def _way(numbers: Numbering, edge: Edge) -> str:
    node, leaf = target(edge)
    way = _to_leaf(numbers, leaf) if leaf is not None else _to_node(numbers, str(node))
    return f"{way}; {plain(wanted(edge))}" if edge.collect else way


def _leaf(numbers: Numbering, name: str, here: str) -> Iterator[str]:
    leaf = numbers.playbook.leaves[name]
    known = causes().get(leaf.cause or "")
    yield f"**{plain(leaf.title or (known.title if known else name))}**"
    if leaf.cause:
        yield from ("", f"Cause {linked('cause', leaf.cause, here)}, support {leaf.support}.")
    if leaf.next_check:
        yield from (*block(leaf.next_check.command, "sh"), plain(leaf.next_check.tells))
    yield from ("", *actions(leaf.actions))
    if leaf.if_not_this:
        yield from ("", "If it is not this: " + ", ".join(anything(each, here) for each in leaf.if_not_this) + ".")


# ---- evidence ----


def evidence_pages() -> Iterator[tuple[str, str]]:
    """A page a parser with what it reads and the facts that it gives, and an index."""
    home, seen = "reference/evidence/index.md", Counter(name for each in catalogue().values() for name in each.sources)
    told = {name: module_doc(f"triage.parsers.{name}") for name in sources()}
    rows = [
        (link(code(name), f"reference/evidence/{name}.md", home), plain(text.split("\n")[0]), str(seen[name]))
        for name, text in told.items()
    ]
    text = "What a file is, is told from its content. Compressed files and archives are read as they are."
    yield home, document("Evidence", [text, *table(("source", "what it reads", "signatures"), rows)])
    for name, said in told.items():
        here = f"reference/evidence/{name}.md"
        ids = [f"- {linked('signature', each.id, here)}" for each in catalogue().values() if name in each.sources]
        head, _, rest = said.partition("\n")
        lines = [plain(head), *(block(rest.strip("\n")) if rest.strip() else [])]
        lines += section("Samples in the repository", _samples(name))
        yield here, document(name, [*lines, *section("Signatures that look here", ids)])


def _samples(source: str) -> list[str]:
    """Names of what the tests of a parser read, recorded or made; none when its tests hold them as text."""
    folder = FIXTURES / source
    return [f"- {code(path.name)}" for path in sorted(folder.iterdir())] if folder.is_dir() else []


def verified_page() -> tuple[str, str]:
    """Against which versions signatures were verified, as they say themselves."""
    found: Counter[tuple[str, str, str]] = Counter()
    for each in catalogue().values():
        found.update((one.component, one.version, one.how) for one in each.verified_in)
    rows = [(plain(a), plain(b), plain(how), str(count)) for (a, b, how), count in sorted(found.items())]
    rest = sum(not each.verified_in for each in catalogue().values())
    lines = [f"{rest} signatures say no version: their wording comes from documentation, reports and recordings.", ""]
    return "reference/verified.md", document(
        "Verified wordings", [*lines, *table(("component", "version", "how", "signatures"), rows)]
    )
