"""What a text file is like from end to end, whatever matched in it."""

from __future__ import annotations

from triage.model.base import Record
from triage.model.event import Stamp


class Summary(Record, frozen=True, kw_only=True):
    """The ends of one text file.

    lines: number of lines on disk as far as the file was read; None when it could not be read to its end.
    last_line, last_text: number and text (without prefix, at most 2,000 characters) of the last line that is not blank.
    first, last: the first and the last time that a line near either end carries; None when none does.
    """

    file: str
    lines: int | None = None
    last_line: int | None = None
    last_text: str = ""
    first: Stamp | None = None
    last: Stamp | None = None
