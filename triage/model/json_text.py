"""JSON of evidence as Python values whose text can be written again: half of a surrogate pair is no character.

`json.loads` takes `"\\ud800"` and gives a text that no file, terminal or report can hold.
"""

from __future__ import annotations

import json
import re
from typing import Any

_ESCAPE = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def loads(data: bytes | str) -> Any:
    """The JSON document, halves of pairs as U+FFFD.

    Raises ValueError for what is no JSON (UnicodeDecodeError for what is no text), RecursionError for deep nesting.
    """
    text = data if isinstance(data, str) else data.decode(json.detect_encoding(data))
    if "\\ud" in text or "\\uD" in text:
        text = _ESCAPE.sub(lambda found: r"\ufffd" if found["half"] else found[0], text)
    return json.loads(text)
