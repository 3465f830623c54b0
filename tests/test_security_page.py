"""SECURITY.md names tests that exist: a row without its test would be a promise."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_row_of_the_table_has_its_tests() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.search(r"`[a-z_/]+(?:\.py|/)`[^|]*\|$", line)]
    assert len(rows) > 20
    for row in rows:
        for path, words in re.findall(r"`([a-z_/]+(?:\.py|/))`((?: \w+,?)*)", row.split("|")[-2]):
            found = ROOT / "tests" / path
            assert found.exists(), path
            source = found.read_text(encoding="utf-8") if found.is_file() else ""
            names = re.findall(r"def (test_\w+)", source)
            for word in words.replace(",", " ").split():
                assert any(word in name for name in names), f"{path}: no test with {word!r} in its name"
