"""A playbook as text for a person on call: questions in the order in which they are met, then the ends."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from string import ascii_uppercase

from triage.model.playbook import Edge, OperatorQuestion, Playbook
from triage.model.signature import Action, Condition
from triage.reasoning.loading import causes
from triage.reasoning.walking import edge_of, target
from triage.report import columns
from triage.report.language import ENGLISH, Words, translated
from triage.vocabulary import Answer

WIDTH = 100  # columns at most
ANSWERS: tuple[Answer, ...] = ("yes", "no", "unknown")
_LABEL = 10  # columns of `yes`, `look`, `do` and their kin


def width() -> int:
    """As wide as the terminal, 60 to WIDTH columns."""
    return max(60, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))


class Numbering:
    """Questions get numbers, so that each answer leads to a higher one; ends get letters in the same order.

    playbook: as told in the language of `words`.
    """

    def __init__(self, playbook: Playbook, words: Words = ENGLISH) -> None:
        self.playbook, self.words = translated(playbook, words, ("playbooks", playbook.id)), words
        self.nodes: list[str] = []
        self._visit(next(iter(playbook.nodes), None), set())
        self.nodes.reverse()
        ways = [target(edge_of(playbook, name, answer))[1] for name in self.nodes for answer in ANSWERS]
        self.leaves = list(dict.fromkeys(leaf for leaf in ways if leaf is not None and leaf in playbook.leaves))

    def _visit(self, name: str | None, seen: set[str]) -> None:
        """Last the questions that others lead to; the way of yes is told first, so it is visited last."""
        if name in self.playbook.nodes and name not in seen:
            seen.add(name)
            for answer in reversed(ANSWERS):
                self._visit(target(edge_of(self.playbook, name, answer))[0], seen)
            self.nodes.append(name)

    def node(self, name: str) -> str:
        """`3`."""
        return str(self.nodes.index(name) + 1)

    def leaf(self, name: str) -> str:
        """`C`; from the 27th on `A2`."""
        turn, place = divmod(self.leaves.index(name), len(ascii_uppercase))
        return ascii_uppercase[place] + (str(turn + 1) if turn else "")


def whole(playbook: Playbook, words: Words = ENGLISH) -> str:
    """All of a playbook."""
    numbers = Numbering(playbook, words)
    lines = [*opening(numbers), ""]
    for name in numbers.nodes:
        lines += [*question(numbers, name), *_ways(numbers, name), ""]
    lines += [words("playbook.ends"), ""]
    for name in numbers.leaves:
        lines += [*end(numbers, name), ""]
    lines += _wrapped(", ".join(_starts(playbook)), words("playbook.starts"), "  ")
    return "\n".join([*lines, f"{words('playbook.walk')}triage playbook walk {playbook.id}"]) + "\n"


def opening(numbers: Numbering) -> list[str]:
    """What it is about, and where to look first."""
    playbook = numbers.playbook
    means = [*_wrapped(playbook.means, ""), ""] if playbook.means else []
    return [playbook.title, "", *means, *_wrapped(playbook.look_first, numbers.words("playbook.first"), "  ")]


def _starts(playbook: Playbook) -> Iterator[str]:
    for each in playbook.start_when.any or playbook.start_when.all:
        if isinstance(each, Condition):
            value = "|".join(each.value) if isinstance(each.value, list) else each.value or ""
            yield f"{each.name} {each.op} {value}".rstrip()
        else:
            yield each


def question(numbers: Numbering, name: str) -> list[str]:
    """The question with its number, and where to look."""
    node = numbers.playbook.nodes[name]
    head = f"{numbers.node(name)}. "
    lines = _wrapped(node.ask, head)
    if isinstance(node.question, OperatorQuestion) and node.question.answers:
        told = "; ".join(f"{word} = {means}" for word, means in node.question.answers.items())
        lines += _row(numbers.words("playbook.words"), told)
    return lines + (_row(numbers.words("playbook.look"), node.how) if node.how else [])


def _ways(numbers: Numbering, name: str) -> list[str]:
    lines: list[str] = []
    for answer in ANSWERS:
        lines += _row(numbers.words(f"playbook.{answer}"), _way(numbers, edge_of(numbers.playbook, name, answer)))
    return lines


def _way(numbers: Numbering, edge: Edge) -> str:
    node, leaf = target(edge)
    words = numbers.words
    if leaf in numbers.leaves:
        cause = numbers.playbook.leaves[str(leaf)].cause or leaf
        way = words("playbook.to-end", letter=numbers.leaf(str(leaf)), cause=cause)
    else:
        way = words("playbook.to-question", number=numbers.node(node)) if node in numbers.nodes else "nowhere"
    return f"{way}; {wanted(edge, words)}" if edge.collect else way


def wanted(edge: Edge, words: Words = ENGLISH) -> str:
    """What an unknown answer asks for."""
    what = edge.why or words("playbook.evidence")
    return words("playbook.get", what=what, command=f"triage collect --only {','.join(edge.collect)}")


def end(numbers: Numbering, name: str) -> list[str]:
    """An end with all that it says."""
    leaf, words = numbers.playbook.leaves[name], numbers.words
    known = causes().get(leaf.cause or "")
    title = leaf.title or (words.text(known.title) if known else name)
    lines = _wrapped(f"{title}  [{leaf.cause}, {leaf.support}]" if leaf.cause else title, f"{numbers.leaf(name)}. ")
    if known and known.means:
        lines += _row(words("playbook.means"), words.text(known.means))
    if leaf.culprits:
        lines += _row(words("playbook.who"), words("playbook.else").join(leaf.culprits.values()))
    if leaf.next_check:
        lines += [*_row(words("playbook.check"), leaf.next_check.command), *_row("", f"-> {leaf.next_check.tells}")]
    lines += _actions(leaf.actions, words)
    if leaf.repro:
        lines += _row(words("playbook.try"), f"triage repro {leaf.repro}")
    return lines + (_row(words("playbook.if-not"), ", ".join(leaf.if_not_this)) if leaf.if_not_this else [])


def _actions(actions: Sequence[Action], words: Words) -> list[str]:
    lines: list[str] = []
    for index, action in enumerate(actions):
        risk = "" if action.risk == "safe" else f"  [{words(f'risk.{action.risk}')}]"
        label = columns.padded(words("playbook.do") if index == 0 else "", _LABEL)
        lines += _wrapped(action.do + risk, f"   {label}- ", " " * (_LABEL + 5))
    return lines


def _row(label: str, text: str) -> list[str]:
    return _wrapped(text, " " * 3 + columns.padded(label, _LABEL))


def _wrapped(text: str, head: str, below: str | None = None) -> list[str]:
    """Wrapped below its own beginning, or indented by `below`; words and options stay whole, to be copied."""
    if any(char >= "\u2e80" for char in text):  # no blanks between its words, and two columns each
        return columns.wrapped(head, text, width())
    indent = " " * len(head) if below is None else below
    lines = textwrap.wrap(
        text, width(), initial_indent=head, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return lines or [head.rstrip()]
