"""Two engines that find which of many regexes match where: hyperscan, and RE2 where hyperscan has no wheel.

An engine answers two questions: `ends` (where in a large buffer, or None when there are too many to report one by one)
and `which` (the expressions that match anywhere in a small buffer).
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections.abc import Iterator, Sequence
from functools import cache as cache_once
from typing import Any, NamedTuple, Protocol

from triage.errors import ContentError
from triage.matching import cache
from triage.matching.expressions import relaxed, scannable

try:
    import hyperscan as hs

    FAST = True
except ImportError:  # no wheel for this machine
    FAST = False

_REWRITING = scannable.__module__  # its code is part of what a stored database is made from
STORM = 16_384  # reports from one buffer; beyond, one by one is slower (0.5 µs each) than asking block by block
_BLOCK = 65_536  # bytes that RE2 looks at before it goes line by line
_RE2_MEMORY = 256 << 20  # bytes RE2 may use for its automaton; below about 64 MiB 500 expressions no longer fit


class Expression(NamedTuple):
    """A regex as its author wrote it, and whether the engine may take it as a prefilter."""

    regex: str
    prefilter: bool = False


class Engine(Protocol):
    """What the scanner asks of an engine."""

    def ends(self, data: bytes) -> list[tuple[int, int]] | None:
        """(offset of a byte in the line, expression) of each match, unsorted, repeated; None when they are a storm."""

    def which(self, data: bytes) -> list[int]:
        """Expressions that match in the buffer."""

    def firsts(self, data: bytes) -> list[tuple[int, int]]:
        """As `ends`, of each expression the first match alone."""

    def some(self, numbers: Sequence[int]) -> Engine:
        """An engine of some of the expressions, numbered anew; not kept on disk."""


def best(expressions: Sequence[Expression]) -> Engine:
    """Hyperscan when it is there and finds what it should, else RE2; a faulty hyperscan only where there is no RE2.

    Raises ContentError for an expression that the engine refuses.
    """
    if sound() or (FAST and importlib.util.find_spec("re2") is None):
        return Hyperscan(expressions)
    return Re2(expressions)


@cache_once
def sound() -> bool:
    """Is hyperscan there, and of a build without the known fault?

    Vectorscan 5.4.12 (hyperscan 0.7.23 to 0.9.1) skips matches when expressions of one database begin with the same two
    classes: its search for the pair misses one whose first byte is the last of a vector (VectorCamp/vectorscan#358).
    """
    return FAST and all(_finds(number) for number in range(64))


@cache_once
def _pair() -> Hyperscan:
    return Hyperscan([Expression(r"\[\d+\] abcdefgh"), Expression(r"\[\d+\] " + "z" * 60)])


def _finds(distance: int) -> bool:
    return _pair().which(b"x" * distance + b"[0] abcdefgh") == [0]


class Hyperscan:
    """All expressions in one database; a scratch space for each thread. Scanning releases the interpreter lock."""

    def __init__(self, expressions: Sequence[Expression], stored: bool = True) -> None:
        self._expressions = expressions
        self._every = _Compiled(expressions, 0, stored)
        self._once = _Compiled(expressions, hs.HS_FLAG_SINGLEMATCH, stored)

    def ends(self, data: bytes) -> list[tuple[int, int]] | None:
        """See Engine. A line end that an expression crossed counts to the line before it."""
        found: list[tuple[int, int]] = []

        def report(index: int, _start: int, end: int, _flags: int, _context: Any) -> bool:
            found.append((end - 1, index))
            return len(found) > STORM

        try:
            self._every.scan(data, report)
        except hs.ScanTerminated:
            return None
        return found

    def which(self, data: bytes) -> list[int]:
        """See Engine. Each expression reports once, however often it matches."""
        return sorted({index for _, index in self.firsts(data)})

    def firsts(self, data: bytes) -> list[tuple[int, int]]:
        """See Engine."""
        found: list[tuple[int, int]] = []
        self._once.scan(data, lambda index, _start, end, _flags, _context: found.append((end - 1, index)))
        return found

    def some(self, numbers: Sequence[int]) -> Hyperscan:
        """See Engine."""
        return Hyperscan([self._expressions[number] for number in numbers], stored=False)


class _Compiled:
    """A database that is compiled, or read from the cache, at its first use."""

    def __init__(self, expressions: Sequence[Expression], flags: int, stored: bool) -> None:
        self._expressions, self._flags, self._stored = expressions, flags, stored
        self._lock, self._local = threading.Lock(), threading.local()
        self._database: Any = None

    def scan(self, data: bytes, report: Any) -> None:
        if not self._expressions:
            return
        scratch = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = self._local.scratch = self._open().scratch.clone()
        self._database.scan(data, match_event_handler=report, scratch=scratch)

    def _open(self) -> Any:
        with self._lock:
            if self._database is None:
                self._database = _database(self._expressions, self._flags, self._stored)
            return self._database


def _database(expressions: Sequence[Expression], flags: int, stored: bool) -> Any:
    options = [flags | _flags(each) for each in expressions]
    key = _key([each.regex.encode() for each in expressions], options) if stored else ""
    kept = cache.read(key) if stored else None
    if kept is not None and (database := _loaded(kept)) is not None:
        return database
    database = _compiled(expressions, [scannable(each.regex) for each in expressions], options)
    if stored:
        cache.write(key, hs.dumpb(database))
    return database


def _key(texts: list[bytes], options: list[int]) -> str:
    """Of the regexes as written and of the code that rewrites them: rewriting takes as long as loading a database."""
    total = hashlib.sha256(_version().encode() + b"\0" + cache.machine() + b"\0" + cache.source(_REWRITING))
    for text, option in zip(texts, options, strict=True):
        total.update(b"\0%d\0%d\0%s" % (option, len(text), text))
    return total.hexdigest()


def _version() -> str:
    return str(getattr(hs, "__version__", ""))


def _loaded(stored: bytes) -> Any:
    try:
        database = hs.loadb(stored, hs.HS_MODE_BLOCK)
        database.scratch = hs.Scratch(database)
    except hs.error:
        return None
    return database


def _compiled(expressions: Sequence[Expression], texts: list[bytes], options: list[int]) -> Any:
    database = hs.Database(mode=hs.HS_MODE_BLOCK)
    try:
        database.compile(expressions=texts, ids=list(range(len(texts))), elements=len(texts), flags=options)
    except hs.error:
        options = [option if refusal(each) is None else option | hs.HS_FLAG_PREFILTER
                   for each, option in zip(expressions, options, strict=True)]  # fmt: skip
        refused = [each.regex for each in expressions if refusal(each) and refusal(each._replace(prefilter=True))]
        if refused:
            raise ContentError([f"hyperscan refuses {each!r}" for each in refused]) from None
        database.compile(expressions=texts, ids=list(range(len(texts))), elements=len(texts), flags=options)
    return database


def refused(expressions: Sequence[Expression]) -> Iterator[tuple[Expression, str]]:
    """Those that hyperscan does not take, with the reason. They are tried together, and in halves when that fails."""
    why = _why_not(expressions) if expressions else None
    if why is not None and len(expressions) == 1:
        yield expressions[0], why
    elif why is not None:
        middle = len(expressions) // 2
        yield from refused(expressions[:middle])
        yield from refused(expressions[middle:])


def refusal(expression: Expression) -> str | None:
    """Why hyperscan does not take one expression, or None when it does (or when it is not installed)."""
    return _why_not([expression])


def _why_not(expressions: Sequence[Expression]) -> str | None:
    if not FAST:
        return None
    texts = [scannable(each.regex) for each in expressions]
    try:
        hs.Database(mode=hs.HS_MODE_BLOCK).compile(
            expressions=texts,
            ids=list(range(len(texts))),
            elements=len(texts),
            flags=[_flags(each) for each in expressions],
        )
    except hs.error as error:
        return str(error)
    return None


def _flags(expression: Expression) -> int:
    return int(hs.HS_FLAG_MULTILINE | (hs.HS_FLAG_PREFILTER if expression.prefilter else 0))


class Re2:
    """All expressions in one RE2 set, which tells which match but not where: blocks first, then lines."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        import re2

        options = re2.Options()
        options.max_mem, options.log_errors, options.never_nl = _RE2_MEMORY, False, False
        options.encoding = re2.Options.Encoding.LATIN1
        self._set = re2.Set.SearchSet(options)
        for each in expressions:
            text = relaxed(each.regex)
            try:
                self._set.Add(b"(?m)" + text)
            except re2.error as error:
                raise ContentError([f"RE2 refuses {each.regex!r}: {error}"]) from None
        self._expressions = expressions
        self._set.Compile()

    def ends(self, data: bytes) -> list[tuple[int, int]] | None:
        """See Engine; the offset is that of the line's first byte."""
        found: list[tuple[int, int]] = []
        start = 0
        while start < len(data):
            stop = data.find(b"\n", min(start + _BLOCK, len(data))) + 1 or len(data)
            if self.which(data[start:stop]):
                found += self._lines(data, start, stop)
            start = stop
        return found

    def _lines(self, data: bytes, start: int, stop: int) -> list[tuple[int, int]]:
        found = []
        while start < stop:
            end = data.find(b"\n", start, stop)
            end = stop if end < 0 else end
            found += [(start, index) for index in self.which(data[start:end])]
            start = end + 1
        return found

    def which(self, data: bytes) -> list[int]:
        """See Engine."""
        return sorted(self._set.Match(data) or []) if self._expressions and data else []

    def firsts(self, data: bytes) -> list[tuple[int, int]]:
        """See Engine; the offset is that of the line's first byte."""
        first: dict[int, int] = {}
        for offset, index in self.ends(data) or ():
            first.setdefault(index, offset)
        return [(offset, index) for index, offset in first.items()]

    def some(self, numbers: Sequence[int]) -> Re2:
        """See Engine."""
        return Re2([self._expressions[number] for number in numbers])
