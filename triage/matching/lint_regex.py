"""Is a regex fit for use: does it compile, does the scanner take it, is it rare and is it fast?"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import regex

from triage.matching.engines import Expression, refusal, refused
from triage.matching.expressions import pieces
from triage.matching.extract import compiled
from triage.matching.shapes import fixed, open_repeats
from triage.matching.windows import LINE
from triage.model.signature import Pattern

LEAST = 4  # characters of a fixed part: below, the scanner stops at every other line
_TRIES = 3
SLOW = 0.05  # seconds for the longest line that is read; a thousand such lines would be a minute
_GROWTH = 2.6  # times as long for twice the text: linear is 2, quadratic 4
_SHORT, _QUICK = 1_024, 0.0005  # a text of so many characters that takes less than this needs no second look
_PUMPS = ("0", "a", " ", "\n")
_SHOWN = 400  # characters of an example that an expression without a match in it is tried on
_CUTS = 5  # places within a match where it is broken off


def faults(
    pattern: Pattern, lines: list[str], refused: dict[str, str], bodies: list[str] | None = None
) -> Iterator[tuple[str, str]]:
    """(key of the pattern, what is wrong) of each fault.

    lines: examples, from which near misses are made; bodies: the same as whole messages. refused: what `refusals` says.
    """
    broken = False
    for key, expression in (("regex", pattern.regex), ("message", pattern.message), ("unless", pattern.unless)):
        if expression is not None and (what := _syntax(expression)):
            broken = True
            yield key, what
    if not broken:
        yield from (("regex", what) for what in _scanning(pattern, refused.get(pattern.regex)))
        yield from (("regex", what) for what in _style(pattern.regex))
        yield from _slow(pattern, lines, lines if bodies is None else bodies)


def _slow(pattern: Pattern, lines: list[str], bodies: list[str]) -> Iterator[tuple[str, str]]:
    for key, expression, texts in (
        ("regex", pattern.regex, lines), ("message", pattern.message, bodies), ("unless", pattern.unless, bodies),
    ):  # fmt: skip
        if expression is not None and (slow := slowness(expression, tuple(texts))):
            yield key, slow


def compiles(pattern: Pattern) -> bool:
    """Are all its expressions regexes at all?"""
    return not any(each and _syntax(each) for each in (pattern.regex, pattern.message, pattern.unless))


def usable(pattern: Pattern, refused: dict[str, str]) -> bool:
    """Can it be scanned for, fully or as a prefilter?"""
    if not compiles(pattern):
        return False
    return pattern.regex not in refused or refusal(Expression(pattern.regex, prefilter=True)) is None


def _syntax(expression: str) -> str | None:
    try:
        compiled(expression)
    except regex.error as error:
        return f"no regex: {error}"
    return None


def _scanning(pattern: Pattern, why: str | None) -> Iterator[str]:
    if why and not pattern.prefilter:
        yield f"hyperscan takes it only as a prefilter, if at all ({why}); say why it must be so in `prefilter`"
    if pattern.prefilter and not why:
        yield "hyperscan takes it fully: `prefilter` is not needed"
    if pattern.prefilter and (worse := refusal(Expression(pattern.regex, prefilter=True))):
        yield f"hyperscan refuses it even as a prefilter: {worse}"
    if any(part.startswith("[") and not part.isascii() for part in pieces(pattern.regex)):
        yield "a class of characters beyond ASCII: write alternatives, the scanner works on bytes"


def refusals(patterns: Iterable[Pattern]) -> dict[str, str]:
    """Why hyperscan does not take a regex fully, for each that it does not; asked in bulk, which is quicker."""
    some = [Expression(pattern.regex) for pattern in patterns]
    return {each.regex: why for each, why in refused(some)}


def _style(expression: str) -> Iterator[str]:
    length = fixed(expression)
    if length < LEAST:
        yield f"the longest text that must stand in the line has {length} characters, at least {LEAST} are needed"
    if open_repeats(expression) > 1:
        yield r"more than one open repeat of any character: bound them, as in [^\n]{0,200}?"
    if pieces(expression)[:1] in (["^"], [r"\A"]):
        yield "starts with an anchor, but lines carry prefixes (time, rank, host)"


def slowness(expression: str, lines: tuple[str, ...]) -> str | None:
    """How long a near miss takes, when that is too long and grows faster than its length; else None."""
    for near in _near_misses(expression, lines):
        short = _seconds(expression, near, _SHORT)
        if short < _QUICK:
            continue
        if short >= 10 * SLOW:
            return f"super-linear: no end within {short * 1000:.0f} ms for {_SHORT} characters like {near.text(32)!r}"
        whole = min(_too_slow(expression, near) for _ in range(_TRIES))  # a busy machine is slow, but not each time
        if whole:
            return f"super-linear: {whole * 1000:.0f} ms for {LINE} characters like {near.text(len(near.rest) + 32)!r}"
    return None


def _too_slow(expression: str, near: _Near) -> float:
    """Seconds of a whole line, 0 when they are few or grow no faster than the line."""
    half, whole = _seconds(expression, near, LINE // 2), _seconds(expression, near, LINE)
    return whole if whole >= 10 * SLOW or (whole > SLOW and whole > _GROWTH * half) else 0.0


class _Near(NamedTuple):
    """A match broken off after `start` and drawn out by `pump`; its rest stands behind a NUL, which nothing takes."""

    start: str
    pump: str
    rest: str

    def text(self, length: int) -> str:
        inner = max(length - len(self.rest) - 1, 0)
        return (self.start + self.pump * (inner // len(self.pump) + 1))[:inner] + "\0" + self.rest


def _near_misses(expression: str, lines: tuple[str, ...]) -> Iterator[_Near]:
    """Made from the first line that matches; an expression that matches none of them is tried on the first line."""
    hits = (found.group() for line in lines if (found := compiled(expression).search(line)) and found.group())
    text = next(hits, "".join(lines[:1])[:_SHOWN])
    for cut in sorted({max(1, len(text) * part // _CUTS) for part in range(1, _CUTS)} if text else set()):
        start, rest = text[:cut], text[cut:]
        yield _Near("", start, rest)
        yield from (_Near(start, pump, rest) for pump in sorted({start[-1], *_PUMPS}))


def _seconds(expression: str, near: _Near, length: int) -> float:
    """Processor time of one search, the better of two; a search that does not end counts as ten times too slow."""
    text, best = near.text(length), float("inf")
    for _ in range(2):
        begin = time.thread_time()
        try:
            compiled(expression).search(text, timeout=10 * SLOW)
        except TimeoutError:
            return 10 * SLOW
        best = min(best, time.thread_time() - begin)
        if best < _QUICK:
            break
    return best
