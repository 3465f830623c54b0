"""Lines of a log made from an entry of the fault catalogue: its literals, its variants and its pattern, filled in.

An entry says how a message is spelled in pieces (`literals`, quoted texts in `variants`, regex fragments of `fields`);
a log has whole lines. Where no piece makes one, fact_frames.yaml has what a program prints around the literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import yaml

try:
    from re import _constants as codes  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as codes
    import sre_parse as parser

Entry = dict[str, Any]

# What stands before a message, by the catalogue's name of the source.
BEFORE = {
    "dmesg": "[ 8123.456789] ",
    "nccl-log": "node017:4021:4188 [3] NCCL WARN ",
    "slurm": "",
    "stderr": "",
    "k8s": "",
    "nvml": "",
    "sysfs": "",
}
_FILL = {"N": "7", "M": "7", "X": "7", "T": "7", "H": "node017", "P": "29500", "C": "1", "NAME": "mlx5_0"}
_SEEN = "message text also seen: "


def lines(entry: Entry) -> list[str]:
    """Whole lines (some frames have several), most literal first, without doubles."""
    found = [*_framed(entry), *(line for text in _texts(entry) for line in _dressed(entry, text))]
    return list(dict.fromkeys(line for line in found if line.strip()))


@cache
def frames() -> dict[str, list[str]]:
    """What stands around literals, by id or by the beginning of ids."""
    loaded: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("fact_frames.yaml").read_text())
    return loaded


def _framed(entry: Entry) -> Iterator[str]:
    literals = entry["literals"]
    for wanted, texts in frames().items():
        for frame in texts if fnmatchcase(entry["id"], wanted) else ():
            for number, literal in enumerate(literals):
                yield frame.replace("{0}", literals[0]).replace("{1}", literals[-1]).replace("{}", literal)
                if "{}" not in frame or (entry.get("match") == "all" and number):
                    break


def literal_lines(entry: Entry) -> list[str]:
    """What the catalogue gives word for word: each literal, or all of them in one line where all are wanted."""
    if entry.get("codes"):
        return [f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=4021, name=python, Ch 00000008" for code in entry["codes"]]
    if entry.get("match") == "all":
        return [_joined(entry["literals"])]
    return list(entry["literals"])


def _texts(entry: Entry) -> Iterator[str]:
    bases = literal_lines(entry)
    for base in bases:
        yield base
        yield _with_fields(entry, base)
    for variant in map(str, entry["variants"]):
        if variant.startswith(_SEEN):
            yield bases[0] + variant.removeprefix(_SEEN)
            yield variant.removeprefix(_SEEN)
        for quoted in re.findall(r'"([^"]{6,})"', variant):
            yield _filled(quoted)
            yield bases[0] + _filled(quoted)
        yield _filled(variant)
    if pattern := entry.get("pattern"):
        yield sample(pattern)


def _dressed(entry: Entry, text: str) -> Iterator[str]:
    """The bare text, and the text where its source prints it, with something behind it."""
    before = "" if "NCCL" in text else BEFORE.get(entry["source"], "")
    yield from (before + text, before + text + " 7 x", before + text + "7")
    if before:
        yield text


def _joined(literals: list[str]) -> str:
    """All literals in one line; a PCI address stands between the opening and the closing of an Xid."""
    line = literals[0]
    for each in literals[1:]:
        between = "PCI:0000:3b:00" if line.endswith("(") and each.startswith(")") else "7 "
        line += each if line.endswith(each[:2]) else between + each
    return line


def _with_fields(entry: Entry, text: str) -> str:
    """The text followed by a sample of each field, where the text does not hold the field already."""
    for expression in entry["fields"].values():
        try:
            if re.search(expression, text):
                continue
            more = sample(expression)
        except (re.error, KeyError, NotImplementedError):
            continue
        text = _merged(text, more)
    return text


def _merged(text: str, more: str) -> str:
    """`... to peer` and `peer 10.0.3.17` -> `... to peer 10.0.3.17`."""
    for size in range(min(len(text), len(more)), 1, -1):
        if text.endswith(more[:size]):
            return text + more[size:]
    return f"{text}{'' if text[-1:] in ' (' else ' '}{more}"


def _filled(text: str) -> str:
    """Placeholders of a variant as values: `rank N`, `%s`, `<name>`, `...`, `..`."""
    text = re.sub(r"<[a-z ]+>|%[sdlux]+|\.{2,3}", "7", text)
    return re.sub(r"\b(?:[NMXTHPC]|NAME)\b", lambda found: _FILL[found[0]], text)


def sample(expression: str) -> str:
    """A short text that the regex matches; alternatives give their first, repeats their least (at least one)."""
    return "".join(map(_piece, parser.parse(expression)))


def _piece(part: tuple[Any, Any]) -> str:
    kind, value = part
    if kind == codes.LITERAL:
        return chr(value)
    if kind == codes.ANY:
        return "x"
    if kind == codes.NOT_LITERAL:
        return "x" if chr(value) != "x" else "y"
    if kind == codes.IN:
        return _member(value)
    if kind == codes.BRANCH:
        return "".join(map(_piece, value[1][0]))
    if kind == codes.SUBPATTERN:
        return "".join(map(_piece, value[3]))
    if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        least, most, inner = value
        return "".join(map(_piece, inner)) * min(max(least, 1), most)
    if kind in (codes.AT, codes.ASSERT_NOT):
        return ""
    if kind == codes.ASSERT:
        return "".join(map(_piece, value[1]))
    raise NotImplementedError(str(kind))


def _member(members: list[tuple[Any, Any]]) -> str:
    """A character of a class, a digit when there is a choice."""
    wanted = re.compile("[" + "".join(map(_class_text, members)) + "]")
    return next(char for char in "71ax_ .-/:" + "".join(map(chr, range(33, 127))) if wanted.match(char))


def _class_text(member: tuple[Any, Any]) -> str:
    kind, value = member
    if kind == codes.NEGATE:
        return "^"
    if kind == codes.LITERAL:
        return re.escape(chr(value))
    if kind == codes.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    return {
        codes.CATEGORY_DIGIT: r"\d", codes.CATEGORY_NOT_DIGIT: r"\D", codes.CATEGORY_SPACE: r"\s",
        codes.CATEGORY_NOT_SPACE: r"\S", codes.CATEGORY_WORD: r"\w", codes.CATEGORY_NOT_WORD: r"\W",
    }[value]  # fmt: skip
