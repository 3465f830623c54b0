"""Which parsers are asked about a file: one scan for the signs of all of them, then those whose sign was found.

To ask all takes some thirty milliseconds a file, and a job has a file for each of ten thousand ranks.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from triage.bundle.reading import printed
from triage.matching.engines import Expression, best
from triage.parsers import parsers, recognise

Recognise = Callable[[bytes, bytes], tuple[str, ...]]


def recogniser() -> Recognise:
    """As `parsers.recognise`, faster: a sign is part of what a parser looks for, so that none is missed."""
    signs = [(source, sign) for source, module in parsers().items() for sign in getattr(module, "SIGNS", ())]
    silent = frozenset(source for source, _ in signs)
    engine = best([Expression(_inline(sign.pattern.decode("ascii"), sign.flags), prefilter=True) for _, sign in signs])

    def found(head: bytes, tail: bytes) -> tuple[str, ...]:
        head, tail = printed(head, tail)
        seen = {signs[index][0] for index in engine.which(head if tail == head else head + b"\n" + tail)}
        return recognise(head, tail, silent - seen)

    return found


def _inline(regex: str, flags: int) -> str:
    return f"(?i:{regex})" if flags & re.IGNORECASE else regex
