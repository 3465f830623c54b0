"""From a hit to what a source's parser makes of it, and from that to a signature with fields and entity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from triage.matching.extract import TIMEOUT, compiled, entity, fields
from triage.matching.scanner import Hit
from triage.matching.windows import View
from triage.model.base import Record, Scalar
from triage.model.bundle import File, Gap, Window
from triage.model.event import Event, Where
from triage.model.signature import Signature

ALONE = 4  # lines around a line that stands by itself: wrapped at most
LATE = 8  # lines of a file on which the regex of one signature may run out of time before it is asked no more
TEXT = 2_000  # characters of an Event's text
Parser = Callable[[str], Any]
_OUTPUT = frozenset({"torch_log", "nccl_log", "training_log", "slurm"})  # one stream: a job's output mixes them


class Reading(Record, frozen=True, kw_only=True):
    """A signature that a line and its message satisfy."""

    signature: Signature
    event: Event
    fields: dict[str, Scalar]
    entity: dict[str, Scalar]


class Reader:
    """Reads the hits of one file. `parser(source)` is the source's module; what it cannot do becomes a gap."""

    def __init__(self, file: File, parser: Parser) -> None:
        self.file, self._parser = file, parser
        self.gaps: dict[str, Gap] = {}
        self._late = Counter[str]()
        self._sources: dict[str, str] = {}
        self._events: dict[tuple[int, str], Event] = {}

    def forget(self) -> None:
        """Drop the events of the chunk that is done."""
        self._events.clear()

    def accepts(self, signature: Signature) -> bool:
        """A weak signature counts only in files of its own kind, or in files that nothing recognises."""
        if signature.specificity == "strong" or not self.file.sources:
            return True
        return not _kinds(self.file.sources).isdisjoint(_kinds(signature.sources))

    def read(self, view: View, hit: Hit, signature: Signature) -> Reading | None:
        """The signature with its fields, or None when the line or its message does not satisfy it."""
        if self._late[signature.id] >= LATE:
            return None
        line = view.text(hit.start, hit.at)
        try:
            if not any(compiled(pattern.regex).search(line, timeout=TIMEOUT) for pattern in signature.match):
                return None
            event = self.event(view, hit, self._source(signature), _reach(signature))
            values = fields(signature, line, event.body)
            if values is None:
                values = fields(signature, event.text, event.body)
        except TimeoutError:
            self.too_long(signature.id, view.number(hit.start))
            return None
        if values is None:
            return None
        text = view.standing(hit.start, event.text)
        event = event if text == event.text else msgspec.structs.replace(event, text=text)
        hangs_on = hung_on(signature, values, event, self.file)
        return Reading(signature=signature, event=event, fields=values, entity=hangs_on)

    def event(self, view: View, hit: Hit, source: str, reach: int | None = None) -> Event:
        """What the parser of a source makes of a line; `reach` limits the lines around it."""
        key = (hit.start, source)
        event = self._events.get(key) if reach is None else None
        if event is None:
            event = self.parsed(self._window(view, hit, source, reach), source)
            if reach is None:
                self._events[key] = event
        return event

    def best_source(self, wanted: Iterable[str]) -> str:
        """The file's own best source among those wanted, else the first wanted one that reads lines."""
        wanted = list(wanted)
        order = [*(source for source in self.file.sources if source in wanted), *wanted]
        return next((source for source in order if hasattr(self._module(source), "parse")), order[0] if order else "")

    def _source(self, signature: Signature) -> str:
        if signature.id not in self._sources:
            self._sources[signature.id] = self.best_source(signature.sources)
        return self._sources[signature.id]

    def _module(self, source: str) -> Any:
        try:
            return self._parser(source)
        except ImportError:  # a signature of a site's own may name a source that this version lacks
            return None

    def _window(self, view: View, hit: Hit, source: str, reach: int | None) -> Window:
        module = self._module(source)
        before, after = getattr(module, "BEFORE", 0), getattr(module, "AFTER", 0)
        if reach is not None:
            before, after = min(before, reach), min(after, reach)
        return view.window(hit.start, before, after, hit.at)

    def parsed(self, window: Window, source: str) -> Event:
        """What the parser of a source makes of a window; the bare line when it has none or fails."""
        module = self._module(source)
        line, number = window.lines[window.hit], window.numbers[window.hit]
        if hasattr(module, "parse"):
            try:
                return _clipped(module.parse(window))
            except Exception as error:  # the parser loop: evidence is hostile, and one line must not cost the others
                self._gap(f"a line that the {source} parser cannot read ({type(error).__name__})", number)
        where = Where(file=self.file.path, line=number)
        return Event(where=where, text=line[:TEXT], body=line, source=source, node=self.file.node, rank=self.file.rank)

    def too_long(self, name: str, line: int) -> None:
        """Note that a regex did not come to an end on a line: an answer that lacks it must not look complete."""
        self._late[name] += 1
        self._gap(f"lines that the regex of {name} takes too long to read", line)

    def _gap(self, what: str, line: int) -> None:
        gap = Gap(what=f"{what}, line {line}", why="unparsable", node=self.file.node, file=self.file.path)
        self.gaps.setdefault(what, gap)


def _kinds(sources: Iterable[str]) -> set[str]:
    """The sources, with all that stand in a job's output when one of them does."""
    found = set(sources)
    return found | _OUTPUT if found & _OUTPUT else found


def _reach(signature: Signature) -> int | None:
    """Context and warnings without a condition on their message are lines by themselves: most of a long log's hits."""
    mild = signature.role == "context" or signature.severity in {"info", "warning"}
    return ALONE if mild and not any(each.message or each.unless for each in signature.match) else None


def _clipped(event: Event) -> Event:
    if len(event.text) <= TEXT:
        return event
    return msgspec.structs.replace(event, text=event.text[:TEXT])


def hung_on(signature: Signature, values: dict[str, Scalar], event: Event, file: File) -> dict[str, Scalar]:
    """Entity of a signal: what its fields name, then what the line's prefix says, then what the file's path says."""
    out = dict(_known(event, file))
    out |= entity(signature, values)
    return out


def _known(event: Event, file: File) -> Iterator[tuple[str, Scalar]]:
    for name in ("node", "rank", "local_rank", "pid"):
        value = getattr(event, name)
        value = getattr(file, name) if value is None else value
        if value is not None:
            yield name, value
