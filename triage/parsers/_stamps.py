"""The time stamp at the head of a line, in the forms that kernels, services, launchers and loggers print.

Each form is a small anchored regex; the first character of the line picks the few that can match at all.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Callable
from datetime import date
from functools import lru_cache

from triage.model.event import Stamp

Found = tuple[Stamp, int]
_EPOCH = date(1970, 1, 1).toordinal()
HEAD = 160  # characters of a line in which a head stamp may end

_MONTHS = {
    name: index
    for index, names in enumerate(
        (
            "jan janv januar januari january ene gen sty led oca янв 1月 1월",
            "feb febr févr fév februar februari february fev lut úno şub фев 2月 2월",
            "mar mär mrz märz mars march mrt bře мар 3月 3월",
            "apr avr avril april abr kwi dub nis апр 4月 4월",
            "may mai mag maj mei kvě май мая 5月 5월",
            "jun juin juni june giu cze čen haz июн 6月 6월",
            "jul juil juli july lug lip čec tem июл 7月 7월",
            "aug août aoû august augusti ago sie srp ağu авг 8月 8월",
            "sep sept september set wrz zář eyl сен 9月 9월",
            "oct okt october oktober ott out paź říj eki окт 10月 10월",
            "nov november lis kas ноя 11月 11월",
            "dec dez déc december dezember dic gru pro ara дек 12月 12월",
        ),
        1,
    )
    for name in names.split()
}  # abbreviations of glibc's locales, of the languages in which sites are seen to run
_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)  # days of a common year

_CLOCK = r"(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?:[.,](?P<f>\d{1,9}))?"
_ZONE = r"(?: ?(?P<z>Z(?!\w)|(?:UTC|GMT|[+-]\d\d:?\d\d)(?![\w:])))?"
_MONTH = r"(?P<b>[^\W\d_]{3,9}\.?|1?\d[月월])"
_LEVEL = r"(?:INFO|WARN|WARNING|ERROR|DEBUG|CRITICAL|FATAL|TRACE|NOTICE)"

_ISO = re.compile(rf"(?P<Y>[12]\d{{3}})(?P<sep>[-/.])(?P<m>\d\d)(?P=sep)(?P<d>\d\d)[T _-]{{1,2}}{_CLOCK}{_ZONE}")
_COMPACT = re.compile(rf"(?P<Y>20\d\d)(?P<m>\d\d)(?P<d>\d\d)[ T-]{_CLOCK}{_ZONE}")
_AMERICAN = re.compile(rf"(?P<m>\d\d)/(?P<d>\d\d)/(?P<Y>\d{{4}}|\d\d),? {_CLOCK}")
_SHORT = re.compile(rf"(?P<m>[01]\d)-(?P<d>[0-3]\d) {_CLOCK}")
_DAYTIME = re.compile(rf"{_CLOCK}(?![\d:])")
_UNIX = re.compile(r"(?P<unix>1[0-9]{9}\.\d{1,9})(?![\w.:-])")
_BOOT = re.compile(r"\[ *(?P<boot>\d{1,9}\.\d{3,9})(?: *,? *[TC] *\d+| *< *\+?\d+\.\d+>)?\](?:\[ *[TC]\d+\])?")
_CTIME = re.compile(
    rf"[^\W\d_]{{1,9}}[.,]? +{_MONTH} +(?P<d>\d{{1,2}}) {_CLOCK}(?: (?P<z>UTC|GMT|Z)| [A-Z]{{3,4}})? (?P<Y>[12]\d{{3}})"
)
# `dmesg -e` prints `[Feb23 16:24]` when the minute changes, and differences between.
_MINUTE = re.compile(rf"\[{_MONTH} *(?P<d>\d{{1,2}}) (?P<H>\d\d):(?P<M>\d\d)(?P<S>)(?P<f>)\]")
_SYSLOG = re.compile(rf"{_MONTH} +(?P<d>\d{{1,2}})(?: (?P<Y>20\d\d))?,? {_CLOCK}(?: (?P<Z>20\d\d))?")
_GLOG = re.compile(rf"[IWEFCDV](?:(?P<Y>20\d\d))?(?P<m>1[0-2]|0?[1-9])(?P<d>[0-3]\d) {_CLOCK}")
_SLURM = re.compile(
    r"\b(?:AT|at|on|on:) (?P<Y>20\d\d)-(?P<m>\d\d)-(?P<d>\d\d)T(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?P<f>)(?P<z>)"
)

# What may stand before the stamp: syslog priority, --decode words, the file of a grep, a level, a logfmt key.
_PRIORITY = re.compile(r"<\d{1,3}>(?:1 )?")
_DECODED = re.compile(r"[a-z]+\d? *: *[a-z]+ *: ")
_WEEKDAY = re.compile(r"[^\W\d_]{2,9}\.? (?=[12]\d{3}-)")
_GREPPED = re.compile(r"[\w./-]{1,80}[:-](?:\d{1,8}[:-])?(?=\[|[12]\d{3}-|[^\W\d_]{3,5} +\d)")
_LEVELLED = re.compile(rf"\[?{_LEVEL}(?:\|[^\]\s]{{1,60}})?\]?[ :|-]{{1,8}}\[?|(?:time|ts|t)=\"?", re.IGNORECASE)


def find(line: str) -> tuple[Stamp | None, int]:
    """The stamp at the head of `line` and the characters up to its end; (None, 0) when there is none.

    Blanks and an opening bracket may come first; a bracket that closes directly behind the stamp belongs to it.
    A date that stands only inside the sentence (`CANCELLED AT 2021-05-23T08:45:57`) is returned with length 0.
    Dates without a year count as days of a common year.
    """
    found = _of_head(line[:HEAD])
    if found is not None:
        return found
    if "T" in line and (inside := _SLURM.search(line, 0, 1000)) and (stamp := _dated(inside)):
        return stamp, 0
    return None, 0


@lru_cache(maxsize=1024)
def _of_head(head: str) -> Found | None:
    """A line is asked about twice: whether a prefix stands behind its stamp, and when it was printed."""
    return _at(head, 0, 2)


def _at(line: str, start: int, depth: int) -> Found | None:
    """A stamp at `start`, after blanks; at most `depth` known words may stand before it."""
    while start < len(line) and line[start] in " \t":
        start += 1
    if start >= len(line):
        return None
    for form, build in _forms(line[start]):
        found = form.match(line, start)
        if found is not None and (stamp := build(found)) is not None:
            return stamp, found.end()
    return _behind(line, start, depth)


def _behind(line: str, start: int, depth: int) -> Found | None:
    """A stamp behind an opening bracket or behind a word that may precede stamps."""
    if depth == 0:
        return None
    for lead in (_PRIORITY, _LEVELLED, _DECODED, _WEEKDAY, _GREPPED):
        if (skipped := lead.match(line, start)) and skipped.end() > start:
            found = _at(line, skipped.end(), depth - 1)
            if found is not None:
                return _closed(line, found) if line[skipped.end() - 1] == "[" else found
    if line[start] in "[(":
        found = _at(line, start + 1, 0)
        return _closed(line, found) if found else None
    return None


def _closed(line: str, found: Found) -> Found:
    end = found[1]
    return (found[0], end + 1) if line[end : end + 1] in {"]", ")"} else found


def _forms(first: str) -> tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Stamp | None]], ...]:
    if first.isascii() and first.isdigit():
        return _DIGIT
    if first == "[":
        return _BRACKET
    return _LETTER if first.isalpha() else ()


def _dated(found: re.Match[str]) -> Stamp | None:
    """A form with year, month and day: utc when it names a zone, else local."""
    parts = found.groupdict()
    year, month = int(parts["Y"]), _month(parts)
    if month is None:
        return None
    try:
        day = date(year + 2000 if year < 100 else year, month, int(parts["d"])).toordinal() - _EPOCH
    except ValueError:
        return None
    clock = _clock(parts)
    if clock is None:
        return None
    zone = parts.get("z")
    east = _offset(zone)
    return Stamp(
        seconds=day * 86400 + clock - east,
        kind="utc" if zone else "local",
        east=east if zone else None,
    )


def _yearless(found: re.Match[str]) -> Stamp | None:
    """A form that may lack the year."""
    parts = found.groupdict()
    if parts.get("Y"):
        return _dated(found)
    month, day, clock = _month(parts), int(parts["d"]), _clock(parts)
    if month is None or clock is None or not 1 <= day <= 31:
        return None
    if parts.get("Z"):  # the year stands last: `Jan 18 22:49:39 2024`
        return _with_year(int(parts["Z"]), month, day, clock)
    return Stamp(seconds=(_BEFORE_MONTH[month - 1] + day - 1) * 86400 + clock, kind="yearless")


def _with_year(year: int, month: int, day: int, clock: float) -> Stamp | None:
    try:
        return Stamp(seconds=timegm((year, month, day, 0, 0, 0)) + clock, kind="local")
    except ValueError:
        return None


def _time_of_day(found: re.Match[str]) -> Stamp | None:
    clock = _clock(found.groupdict())
    return None if clock is None else Stamp(seconds=clock, kind="clock")


def _number(found: re.Match[str]) -> Stamp:
    """Unix seconds."""
    return Stamp(seconds=float(found["unix"]), kind="utc")


def _since_boot(found: re.Match[str]) -> Stamp:
    return Stamp(seconds=float(found["boot"]), kind="boot")


def _month(parts: dict[str, str | None]) -> int | None:
    if name := parts.get("b"):
        return _MONTHS.get(name.lower().rstrip("."))
    number = int(parts.get("m") or 0)
    return number if 1 <= number <= 12 else None


def _clock(parts: dict[str, str | None]) -> float | None:
    hour, minute, second = (int(parts[key] or 0) for key in "HMS")
    if hour > 23 or minute > 59 or second > 60:
        return None
    fraction = parts.get("f")
    return hour * 3600 + minute * 60 + second + (float(f"0.{fraction}") if fraction else 0.0)


def _offset(zone: str | None) -> int:
    """`+02:00` -> 7200; names of UTC are 0."""
    if not zone or zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "")
    return (1 if zone[0] == "+" else -1) * (int(digits[:2]) * 3600 + int(digits[2:]) * 60)


_DIGIT = (
    (_ISO, _dated), (_DAYTIME, _time_of_day), (_AMERICAN, _dated), (_COMPACT, _dated), (_SHORT, _yearless),
    (_UNIX, _number), (_SYSLOG, _yearless),
)  # fmt: skip
_BRACKET = ((_BOOT, _since_boot), (_MINUTE, _yearless))
_LETTER = ((_GLOG, _yearless), (_SYSLOG, _yearless), (_CTIME, _dated))
