"""Taking secrets and people out of evidence with the rules that collectors use on the nodes: the same bytes, faster.

The rules are `collectors/redaction.json`. Here they are compiled into one scanner, which names the lines where a rule
may match; such a line is then treated as on a node. A test holds both ways to the same output.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

from triage import content
from triage.bundle.redaction_lines import line_end, lines_for
from triage.model.base import Record

CHUNK = 1 << 19  # bytes scanned at once: what stays in the processor's cache is redacted twice as fast as 4 MiB
LONGEST = 4 << 20  # bytes of a line without an end, as on the nodes; at least four times CHUNK
MEMORY = 100_000  # distinct words of shapes remembered
WORD = 80  # bytes of a word worth remembering
SHORT = 400  # bytes of a line's shape worth remembering
_BLANK = b"\"'`,;|()[]{}<>"
_BASE64 = re.compile(
    rb"(?:^|[\s:>|\]])[A-Za-z0-9+/=]{16,100}\\?\s*$|^\s*(?:[\w.\[-]{0,20}[:|>\]]\s*){0,2}[A-Za-z0-9+/=]{1,100}\s*$"
    rb"|(?:Proc-Type|DEK-Info|Comment|Version|Hash): |^\s*$"
)


class Rule(Record, frozen=True, kw_only=True):
    """One kind of value: group `s` of the regex becomes a token unless the value looks like `unless`.

    scan: what the scanner looks for instead, where the regex itself would be slow there. glance: what is looked for
    before that, several times faster, where it tells nearly all lines apart.
    """

    kind: str
    anchors: tuple[bytes, ...]
    regex: re.Pattern[bytes]
    unless: re.Pattern[bytes] | None = None
    scan: bytes | None = None
    glance: bytes | None = None


class Opening(Record, frozen=True, kw_only=True):
    """A line that opens a private key over several lines, or names a value that stands on the next line."""

    kind: str
    anchors: tuple[bytes, ...]
    regex: re.Pattern[bytes]
    end: re.Pattern[bytes] | None = None
    second: re.Pattern[bytes] | None = None
    most: int = 1


def _shape_of(code: int) -> int:
    if 48 <= code <= 57:
        return 48
    if 65 <= code <= 90:
        return code + 32
    return code if code == 10 or (32 < code < 127 and code not in _BLANK) else 32


SHAPE = bytes(_shape_of(code) for code in range(256))


@cache
def rules_file() -> dict[str, Any]:
    """The rules as data."""
    path: Path = content.root() / "collectors" / "redaction.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def token(key: bytes, kind: str, value: bytes) -> bytes:
    """`kind` and eight hex digits of the value's HMAC-SHA256 under the bundle's key."""
    return f"{kind}-{_digest(key, kind, value)[:8]}".encode()


def _digest(key: bytes, kind: str, value: bytes) -> str:
    return hmac.new(key, kind.encode() + b"\0" + value, hashlib.sha256).hexdigest()


class Redactor:
    """Redacts streams. `counts` says how many values of each kind were taken out.

    words: names that are known, by kind (`user`, `host`). hosts: hide machines and private addresses, too.
    """

    def __init__(self, key: bytes, words: Mapping[str, Iterable[str]] | None = None, hosts: bool = False) -> None:
        spec = rules_file()
        self.key, self.counts = key, Counter[str]()
        self.rules = [_rule(one) for one in spec["rules"] + (spec["host_rules"] if hosts else [])]
        for kind in ["user", "host"] if hosts else ["user"]:
            if names := sorted({word for word in (words or {}).get(kind, ()) if len(word) > 2}):
                self.rules.append(_word_rule(kind, names))
        self.openings = [_opening(one) for one in spec["blocks"] + spec["pairs"]]
        kinds = sorted({rule.kind for rule in self.rules} | {one["kind"] for one in spec["blocks"]})
        self._done = re.compile(f"(?:{'|'.join(map(re.escape, kinds))})-[0-9a-f]{{8}}".encode())
        self._by_anchor: dict[bytes, list[int]] = {}
        self._words: dict[bytes, tuple[int, ...]] = {}
        self._shapes: dict[bytes, list[int]] = {}
        self._tokens: dict[tuple[str, bytes], bytes] = {}
        everything: list[Rule | Opening] = [*self.rules, *self.openings]
        for index, one in enumerate(everything):
            for anchor in one.anchors:
                self._by_anchor.setdefault(anchor, []).append(index)
        self._open: Opening | None = None
        self._left = 0
        self._scan = lines_for(
            [(one.regex, getattr(one, "scan", None), getattr(one, "glance", None)) for one in everything]
        )

    # ---- streams ----

    def copy(self, source: IO[bytes], sink: IO[bytes]) -> None:
        """Redact a whole file: text line by line; what holds a NUL near its head keeps its length."""
        self._open = None
        head = source.read(CHUNK)
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            sink.write(self.text((head + source.read()).decode("utf-16", "replace").encode("utf-8")))
            return
        change = self.binary if b"\0" in head[:8192] else self.text
        rest = b""
        while head:
            if not head.endswith(b"\n"):
                head += source.readline(CHUNK)  # whole lines need no second copy
            whole, rest = _cut(rest + head)
            sink.write(change(whole))
            head = source.read(CHUNK)
        while rest:
            whole, rest = _cut(rest) if len(rest) >= LONGEST else (rest, b"")
            sink.write(change(whole))

    def text(self, data: bytes) -> bytes:
        """Whole lines redacted; a key that began in the lines before goes on."""
        return b"".join(self._pieces(data, self.line, True))

    def binary(self, data: bytes) -> bytes:
        """A document whose values carry their length: tokens are cut or stretched to fit."""
        return b"".join(self._pieces(data, lambda line: self._apply(line, self._needed(line), True), False))

    def line(self, line: bytes) -> bytes:
        """One line, without its end; it may open a block that the next lines belong to."""
        needed = self._needed(line)
        for index in needed:
            if index >= len(self.rules) and self.openings[index - len(self.rules)].regex.search(line):
                self._open = self.openings[index - len(self.rules)]
                self._left = self._open.most
        return self._apply(line, needed, False)

    # ---- inside ----

    def _pieces(self, data: bytes, change: Callable[[bytes], bytes], follow: bool) -> Iterator[bytes]:
        at = 0
        if follow:
            at, followed = self._follow(data, 0)
            if followed:
                yield followed
        for start in self._scan(data):
            if start < at:
                continue
            yield data[at:start]
            end = line_end(data, start)
            yield change(data[start:end])
            at = end
            if follow and self._open is not None and end < len(data):
                at, followed = self._follow(data, end + 1)
                yield b"\n" + followed
        yield data[at:]

    def _follow(self, data: bytes, at: int) -> tuple[int, bytes]:
        """Go on with an open block from a line's start: where it ended (before a line's end), and what it became."""
        lines, end = [], at - 1
        while self._open is not None and at < len(data):
            end = line_end(data, at)
            line = data[at:end]
            lines.append(self._second(line, self._open.second) if self._open.second else self._inner(line, self._open))
            at = end + 1
        return max(end, 0) if lines else at, b"\n".join(lines)

    def _second(self, line: bytes, regex: re.Pattern[bytes]) -> bytes:
        self._open = None
        rule = Rule(kind="secret", anchors=(), regex=regex)
        return self.line(regex.sub(lambda match: self._replaced(rule, match, False), line))

    def _inner(self, line: bytes, block: Opening) -> bytes:
        self._left -= 1
        if (block.end and block.end.search(line)) or not _BASE64.search(line):
            self._open = None
            return self.line(line)
        if self._left <= 0:
            self._open = None
        value = line.strip()
        if not value or self._done.fullmatch(value):
            return line
        self.counts[block.kind] += 1
        return token(self.key, block.kind, value)

    def _needed(self, line: bytes) -> list[int]:
        """Indexes of the rules and openings whose anchors the line holds; shapes repeat, and are remembered."""
        shape = line.translate(SHAPE)
        if (known := self._shapes.get(shape)) is not None:
            return known
        found: set[int] = set()
        for word in set(shape.split()):
            indexes = self._words.get(word)
            found.update(self._learn(word) if indexes is None else indexes)
        needed = sorted(found)
        if len(shape) <= SHORT and len(self._shapes) < MEMORY:
            self._shapes[shape] = needed
        return needed

    def _learn(self, word: bytes) -> tuple[int, ...]:
        held = [indexes for anchor, indexes in self._by_anchor.items() if anchor in word]
        found = tuple({index for indexes in held for index in indexes})
        if len(word) <= WORD and len(self._words) < MEMORY:
            self._words[word] = found
        return found

    def _apply(self, line: bytes, needed: Sequence[int], fixed: bool) -> bytes:
        for index in needed:
            if index < len(self.rules):
                rule = self.rules[index]
                line = rule.regex.sub(lambda match, rule=rule: self._replaced(rule, match, fixed), line)  # type: ignore[misc]
        return line

    def _replaced(self, rule: Rule, match: re.Match[bytes], fixed: bool) -> bytes:
        value, groups, whole = match["s"], match.re.groupindex, match[0]
        if self._done.fullmatch(value) or (rule.unless and rule.unless.fullmatch(value)):
            return whole
        if "k" in groups and match["k"]:
            return whole
        self.counts[rule.kind] += 1
        start, end = match.start("s") - match.start(), match.end("s") - match.start()
        if fixed:
            digits = _digest(self.key, rule.kind, value) * (len(value) // 64 + 1)
            return whole[:start] + digits[: len(value)].encode() + whole[end:]
        if "t" in groups and match["t"]:
            end = match.end("t") - match.start()
        return whole[:start] + self._token(rule.kind, value) + whole[end:]

    def _token(self, kind: str, value: bytes) -> bytes:
        """A value's token; the same few hosts and users stand in nearly every line."""
        if (known := self._tokens.get((kind, value))) is not None:
            return known
        made = token(self.key, kind, value)
        if len(self._tokens) < MEMORY and len(value) <= WORD:
            self._tokens[kind, value] = made
        return made


def _rule(spec: Mapping[str, Any]) -> Rule:
    flags = re.IGNORECASE if spec.get("ignore_case") else 0
    unless = spec.get("unless")
    return Rule(
        kind=spec["kind"],
        anchors=tuple(anchor.encode() for anchor in spec["anchors"]),
        regex=re.compile(spec["regex"].encode(), flags),
        unless=re.compile(unless.encode()) if unless else None,
        scan=spec["scan"].encode() if spec.get("scan") else None,
        glance=spec["glance"].encode() if spec.get("glance") else None,
    )


def _word_rule(kind: str, words: Sequence[str]) -> Rule:
    """Names of the job's hosts and users; a domain behind a host (`t`) goes with it."""
    longest = sorted(words, key=lambda word: (-len(word), word))
    anchors = sorted({word.encode().translate(SHAPE) for word in words})
    tail = r"(?P<t>(?:\.[A-Za-z][A-Za-z0-9-]{0,62}){1,6})?" if kind == "host" else ""
    names = "|".join(re.escape(word) for word in longest)
    regex = rf"(?<![A-Za-z0-9_-])(?P<s>{names}){tail}(?![A-Za-z0-9_-])"
    return Rule(kind=kind, anchors=tuple(anchors), regex=re.compile(regex.encode()))


def _opening(spec: Mapping[str, Any]) -> Opening:
    end, second = spec.get("end"), spec.get("second")
    return Opening(
        kind=spec["kind"],
        anchors=tuple(anchor.encode() for anchor in spec["anchors"]),
        regex=re.compile((spec.get("begin") or spec["first"]).encode()),
        end=re.compile(end.encode()) if end else None,
        second=re.compile(second.encode()) if second else None,
        most=spec.get("most", 1),
    )


def _cut(data: bytes) -> tuple[bytes, bytes]:
    """Whole lines, and the rest. Where a line without an end is cut does not depend on how the file was read."""
    if len(data) >= LONGEST and data.find(b"\n", 0, LONGEST) < 0:
        at = data.rfind(b" ", 0, LONGEST) + 1 or LONGEST
    else:
        at = data.rfind(b"\n") + 1
    return data[:at], data[at:]


# ---- words behind the tokens ----


class Names:
    """Shows real names for the tokens of hosts and users, from the map that stays beside a bundle."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = dict(names)
        self._regex = re.compile(r"\b[a-z][a-z-]{1,30}-[0-9a-f]{8}\b")

    def shown(self, text: str) -> str:
        """The text with every known token replaced."""
        return self._regex.sub(lambda match: self._names.get(match[0], match[0]), text)


def names_of(key: bytes, words: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The map from tokens to the names that are known. Values found by rules are in no map."""
    return {token(key, kind, word.encode()).decode(): word for kind in sorted(words) for word in sorted(words[kind])}
