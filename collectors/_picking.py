"""Which lines of a file are sent, once it is known which of them say something: enough of each kind, printer and thing.

Lines are told by their position in the file. Nothing here reads it.
"""

import collections
import re

KEYS = 256  # printers and things of one kind told apart; of the rest only the first and the last lines are sent
ENDS = 24  # lines of one signature at either end, whoever printed them
WHOLE = 4, 2  # lines of one signature at either end that are sent with whole messages
HEAD, TAIL = 60, 160  # lines at either end of the file
STEPS = 256  # step lines of a file, evenly over all printers
SERIES = 512  # step lines of one printer in memory
SHARES = {"init": (6, 1), "env": (1, 0)}  # lines at either end of what one printer says of a kind of mark
MARK = 4, 3
MESSAGE = 60, 40  # lines before and after of a whole message: more than nearly all tracebacks have
NEAR = {True: (8, 10), False: (2, 4)}  # the same for further lines; for context and warnings

# Only a key by which to choose: who printed the line, as far as its head or the word `rank` tells cheaply.
_PRINTER = re.compile(
    rb"\s{0,6}(?:\[rank\s?\d{1,6}\]|\[\w{1,40}?\d{1,4}\]:|\[\d{1,3},\d{1,6}\]<\w+>|\d{1,6}(?=: )|[\w.-]{1,60}(?=: ))"
    rb"|(?=.{0,240}?\b[Rr]ank[ =:_]{0,2}(\d{1,6}))"
)


def printer(text):
    """Who printed a line, or b""."""
    found = _PRINTER.match(text)
    return (found.group(1) or found.group()) if found else b""


class Some(object):
    """The first lines, the last lines and, where asked, lines at even distances between."""

    def __init__(self, first, last, between=0):
        self.most, self.between, self.step, self.count = first, between, 1, 0
        self.first, self.series, self.last = [], [], collections.deque(maxlen=last)

    def add(self, line):
        """The next line."""
        if len(self.first) < self.most:
            self.first.append(line)
        elif self.between and self.count % self.step == 0:
            self.series.append(line)
            if len(self.series) > self.between:
                self.series, self.step = self.series[::2], self.step * 2
        self.last.append(line)
        self.count += 1

    def thinned(self, most):
        """At most so many of those between."""
        return self.series[:: -(-len(self.series) // most)] if most and self.series else []


class Group(object):
    """Lines of one signature or one kind of mark. kind: `signal` or that of the mark; wide: with whole messages."""

    def __init__(self, kind, wide, least):
        self.kind, self.wide, self.all, self.by_key = kind, wide, Some(max(ENDS, least), ENDS), {}
        self.share = (max(3, least), 2) if kind == "signal" else SHARES.get(kind, MARK)

    def add(self, line, key):
        """A line, and whose it is."""
        some = self.by_key.get(key)
        if some is None and len(self.by_key) < KEYS:
            first, last = self.share
            some = self.by_key[key] = Some(first, last, SERIES if self.kind == "step" else 0)
        if some is not None:
            some.add(line)
        if self.kind == "signal":
            self.all.add(line)

    def picks(self):
        """(urgency, first line, last line) of what is wanted; the least urgent is left out first."""
        if self.kind == "signal":
            return list(self._messages()) + list(self._signals())
        return list(self._marks())

    def _messages(self):
        before, after = MESSAGE if self.wide else NEAR[False]
        first, last = WHOLE
        for line in self.all.first[:first] + list(self.all.last)[-last:]:
            yield 1, line - before, line + after
        if self.wide:
            for some in self.by_key.values():
                yield 3, some.first[0] - before, some.first[0] + after

    def _signals(self):
        before, after = NEAR[self.wide]
        for some in [self.all, *self.by_key.values()]:
            for line in some.first + list(some.last):
                yield 2, line, line
                yield 3, line - before, line + after

    def _marks(self):
        most = STEPS // max(len(self.by_key), 1)
        for some in self.by_key.values():
            for line in some.first + list(some.last):
                yield 2, line, line
            for line in some.thinned(most):
                yield 4, line, line


def chosen(groups, lines, budget, hidden):
    """Positions of the lines to send, in order. budget: how many at most, beyond head and tail.

    hidden: lines that must stay, for they may hold a secret whose beginning is not sent.
    """
    picks = [(0, 0, HEAD - 1), (0, lines - TAIL, lines - 1)]
    for group in groups:
        picks += group.picks()
    taken = set()
    for urgency, first, last in sorted(picks):
        if len(taken) > budget and urgency:
            break
        taken.update(range(max(first, 0), min(last + 1, lines)))
    return sorted(taken.difference(hidden))
