"""The catalogue as Markdown: a page a signature and an index, from the records alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from triage.model.signature import Condition, Pattern, Signature

_ROLES = {
    "root-cause": "names a root cause",
    "symptom": "shows what was observed, not why",
    "consequence": "follows from something else",
    "context": "is neither cause nor consequence",
}
_SURVIVED = {
    "survivable": "when steps follow it, it was noise",
    "degrades": "when steps follow it that are as fast as those before, it was noise",
}
_LIVE = re.compile(r"(`[^`]+`)|([\\`*_\[\]<>|#])")


def path_of(name: str) -> str:
    """Where the page of a signature lies below the folder: `gpu/foo` -> `gpu/foo.md`."""
    return f"{name}.md"


def index(signatures: Iterable[Signature]) -> str:
    """All signatures, a table a layer."""
    lines, layer = ["# Signatures"], None
    for each in sorted(signatures, key=lambda each: each.id):
        if each.layer != layer:
            layer = each.layer
            lines += ["", f"## {layer}", "", "| signature | means | role | cause |", "|---|---|---|---|"]
        link = f"[{each.id}]({path_of(each.id)})"
        lines.append(f"| {link} | {_plain(each.title)} | {each.role} | {each.cause or ''} |")
    return "\n".join(lines) + "\n"


def page(signature: Signature) -> str:
    """One signature under fixed headings; those without content are left out."""
    parts = (
        ("What to check next", _check(signature)),
        ("What to do", _actions(signature)),
        ("What it is confused with", _confusables(signature)),
        ("What it looks like", _looks(signature)),
        ("Lines that match", _matches(signature)),
        ("Lines that do not", _refusals(signature)),
        ("Where it was verified", _verified(signature)),
        ("References", _references(signature)),
    )
    out = [f"# {_plain(signature.title)}", "", _plain(signature.means), "", *_facts(signature)]
    for heading, lines in parts:
        if content := list(lines):
            out += ["", f"## {heading}", *([""] if content[0] else []), *content]
    return "\n".join(out) + "\n"


def _facts(signature: Signature) -> Iterator[str]:
    rows = {
        "id": f"`{signature.id}`",
        "role": f"{signature.role}: it {_ROLES[signature.role]}",
        "cause": f"`{signature.cause}`" if signature.cause else "",
        "severity": signature.severity,
        "specificity": signature.specificity,
        "survived": _SURVIVED.get(signature.progress, ""),
        "seen in": ", ".join(signature.sources),
        "status": signature.status,
        "playbook": f"`triage playbook show {signature.playbook}`" if signature.playbook else "",
        "vendor's action": signature.vendor_action or "",
    }
    yield from (f"- {name}: {text}" for name, text in rows.items() if text)


def _check(signature: Signature) -> Iterator[str]:
    if signature.next_check:
        yield from _fenced(signature.next_check.command)
        yield from ("", f"It tells: {_plain(signature.next_check.tells)}")


def _actions(signature: Signature) -> Iterator[str]:
    for number, action in enumerate(signature.actions, 1):
        yield f"{number}. {_plain(action.do)}" + (f" ({action.risk})" if action.risk != "safe" else "")


def _confusables(signature: Signature) -> Iterator[str]:
    up = "../" * signature.id.count("/")
    yield from (f"- [{other.id}]({up}{path_of(other.id)}): {_plain(other.tell)}" for other in signature.confused_with)


def _looks(signature: Signature) -> Iterator[str]:
    for number, pattern in enumerate(signature.match):
        yield from ("", "or", "") if number else ()
        yield from _pattern(pattern)
    if signature.facts:
        yield from ("Facts that all hold:", "", *(f"- `{_condition(each)}`" for each in signature.facts))
    if signature.fields:
        yield from ("", "| field | type | of |", "|---|---|---|")
        yield from (f"| {name} | {field.type} | {field.entity or ''} |" for name, field in signature.fields.items())


def _pattern(pattern: Pattern) -> Iterator[str]:
    yield from _fenced(pattern.regex)
    for words, expression in (("with, in the whole message", pattern.message), ("unless it holds", pattern.unless)):
        if expression:
            yield from ("", f"{words}:", "", *_fenced(expression))


def _condition(condition: Condition) -> str:
    value = condition.value if isinstance(condition.value, str) else ", ".join(condition.value or [])
    return f"{condition.name} {condition.op} {value}".strip()


def _matches(signature: Signature) -> Iterator[str]:
    for example in signature.examples.matches:
        yield from ("", *_fenced(example.text or _stated(example.facts)))
        if example.fields:
            yield from ("", "gives " + ", ".join(f"{name} = `{value}`" for name, value in example.fields.items()))


def _refusals(signature: Signature) -> Iterator[str]:
    for example in signature.examples.does_not_match:
        yield from ("", *_fenced(example.text or _stated(example.facts)), "", f"because: {_plain(example.why)}")


def _verified(signature: Signature) -> Iterator[str]:
    for each in signature.verified_in:
        yield "- " + " ".join(filter(None, (each.component, each.version, f"({each.how})" if each.how else "")))


def _references(signature: Signature) -> Iterator[str]:
    for each in signature.references:
        yield f"- [{_plain(each.title)}]({each.url})" if each.url else f"- {_plain(each.title)}"


def _stated(facts: dict[str, str]) -> str:
    return "\n".join(f"{name} = {value}" for name, value in facts.items())


def _fenced(text: str) -> list[str]:
    """Text as it is, in a fence that is longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *text.splitlines(), fence]


def _plain(text: str) -> str:
    """Text without anything that Markdown would take for its own, but for `code`."""
    return _LIVE.sub(
        lambda found: found[1].replace("|", "\\|") if found[1] else f"\\{found[2]}", " ".join(text.split())
    )
