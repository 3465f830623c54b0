"""Sends of a log only what matters: the lines that a signature or a mark may match, with what stands around them.

A reduced file says so in its first line: `triage.reduced/1`, then lines and bytes of the original, lines and bytes
kept. Each further line is the number of a line in the original, a tab, and that line. Which lines matter is data made
when the collectors are packed: reduction.json.
"""

import hashlib
import io
import re

import _documents
import _literals
import _picking
import _redaction

MAGIC = b"triage.reduced/1"
SMALL = 64 << 10  # bytes of a file that is sent as it is
BUDGET = 192 << 10  # bytes of lines sent of one file; head and tail come on top
BLOCK = 1 << 20
LINE = 8192  # bytes of a line that are sent, around what matched
LOOKED = 65536  # bytes of a line that are looked at
WINDOW, OVERLAP = 4096, 512  # bytes of a line that one regex sees at once: on a long one some take quadratic time
STAMPED = 4096  # bytes at either end of a block in which a time is looked for
SHAPES = 100000  # distinct shapes remembered
SHAPE = 4000  # bytes of a shape worth remembering
SURE = 20  # lines of one shape after which it is known whether it satisfies a regex that tells no digits apart
RATE = 12 << 20  # bytes a second that a slow node surely reduces
_ESCAPE = re.compile(rb"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]|\x1b[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)|\x1b")
_STAMP = re.compile(
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
)
_NUMBER = re.compile(r"\d")


class Chance(object):
    """One pattern that lines of one shape may satisfy.

    group: its number, or None for what begins a secret. search: of its regex, or None when literals alone decide.
    positions: groups of the regex that say what a line is about. open: whether each line must be asked.
    counting: whether some lines of a shape speak for all, for the regex tells no digits apart.
    needles: literals of which its lines hold one, where these have digits, which a shape has not.
    """

    __slots__ = ("counting", "group", "hits", "misses", "needles", "number", "open", "positions", "search")

    def __init__(self, number, group, search, positions, counting, needles=()):
        self.number, self.group, self.search, self.positions = number, group, search, positions
        self.needles = needles
        self.counting, self.open, self.hits, self.misses = counting, True, 0, 0


class Rules(object):
    """What matters. reduction: the data that the packer made; redaction: that of the redactor."""

    def __init__(self, reduction, redaction):
        self.groups, self.patterns = reduction["groups"], reduction["patterns"]
        secrets = redaction["blocks"] + redaction["pairs"]
        self.secrets = [(re.compile(one.get("begin", one.get("first")).encode("utf-8")), one) for one in secrets]
        self.literals = _literals.Literals([one[1] for one in self.patterns] + [one["anchors"] for one in secrets])
        self._compiled = {}

    def chances(self, shape):
        """What lines of a shape may be."""
        return [self._chance(number) for number in self.literals.patterns(shape)]

    def _chance(self, number):
        if number >= len(self.patterns):
            return Chance(number - len(self.patterns), None, None, (), False)
        group, needles, text, positions, digits = self.patterns[number]
        if number not in self._compiled:
            self._compiled[number] = re.compile(text.encode("ascii"), re.MULTILINE).search if text else None
        told = digits and all(map(_NUMBER.search, needles))
        numbered = [needle.encode("utf-8") for needle in needles] if told else ()
        return Chance(number, group, self._compiled[number], positions, not digits, numbered)

    def settle(self, chance, hit):
        """Count one more line of a shape; False once no further line of it can satisfy the pattern.

        A signature's lines are still asked, for the entities that they name.
        """
        chance.hits, chance.misses = chance.hits + hit, chance.misses + (not hit)
        if chance.hits + chance.misses < SURE:
            return True
        chance.counting = False
        chance.open = bool(chance.misses or chance.positions or self.groups[chance.group][0] == "signal")
        return chance.hits > 0


class Lines(object):
    """A block of whole lines: texts, the number of each in the file, and what is looked at, without terminal codes."""

    def __init__(self, data, number):
        data = data.replace(b"\r\n", b"\n") if b"\r\n" in data else data
        body = data[:-1] if data.endswith(b"\n") else data
        self.texts = body.split(b"\n")
        self.numbers = range(number, number + len(self.texts))
        if b"\r" in body:
            self._split()
            body = b"\n".join(self.texts)
        body = _ESCAPE.sub(b"", body) if b"\x1b" in body else body
        self.plain = body.split(b"\n")
        self.shapes = _literals.shape(body).split(b"\n")

    def _split(self):
        """Progress bars: what was printed over itself is a line of its own, under the same number."""
        pieces = [[piece for piece in text.split(b"\r") if piece] or [b""] for text in self.texts]
        self.numbers = [self.numbers[at] for at, some in enumerate(pieces) for _ in some]
        self.texts = [piece for some in pieces for piece in some]


class Scan(object):
    """The first pass over one file: what each of its lines may be. `number`: of the next one; `lines`: so far."""

    def __init__(self, rules):
        self.rules, self.groups, self.shapes = rules, {}, {}
        self.lines, self.number, self.blocks, self.places = 0, 1, [], {}
        self.hidden, self._left = set(), 0
        self.first, self.last = None, None

    def add(self, offset, data):
        """The next block of the file, which begins at an offset."""
        block = Lines(data, self.number)
        self.blocks.append((offset, len(data), self.number, self.lines, len(block.texts)))
        self._stamps(data)
        self._secret(block, -1)
        known = self.shapes
        fresh = set(block.shapes).difference(known)
        if len(known) + len(fresh) > SHAPES:
            known.clear()
            fresh = set(block.shapes)
        for shape in fresh:
            known[shape] = self.rules.chances(shape)
        for at, shape in enumerate(block.shapes):
            if known[shape]:
                self._line(block, at, known[shape])
        self._forget(fresh)
        self.lines += len(block.shapes)
        self.number += data.count(b"\n")

    def _forget(self, fresh):
        for shape in fresh:
            if len(shape) > SHAPE:
                del self.shapes[shape]

    def _stamps(self, data):
        if self.first is None:
            self.first = (_STAMP.findall(data[:STAMPED]) or [None])[0]
        self.last = (_STAMP.findall(data[-STAMPED:]) or [self.last])[-1]

    def _line(self, block, at, chances):
        """What one line is."""
        text, who, told = block.plain[at], None, set()
        for chance in tuple(chances):
            if chance.needles and not _holds(text, chance.needles):
                continue
            found = _searched(chance.search, text) if chance.open and chance.search else True
            if chance.counting and not self.rules.settle(chance, bool(found)):
                chances.remove(chance)
            if chance.group is None:
                self._begins(block, at, self.rules.secrets[chance.number])
            elif found and chance.group not in told:
                told.add(chance.group)
                who = _picking.printer(text) if who is None else who
                self._tell(self.lines + at, chance, who, found)
                if len(text) > LINE and found is not True:
                    self.places[self.lines + at] = text.find(found.group())

    def _tell(self, line, chance, who, found):
        group = self.groups.get(chance.group)
        if group is None:
            group = self.groups[chance.group] = _picking.Group(*self.rules.groups[chance.group])
        things = tuple([found.group(position) for position in chance.positions]) if chance.positions else ()
        group.add(line, things if group.kind == "env" else (who, things))

    def _begins(self, block, at, secret):
        """A key may begin on this line; it never leaves the node, for the redactor might not see that it began."""
        regex, rule = secret
        if not regex.search(block.texts[at]):
            return
        if "begin" in rule:
            self._left = rule["most"]
            self._secret(block, at)
        else:
            self.hidden.add(self.lines + at + 1)

    def _secret(self, block, at):
        """Hide the lines of a key that began before."""
        while self._left and at + 1 < len(block.texts):
            at += 1
            self._left = self._left - 1 if _redaction.BASE64_LINE.search(block.texts[at]) else 0
            if self._left:
                self.hidden.add(self.lines + at)


def _searched(search, text):
    """The first match in a line, piece by piece when it is long."""
    if len(text) <= WINDOW:
        return search(text)
    for start in range(0, min(len(text), LOOKED), WINDOW - OVERLAP):
        found = search(text[start : start + WINDOW])
        if found:
            return found
    return None


def _holds(text, needles):
    small = text.lower()
    for needle in needles:  # half the time of any()
        if needle in small:
            return True
    return False


class Reducer(object):
    """Reduces files. budget: bytes of lines to send of each, beside head and tail."""

    def __init__(self, rules, budget=BUDGET):
        self.rules, self.budget = rules, budget

    def reduce(self, source, size, target, seconds=3600):
        """Write a reduced copy of an open file; what is known of it, or None when it is to be sent as it is.

        seconds: time there is. A file too long for it is looked at in its first quarter and its end.
        """
        head = source.read(min(size, LOOKED))
        if size <= SMALL or _documents.stays_whole(head):
            return None
        scan, digest = Scan(self.rules), hashlib.sha256()
        cut = self._scan(scan, digest, source, size, int(seconds * RATE))
        kept = list(self._records(scan, source, size))
        body = b"".join(kept)
        title = (MAGIC, scan.number - 1 + (0 if self._ended(source, size) else 1), size, len(kept), len(body))
        target.write(b"\t".join(part if isinstance(part, bytes) else b"%d" % part for part in title) + b"\n" + body)
        known = {"lines": title[1], "bytes": size, "kept": len(kept), "sha256": None if cut else digest.hexdigest()}
        stamps = {"first": scan.first, "last": scan.last}
        known.update((key, stamp.decode("ascii")) for key, stamp in stamps.items() if stamp)
        return {"reduced": known, "truncated": cut}

    def lines(self, source, size, known, seconds):
        """(reduced copy, what is known of it), or None when the file is to be sent as it is. known: of it so far."""
        target = io.BytesIO()
        found = self.reduce(source, size, target, seconds)
        if found is None:
            return None
        found["truncated"] = found["truncated"] or known.get("truncated", False)
        return target.getvalue(), dict(known, **found)

    @staticmethod
    def _ended(source, size):
        source.seek(size - 1)
        return source.read(1) == b"\n"

    @staticmethod
    def _scan(scan, digest, source, size, most):
        """Look at the file; between its first quarter and its end only lines are counted when it is too long."""
        leap, at = (most // 4, size - most * 3 // 4) if size > most else (size, size)
        source.seek(0)
        for offset, data in blocks(source, size):
            digest.update(data)
            if leap <= offset < at:
                scan.number += data.count(b"\n")
            else:
                scan.add(offset, data)
        return size > most

    def _records(self, scan, source, size):
        """The lines to send, each with its number, in order."""
        mean = size // max(scan.lines, 1) + 1
        wanted = _picking.chosen(list(scan.groups.values()), scan.lines, self.budget // mean, scan.hidden)
        found = list(_texts(scan, source, wanted))
        limit = LINE
        while limit > 512 and sum(min(len(text), limit) for _, _, text in found) > 2 * self.budget:
            limit //= 2
        for line, number, text in found:
            start = max(0, min(scan.places.get(line, 0) - limit // 4, len(text) - limit))
            yield b"%d\t%s\n" % (number, text[start : start + limit])


def blocks(source, size):
    """(offset, bytes) of whole lines; only a line longer than a block is cut."""
    offset = 0
    while offset < size:
        source.seek(offset)
        data = source.read(min(BLOCK, size - offset))
        if not data:
            return
        end = data.rfind(b"\n") + 1
        if end and offset + len(data) < size:
            data = data[:end]
        yield offset, data
        offset += len(data)


def _texts(scan, source, wanted):
    """(position, number, text) of the wanted lines: only the blocks that hold one are read again."""
    at = 0
    for offset, length, number, first, count in scan.blocks:
        begin = at
        while at < len(wanted) and wanted[at] < first + count:
            at += 1
        if begin < at:
            source.seek(offset)
            block = Lines(source.read(length), number)
            for line in wanted[begin:at]:
                yield line, block.numbers[line - first], block.texts[line - first][:LOOKED]


def redact(source, target, redactor, most):
    """Redact a reduced file: the numbers stay as they are. What is more than so many bytes is left out."""
    redactor.state = None
    target.write(source.readline())
    for records in iter(lambda: source.readlines(BLOCK), []):
        if target.tell() > most:
            return {"truncated": True}
        parts = [record.rstrip(b"\n").partition(b"\t") for record in records]
        clean = redactor.text(b"\n".join(text for _, _, text in parts)).split(b"\n")
        target.write(b"".join(parts[at][0] + b"\t" + text + b"\n" for at, text in enumerate(clean)))
    return {}
