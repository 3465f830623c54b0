"""Languages of the report. English stands in the code and the content.

A language is `triage/data/i18n/<lang>.yaml` with the phrases, and the folder of that name with the texts of causes,
playbooks and signatures (`translations.py`). What they do not hold is told in English; `faults` and `shares` say what.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from triage import content
from triage.errors import UsageError
from triage.model.base import Spec
from triage.model.report import Report
from triage.model.signature import Action, Cause
from triage.report import translations
from triage.report.phrases import PHRASES

T = TypeVar("T")
LONGEST = 600  # characters of a sentence whose form is looked for: names of files stand in it


class Translation(Spec, frozen=True, kw_only=True):
    """One language: its own name, and every phrase by key."""

    language: str
    wording: dict[str, str]


class Words:
    """Says things in one language. known: English text -> translation."""

    def __init__(self, tag: str = "en", translation: Translation | None = None, known: dict[str, str] | None = None):
        self.tag = tag
        self._own = translation
        self.known = known or {}
        self._complete = False

    def about(self, report: Report) -> Words:
        """These words with what they know of a report's causes, playbooks and signatures."""
        if self._own is None:
            return self
        found = Words(self.tag, self._own, self.known | _told(self._folder, _named_by(report)))
        found._complete = all(each.do in found.known for best in report.hypotheses for each in best.actions)
        return found

    @property
    def _folder(self) -> Path:
        return folder() / self.tag

    def __call__(self, key: str, **values: object) -> str:
        """The phrase of a key, filled in. Raises KeyError for a key that no code should use."""
        english = PHRASES[key]
        told = self._own.wording.get(key, english) if self._own else english
        return told.format(**values)

    def has(self, key: str) -> bool:
        """Is there such a phrase?"""
        return key in PHRASES

    def text(self, english: str) -> str:
        """A text of the content (title, meaning, question, action, what a check tells), translated when it is one."""
        return self.known.get(english) or self._sentence(english)

    def _sentence(self, english: str) -> str:
        """A sentence that reasoning made, by its form; others as they are."""
        for key, form in _forms() if self._own and len(english) <= LONGEST else ():
            if found := form.fullmatch(english):
                return self(key, **found.groupdict())
        return english

    def actions(self, cause: str) -> list[Action]:
        """The actions of a cause that are translated (their text is the English one), when those of a report are not.

        They lead then, so that what is read first can be read.
        """
        if self._own is None or self._complete or not isinstance(found := translations.english("causes", cause), Cause):
            return []
        return [each for each in found.actions if each.do in self.known]

    def signature(self, identity: str, english: str) -> str:
        """Title of a signature."""
        return translations.by_key(self._folder, "signatures", identity).get("title", english) if self._own else english

    def playbook(self, identity: str, english: str) -> str:
        """Title of a playbook."""
        return translations.by_key(self._folder, "playbooks", identity).get("title", english) if self._own else english

    def asks(self, playbook: str) -> dict[str, str]:
        """Node -> its question as translated."""
        found = translations.by_key(self._folder, "playbooks", playbook) if self._own else {}
        return {key.split(".")[1]: text for key, text in found.items() if key.endswith(".ask")}


def _named_by(report: Report) -> Iterator[tuple[str, str]]:
    """Kinds and ids that a report speaks of."""
    for best in report.hypotheses:
        yield ("causes", best.cause)
        yield from (("playbooks", name) for name in [best.playbook] if name)
        yield from (("signatures", each.signature) for each in best.evidence if each.signature)
        yield from (("signatures", name) for name in best.explains)
    if any(best.missing for best in report.hypotheses):  # any walked playbook can have asked for it
        yield from (("playbooks", name) for name in translations.ids("playbooks"))
    for row in report.timeline:  # a line of several signatures is cited once
        yield ("signatures", row.signature)
        yield from (("rules", name) for name in [row.rule] if name)


def _told(place: Path, ids: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for kind, name in dict.fromkeys(ids):
        found |= translations.told(place, kind, name)
    return found


ENGLISH = Words()


@cache
def _forms() -> list[tuple[str, re.Pattern[str]]]:
    """Keys of sentences with what recognises them; a slot holds anything."""
    forms = []
    for key, phrase in PHRASES.items():
        if key.startswith("sentence."):
            parts = re.split(r"{(\w+)}", phrase)
            pattern = "".join(f"(?P<{part}>.+?)" if at % 2 else re.escape(part) for at, part in enumerate(parts))
            forms.append((key, re.compile(pattern)))
    return forms


@cache
def words(tag: str | None) -> Words:
    """The language of a tag: `zh`, `zh-CN` and `zh_CN.UTF-8` are all zh; None and `en` English. Raises UsageError."""
    short = re.split(r"[-_.@]", (tag or "en").lower())[0]
    if short in {"en", "c", "posix", ""}:
        return ENGLISH
    path = folder() / f"{short}.yaml"
    if not re.fullmatch(r"[a-z]{2,3}", short) or not path.is_file():
        raise UsageError(f"no language {tag!r}; there are: {', '.join(['en', *languages()])}")
    known = _told(folder() / short, (("causes", name) for name in translations.ids("causes")))
    return Words(short, content.load(path, Translation), known)


def folder() -> Path:
    """Where translations lie."""
    return content.data("i18n")


def languages() -> list[str]:
    """Tags of all translations."""
    return sorted(path.stem for path in folder().glob("*.yaml"))


def translated(record: T, words: Words, *ids: tuple[str, str]) -> T:
    """A record with all that a person reads in another language; ids: kinds and names whose texts it holds."""
    return _rewritten(record, words.known | _told(folder() / words.tag, ids)) if words.tag != "en" else record


def _rewritten(record: T, known: dict[str, str]) -> T:
    """Every text that is known is replaced, wherever it stands."""

    def said(value: object) -> object:
        if isinstance(value, str):
            return known.get(value, value)
        if isinstance(value, list):
            return [said(each) for each in value]
        return {key: said(each) for key, each in value.items()} if isinstance(value, dict) else value

    return msgspec.convert(said(msgspec.to_builtins(record)), type(record))


def faults(tag: str) -> list[str]:
    """What a language must have and lacks, or holds without an original, one line each, `where: what`.

    Phrases and causes must be complete; playbooks and signatures may be partial (`shares`).
    """
    path, place = folder() / f"{tag}.yaml", folder() / tag
    causes = translations.missing(place, "causes").items()
    found = [f"causes {name}: {what}" for name, lines in causes for what in lines]
    found += [fault for kind in translations.KINDS for fault in translations.faults(place, kind)]
    phrases = [f"i18n/{tag}.yaml: {fault}" for fault in _phrase_faults(content.load(path, Translation))]
    return phrases + [f"i18n/{tag}/{fault}" for fault in found]


def missing(tag: str) -> list[str]:
    """All that a language lacks, one line each."""
    found = {kind: translations.missing(folder() / tag, kind) for kind in translations.KINDS}
    return [f"{kind} {name}: {line}" for kind in found for name, lines in found[kind].items() for line in lines]


def shares(tag: str) -> dict[str, tuple[int, int]]:
    """Kind -> records that are translated in full, and all of them."""
    found = {kind: translations.missing(folder() / tag, kind) for kind in translations.KINDS}
    return {kind: (sum(not lines for lines in each.values()), len(each)) for kind, each in found.items()}


def _phrase_faults(own: Translation) -> Iterator[str]:
    for key, english in PHRASES.items():
        if key not in own.wording:
            yield f"wording {key} is untranslated"
        elif _slots(own.wording[key]) != _slots(english):
            yield f"wording {key} must have the places {sorted(_slots(english))}"
    yield from (f"wording {key}: no such phrase" for key in own.wording if key not in PHRASES)


def _slots(phrase: str) -> set[str]:
    return set(re.findall(r"{(\w+)[^}]*}", phrase))
