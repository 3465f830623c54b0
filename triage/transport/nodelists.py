"""Lists of hosts as people and schedulers write them: `node[1-4,07-09]-ib,login1`."""

from __future__ import annotations

import re

from triage.errors import UsageError

MOST = 100_000  # hosts of one list
_PART = re.compile(r"\[([^\[\]]*)\]")


def expand(text: str) -> list[str]:
    """Host names in the order written, each once. Raises UsageError when the brackets say nothing."""
    found: dict[str, None] = {}
    for word in _words(text):
        for name in _expanded(word):
            found[name] = None
            if len(found) > MOST:
                raise UsageError(f"{text[:60]}: more than {MOST} hosts")
    if not found:
        raise UsageError("an empty list of hosts")
    return list(found)


def _words(text: str) -> list[str]:
    """Split at commas and blanks outside of brackets."""
    return [word for word in re.split(r"[,\s]+(?![^\[]*\])", text.strip()) if word]


def _expanded(word: str) -> list[str]:
    match = _PART.search(word)
    if match is None:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@:-]*", word):
            raise UsageError(f"{word!r} is no host name")
        return [word]
    heads = [word[: match.start()] + number for number in _numbers(match[1])]
    return [name for head in heads for name in _expanded(head + word[match.end() :])]


def _numbers(inside: str) -> list[str]:
    found: list[str] = []
    for part in inside.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise UsageError(f"[{inside}]: ranges of hosts are numbers, such as [1-4,7]")
        count = int(last or first) - int(first) + 1
        if not 1 <= count <= MOST:
            raise UsageError(f"[{inside}]: from {first} to {last} is no range of hosts")
        found += [str(int(first) + step).zfill(len(first)) for step in range(count)]
    return found
