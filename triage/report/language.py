"""Languages of the report. English stands in the code and the content; others in triage/data/i18n/<lang>.yaml.

A translation is keyed by id and field. What it does not hold is told in English; `faults` says what that is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from triage import content
from triage.errors import UsageError
from triage.model.base import Spec
from triage.model.signature import Action, Cause
from triage.report.phrases import PHRASES


class Translation(Spec, frozen=True, kw_only=True):
    """One language. causes: title, means, tells and actions (in the order of causes.yaml) by id."""

    language: str
    wording: dict[str, str]
    causes: dict[str, dict[str, str | list[str]]] = {}
    signatures: dict[str, dict[str, str]] = {}
    playbooks: dict[str, dict[str, str]] = {}


class Words:
    """Says things in one language."""

    def __init__(self, tag: str = "en", translation: Translation | None = None) -> None:
        self.tag = tag
        self._own = translation
        self._known = _known(translation) if translation else {}

    def __call__(self, key: str, **values: object) -> str:
        """The phrase of a key, filled in. Raises KeyError for a key that no code should use."""
        english = PHRASES[key]
        told = self._own.wording.get(key, english) if self._own else english
        return told.format(**values)

    def has(self, key: str) -> bool:
        """Is there such a phrase?"""
        return key in PHRASES

    def text(self, english: str) -> str:
        """A text of causes.yaml (title, meaning, action, what a check tells), translated when it is one."""
        return self._known.get(english, english)

    def actions(self, cause: str) -> list[Action]:
        """The actions of a cause that are translated (their text is the English one); none in English."""
        if self._own is None or cause not in _causes():
            return []
        return [each for each in _causes()[cause].actions if each.do in self._known]

    def signature(self, identity: str, english: str) -> str:
        """Title of a signature."""
        return self._own.signatures.get(identity, {}).get("title", english) if self._own else english

    def playbook(self, identity: str, english: str) -> str:
        """Title of a playbook."""
        return self._own.playbooks.get(identity, {}).get("title", english) if self._own else english


ENGLISH = Words()


@cache
def words(tag: str | None) -> Words:
    """The language of a tag: `zh`, `zh-CN` and `zh_CN.UTF-8` are all zh; None and `en` English. Raises UsageError."""
    short = re.split(r"[-_.@]", (tag or "en").lower())[0]
    if short in {"en", "c", "posix", ""}:
        return ENGLISH
    path = folder() / f"{short}.yaml"
    if not re.fullmatch(r"[a-z]{2,3}", short) or not path.is_file():
        raise UsageError(f"no language {tag!r}; there are: {', '.join(['en', *languages()])}")
    return Words(short, content.load(path, Translation))


def folder() -> Path:
    """Where translations lie."""
    return content.data("i18n")


def languages() -> list[str]:
    """Tags of all translations."""
    return sorted(path.stem for path in folder().glob("*.yaml"))


@cache
def _causes() -> dict[str, Cause]:
    return {cause.id: cause for cause in content.load(content.data("causes.yaml"), list[Cause])}


def _known(translation: Translation) -> dict[str, str]:
    """English text -> translation, over all causes."""
    known: dict[str, str] = {}
    for identity, fields in translation.causes.items():
        if cause := _causes().get(identity):
            known |= dict(_pairs(cause, fields))
    return known


def _pairs(cause: Cause, fields: Mapping[str, str | list[str]]) -> Iterator[tuple[str, str]]:
    english = {"title": cause.title, "means": cause.means, "tells": cause.next_check.tells if cause.next_check else ""}
    for name, text in english.items():
        if text and isinstance(told := fields.get(name), str):
            yield text, told
    actions = fields.get("actions", [])
    if isinstance(actions, list):
        yield from zip((action.do for action in cause.actions), actions, strict=False)


def faults(tag: str) -> list[str]:
    """What a translation lacks, or holds without an original, one line each, `i18n/zh.yaml: what`."""
    path = folder() / f"{tag}.yaml"
    own = content.load(path, Translation)
    found = [*_phrase_faults(own), *_cause_faults(own), *_strangers(own)]
    return [f"i18n/{path.name}: {fault}" for fault in found]


def _phrase_faults(own: Translation) -> Iterator[str]:
    for key, english in PHRASES.items():
        if key not in own.wording:
            yield f"wording {key} is untranslated"
        elif _slots(own.wording[key]) != _slots(english):
            yield f"wording {key} must have the places {sorted(_slots(english))}"


def _slots(phrase: str) -> set[str]:
    return set(re.findall(r"{(\w+)[^}]*}", phrase))


def _cause_faults(own: Translation) -> Iterator[str]:
    for identity, cause in _causes().items():
        fields = own.causes.get(identity, {})
        yield from (f"cause {identity}: {name} is untranslated" for name in ("title", "means") if name not in fields)
        if "actions" in fields and len(fields["actions"]) != len(cause.actions):
            yield f"cause {identity}: has {len(cause.actions)} actions"


def _strangers(own: Translation) -> Iterator[str]:
    yield from (f"wording {key}: no such phrase" for key in own.wording if key not in PHRASES)
    yield from (f"cause {identity}: no such cause" for identity in own.causes if identity not in _causes())
    for kind, told in (("signatures", own.signatures), ("playbooks", own.playbooks)):
        known = {_identity(path, kind) for path in content.files(kind)}
        yield from (f"{kind} {identity}: no such id" for identity in told if identity not in known)


def _identity(path: Path, kind: str) -> str:
    return f"{path.parent.name}/{path.stem}" if kind == "signatures" else path.stem
