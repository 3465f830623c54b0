"""What a number, a name, a line of a log or a few words mean, told from the tables and the content alone.

Each kind of query has a module here that yields entries; only the tables that a query needs are read.
"""

from __future__ import annotations

from collections.abc import Iterator

from triage.lookup import lines, names, numbers, words
from triage.model.lookup import Answer, Entry

MOST = 6  # entries that are told in full; the rest by name


def lookup(query: str) -> Answer:
    """What the words of a command line mean. Nothing found: the nearest names."""
    query = " ".join(query.split())[:2_000]
    found = _unlike([*numbers.entries(query), *names.entries(query)])
    if not found and words.like_a_line(query):
        found = list(lines.entries(query))
    if found:
        return _answer(query, found)
    ids = words.search(query)
    told = [entry for name in ids[:MOST] for entry in names.by_id(name)]
    return Answer(query=query, found=told, further=ids[MOST:], nearest=[] if ids else words.nearest(query))


def lookup_text(text: str) -> Answer:
    """What the lines of a pasted message mean; one short line is looked up as words are."""
    stripped = text.strip()
    found = list(lines.entries(text))
    if not found and "\n" not in stripped:
        return lookup(stripped)
    return _answer(stripped[:200], found)


def _answer(query: str, found: list[Entry]) -> Answer:
    return Answer(query=query, found=found[:MOST], further=[f"{each.kind} {each.name}" for each in found[MOST:]])


def _unlike(found: list[Entry]) -> list[Entry]:
    """Each thing once, however many forms of the query lead to it."""
    seen: set[tuple[str, str]] = set()

    def first(entry: Entry) -> Iterator[Entry]:
        if (entry.kind, entry.name) not in seen:
            seen.add((entry.kind, entry.name))
            yield entry

    return [each for entry in found for each in first(entry)]
