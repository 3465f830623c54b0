"""Which of many patterns a line may satisfy, by the literals of which each match holds at least one.

Lines are compared by their *shape*: small letters, no digits. Shapes repeat, and so do the words of new ones, so that
nearly every line costs one look-up; a search for two thousand literals in each line would take a hundred times as long.
"""

FOLD = bytes(32 if code == 9 else code + 32 if 65 <= code <= 90 else code for code in range(256))
DIGITS = b"0123456789"
MEMORY = 100000  # distinct words remembered
WORD = 80  # bytes of a word worth remembering
_GRAM = 4  # bytes by which words are looked up


def shape(data):
    """The shape of a line, or of many lines at once."""
    return data.translate(FOLD, DIGITS)


class Literals(object):
    """Finds patterns by their literals; `known` of all words so far makes it quick.

    needles: for each pattern a list of texts; a line that satisfies it holds one of them.
    """

    def __init__(self, needles):
        self.by_word, self.by_gram, self.short, self.words = {}, {}, [], {}
        for number, some in enumerate(needles):
            for needle in some:
                self._add(shape(needle.encode("utf-8")), number)

    def _add(self, needle, number):
        word = max(needle.split(b" "), key=len)
        if word not in self.by_word:
            self.by_word[word] = []
            if len(word) < _GRAM:
                self.short.append(word)
            else:
                self.by_gram.setdefault(word[:_GRAM], []).append(word)
        self.by_word[word].append((needle, number))

    def patterns(self, line):
        """Numbers of the patterns that a line of this shape may satisfy, sorted."""
        found, words = set(), self.words
        for word in set(line.split(b" ")):
            inside = words.get(word)
            for part in self._learn(word) if inside is None else inside:
                found.update(number for needle, number in self.by_word[part] if needle in line)
        return sorted(found)

    def _learn(self, word):
        """The parts of needles that a word holds."""
        inside = [part for part in self.short if part in word]
        for at in range(len(word) - _GRAM + 1):
            for part in self.by_gram.get(word[at : at + _GRAM], ()):
                if word.startswith(part, at):
                    inside.append(part)
        inside = tuple(set(inside))
        if len(word) <= WORD:
            if len(self.words) >= MEMORY:
                self.words.clear()
            self.words[word] = inside
        return inside
