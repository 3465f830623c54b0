"""Takes secrets and people out of what leaves this node. The rules are data: redaction.json.

A rule looks only at lines that hold one of its anchors. Anchors are searched in the *shape* of a line: lower case, 0
for each digit, blanks for brackets, quotes and all that is not ASCII. Shapes repeat, and so do the words of new ones,
so that nearly every line costs one look-up. A value becomes `<kind>-<eight hex digits>`: HMAC-SHA256 under the key of
the bundle, the same on every node.
"""

import hashlib
import hmac
import re

CHUNK = 1 << 20  # bytes read at once, at most half of LONGEST
LONGEST = 4 << 20  # bytes of a line without an end; then it is cut at the last blank
MEMORY = 100000  # distinct shapes, and words of shapes, remembered
WORD = 80  # bytes of a word worth remembering
_BLANK = b"\"'`,;|()[]{}<>"


def _shape_of(code):
    if 48 <= code <= 57:
        return 48
    if 65 <= code <= 90:
        return code + 32
    return code if code == 10 or (32 < code < 127 and code not in _BLANK) else 32


SHAPE = bytes(_shape_of(code) for code in range(256))  # for bytes.translate
BASE64_LINE = re.compile(
    rb"(?:^|[\s:>|\]])[A-Za-z0-9+/=]{16,100}\\?\s*$|^\s*(?:[\w.\[-]{0,20}[:|>\]]\s*){0,2}[A-Za-z0-9+/=]{1,100}\s*$"
    rb"|(?:Proc-Type|DEK-Info|Comment|Version|Hash): |^\s*$"
)


class Rule(object):
    """One kind of value. Its regex is compiled when a line first needs it: nearly all never do."""

    def __init__(self, spec, key="regex"):
        self.kind = spec["kind"]
        self.anchors = [anchor.encode("utf-8") for anchor in spec["anchors"]]
        self._texts = spec[key], spec.get("unless")
        self._flags = re.IGNORECASE if spec.get("ignore_case") else 0
        self._compiled = None

    @property
    def regex(self):
        """What it looks for; group `s` is the value."""
        return self._both()[0]

    @property
    def unless(self):
        """What the value looks like when it is none, or None."""
        return self._both()[1]

    def _both(self):
        if self._compiled is None:
            regex, unless = self._texts
            unless = re.compile(unless.encode("utf-8")) if unless else None
            self._compiled = re.compile(regex.encode("utf-8"), self._flags), unless
        return self._compiled


def word_rule(kind, words):
    """A rule for names that are known: hosts and users of the job. `t`, a domain behind a host, goes with it."""
    words = sorted({word for word in words if len(word) > 2}, key=lambda word: (-len(word), word))
    anchors = sorted({word.encode("utf-8").translate(SHAPE).decode("utf-8") for word in words})
    tail = r"(?P<t>(?:\.[A-Za-z][A-Za-z0-9-]{0,62}){1,6})?" if kind == "host" else ""
    regex = r"(?<![A-Za-z0-9_-])(?P<s>%s)%s(?![A-Za-z0-9_-])" % ("|".join(re.escape(word) for word in words), tail)
    return Rule({"kind": kind, "anchors": anchors, "regex": regex})


def rules_of(spec, words, hosts):
    """All rules: those of the file, those for known names, and with `hosts` those that hide machines."""
    rules = [Rule(one) for one in spec["rules"] + (spec["host_rules"] if hosts else [])]
    kinds = ["user"] + (["host"] if hosts else [])
    return rules + [word_rule(kind, words[kind]) for kind in kinds if words.get(kind)]


class Redactor(object):
    """Redacts streams. `counts` says how many values of each kind were taken out."""

    def __init__(self, spec, key, words=None, hosts=False):
        self.key, self.counts = key, {}
        self.rules = rules_of(spec, words or {}, hosts)
        self.starts = [(Rule(one, "begin"), one) for one in spec["blocks"]]
        self.starts += [(Rule(one, "first"), one) for one in spec["pairs"]]
        kinds = sorted({rule.kind for rule in self.rules} | {one["kind"] for one in spec["blocks"]})
        self.done = re.compile(("(?:%s)-[0-9a-f]{8}" % "|".join(map(re.escape, kinds))).encode("utf-8"))
        self.by_anchor = {}
        for index, rule in enumerate(self.rules + [start for start, _ in self.starts]):
            for anchor in rule.anchors:
                self.by_anchor.setdefault(anchor, []).append(index)
        self.shapes, self.words, self.state = {}, {}, None

    def token(self, kind, value):
        """The token for a value."""
        digest = hmac.new(self.key, kind.encode("utf-8") + b"\0" + value, hashlib.sha256).hexdigest()
        return ("%s-%s" % (kind, digest[:8])).encode("ascii")

    # ---- streams ----

    def copy(self, source, sink):
        """Redact a whole file: text line by line, anything with a NUL near its head keeping its length."""
        self.state = None
        head = source.read(CHUNK)
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            sink.write(self.text((head + source.read()).decode("utf-16", "replace").encode("utf-8")))
            return
        change = self.binary if b"\0" in head[:8192] else self.text
        rest = b""
        while head:
            whole, rest = cut(rest + head)
            sink.write(change(whole))
            head = source.read(CHUNK)
        while rest:
            whole, rest = cut(rest) if len(rest) >= LONGEST else (rest, b"")
            sink.write(change(whole))

    def text(self, data):
        """Redact whole lines; a key that began in the lines before goes on."""
        lines = data.split(b"\n")
        wanted = self._wanted(data)
        if not wanted and self.state is None:
            return data
        done = self._follow(lines, 0)
        for at, needed in wanted:
            if at >= done:
                lines[at] = self._changed(lines[at], needed)
                done = self._follow(lines, at + 1)
        return b"\n".join(lines)

    def binary(self, data):
        """Redact within a document whose values carry their length: the token is cut or stretched to fit."""
        lines = data.split(b"\n")
        for at, needed in self._wanted(data):
            lines[at] = self._apply(lines[at], needed, True)
        return b"\n".join(lines)

    def line(self, line):
        """One line redacted; may open a block or a pair."""
        return self._changed(line, self._needed(line.translate(SHAPE)))

    # ---- inside ----

    def _changed(self, line, needed):
        count = len(self.rules)
        for index in needed:
            if index >= count and self.starts[index - count][0].regex.search(line):
                self.state = dict(self.starts[index - count][1], left=self.starts[index - count][1].get("most", 1))
        return self._apply(line, needed, False)

    def _wanted(self, data):
        """The lines that hold anchors: their indexes, and those of their rules."""
        shapes = data.translate(SHAPE).split(b"\n")
        known = self.shapes
        fresh = set(shapes).difference(known)
        if len(known) + len(fresh) > MEMORY:
            known.clear()
            fresh = set(shapes)
        self._learn_all(fresh)
        for shape in fresh:
            known[shape] = self._needed(shape)
        return [(at, known[shape]) for at, shape in enumerate(shapes) if known[shape]]

    def _needed(self, shape):
        """Indexes of the rules whose anchors the shape holds."""
        found = set()
        for word in set(shape.split()):
            indexes = self.words.get(word)
            found.update(self._learn(word, self.by_anchor.items()) if indexes is None else indexes)
        return tuple(sorted(found))

    def _learn_all(self, shapes):
        """The new words of these lines. Few anchors are anywhere in them: only those are looked for in each word."""
        fresh = set(b" ".join(shapes).split()).difference(self.words)
        text = b" ".join(fresh)
        anchors = [(anchor, indexes) for anchor, indexes in self.by_anchor.items() if anchor in text]
        for word in fresh:
            self._learn(word, anchors)

    def _learn(self, word, anchors):
        found = set()
        for anchor, indexes in anchors:
            if anchor in word:
                found.update(indexes)
        if len(word) <= WORD:
            if len(self.words) >= MEMORY:
                self.words.clear()
            self.words[word] = tuple(found)
        return found

    def _apply(self, line, needed, fixed):
        for index in needed:
            if index < len(self.rules):
                rule = self.rules[index]
                line = rule.regex.sub(lambda match, rule=rule: self._replaced(rule, match, fixed), line)
        return line

    def _replaced(self, rule, match, fixed):
        value, groups = match.group("s"), match.re.groupindex
        keep = self.done.fullmatch(value) or (rule.unless and rule.unless.fullmatch(value))
        if keep or ("k" in groups and match.group("k")):
            return match.group()
        self.counts[rule.kind] = self.counts.get(rule.kind, 0) + 1
        start, end = match.start("s") - match.start(), match.end("s") - match.start()
        whole = match.group()
        if fixed:
            digits = hmac.new(self.key, rule.kind.encode("utf-8") + b"\0" + value, hashlib.sha256).hexdigest()
            return whole[:start] + (digits * (len(value) // 64 + 1))[: len(value)].encode("ascii") + whole[end:]
        if "t" in groups and match.group("t"):
            end = match.end("t") - match.start()
        return whole[:start] + self.token(rule.kind, value) + whole[end:]

    def _follow(self, lines, at):
        """Go on with an open block or pair; the index of the first line that is not part of it."""
        while self.state is not None and at < len(lines):
            if at == len(lines) - 1 and not lines[at]:
                return at  # the empty rest behind the last newline: the block goes on in the next chunk
            lines[at] = self._second(lines[at]) if "second" in self.state else self._inner(lines[at])
            at += 1
        return at

    def _second(self, line):
        rule = Rule(self.state, "second")
        self.state = None
        return self.line(rule.regex.sub(lambda match: self._replaced(rule, match, False), line))

    def _inner(self, line):
        state = self.state
        state["left"] -= 1
        if re.search(state["end"].encode("utf-8"), line) or not BASE64_LINE.search(line):
            self.state = None
            return self.line(line)
        if state["left"] <= 0:
            self.state = None
        value = line.strip()
        if not value or self.done.fullmatch(value):
            return line
        self.counts[state["kind"]] = self.counts.get(state["kind"], 0) + 1
        return self.token(state["kind"], value)


def cut(data):
    """Whole lines, and the rest. A line without an end is cut at a blank, so that memory stays bounded.

    Where it is cut depends on the file alone, not on how it was read: the launcher reads other pieces.
    """
    if len(data) >= LONGEST and data.find(b"\n", 0, LONGEST) < 0:
        at = data.rfind(b" ", 0, LONGEST) + 1 or LONGEST
    else:
        at = data.rfind(b"\n") + 1
    return data[:at], data[at:]
