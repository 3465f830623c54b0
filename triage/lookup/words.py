"""Free words: what speaks of all of them, and the nearest names when nothing does."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import re
from collections.abc import Iterator
from functools import cache

import msgspec

from triage import content
from triage.lookup import names, numbers
from triage.matching import cache as stored
from triage.matching.loading import catalogue
from triage.model.environment import Variable
from triage.model.lookup import ExitCode, State
from triage.model.playbook import Playbook
from triage.model.signature import Signature

_SHOWN = 30  # ids told at most
_CLOSE = 0.45  # likeness of names that is worth telling
_PRINTED = "\0"  # stands between what is told of a signature and what is printed
_FILLING = re.compile("a|an|and|are|does|do|how|i|in|is|it|mean|means|my|of|on|the|to|was|what|why")
_PUNCTUATION = re.compile(r"[:()\[\]=]")


def like_a_line(query: str) -> bool:
    """More than a name: a line of a log has several words, or the punctuation of one."""
    return len(query.split()) > 2 or bool(_PUNCTUATION.search(query))


def search(query: str) -> list[str]:
    """Ids of all that holds every word but those that only fill a question.

    In the name or title first, then in what it means, then in what is printed.
    """
    asked = [word.lower() for word in re.findall(r"[\w./-]+", query)]
    wanted = [word for word in asked if not _FILLING.fullmatch(word)]
    if not wanted:
        return []
    ranked = []
    for position, (name, title, text) in enumerate(_all()):
        head = f"{name} {title}".lower()
        if all(word in head or word in text for word in wanted):
            told = text.partition(_PRINTED)[0]
            rank = (
                0 if all(word in head for word in wanted) else 1 + any(word not in f"{head} {told}" for word in wanted)
            )
            ranked.append((rank, position, name))
    return list(dict.fromkeys(name for _, _, name in sorted(ranked)))[:_SHOWN]


def nearest(query: str) -> list[str]:
    """Names that are spelled alike."""
    known = {name.lower(): name for name in _names()}
    return [known[close] for close in difflib.get_close_matches(query.lower(), list(known), 5, _CLOSE)]


def _names() -> Iterator[str]:
    for name, _, _ in _all():
        yield name
        yield name.rpartition("/")[2]
    yield from (row.state for row in content.load(content.data("states.yaml"), list[State]))
    yield from (row.name for row in numbers.table("exit_codes.yaml", ExitCode))


@cache
def _all() -> list[tuple[str, str, str]]:
    """(id, title, further text in small letters) of everything that words may find, the most general first.

    Kept in the cache under the digest of all content, for it reads every file of it.
    """
    key = hashlib.sha256(f"words {content.digest()}".encode()).hexdigest()
    if (known := stored.read(key)) is not None:
        with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
            return msgspec.msgpack.decode(known, type=list[tuple[str, str, str]])
    found = _read()
    stored.write(key, msgspec.msgpack.encode(found))
    return found


def _text(signature: Signature) -> str:
    """What it means, and examples of what is printed."""
    printed = " ".join(example.text for example in signature.examples.matches)
    return f"{signature.means}{_PRINTED}{printed}".lower()


def _read() -> list[tuple[str, str, str]]:
    out = [(each.id, each.title, each.means.lower()) for each in names.causes().values()]
    for path in content.files("playbooks"):
        found = content.load(path, Playbook)
        out.append((found.id, found.title, found.look_first.lower()))
    out += [(each.id, each.title, _text(each)) for each in catalogue().values()]
    variables = content.load(content.data("environment.yaml"), list[Variable])
    out += [(each.name, each.does, (each.harm or "").lower()) for each in variables]
    return out
