"""Words and numbers as nvidia-smi prints them; everything that says nothing becomes None, never zero."""

from __future__ import annotations

import re

from triage.model.signature import pci_address, size_in_bytes

_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,9})?")
_SIZE = re.compile(r"\d{1,12}(?:\.\d{1,3})? ?[KMGT]i?B", re.IGNORECASE)
_PCI = re.compile(r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?")

# What stands in place of a value; the ones in FAULTY say that the GPU itself did not answer.
FAULTY = ("unknown error", "err!", "gpu is lost", "gpu requires reset", "gpu requires restart", "gpu access blocked")
_SILENT = (
    "n/a", "not supported", "not available", "requested functionality has been deprecated", "insufficient permissions",
    "function not found", "-", "", "none", "unknown",
)  # fmt: skip


def plain(text: str) -> str:
    """Without the square brackets that CSV output puts around words, lower case."""
    return text.strip().strip("[]").strip().lower()


def known(text: str | None) -> str | None:
    """The text, or None when it says nothing."""
    if text is None or plain(text) in _SILENT or faulty(text):
        return None
    return text.strip()


def faulty(text: str) -> bool:
    """Does it say that the GPU did not answer?"""
    return plain(text) in FAULTY


def number(text: str | None) -> float | int | None:
    """`41 C`, `16x`, `629.85 W`, `100 %` -> the number; None when there is none."""
    found = _NUMBER.match(known(text) or "")
    if found is None:
        return None
    return float(found[0]) if "." in found[0] else int(found[0])


def size(text: str | None) -> int | None:
    """`81559 MiB` -> bytes."""
    found = _SIZE.match(known(text) or "")
    return size_in_bytes(found[0]) if found else None


def word(text: str | None) -> str | None:
    """`Not Active`, `Yes`, `Exclusive_Process` -> lower case with blanks."""
    found = known(text)
    return found.lower().replace("_", " ") if found is not None else None


def yes_no(text: str | None) -> str | None:
    """`Yes`, `No`; --query-remapped-rows prints 1 and 0 for them."""
    said = word(text)
    return {"1": "yes", "0": "no"}.get(said, said) if said is not None else None


def answer(text: str | None) -> str | None:
    """Like `word`, for a field in which `Unknown Error` is an answer and no missing one."""
    said = plain(text or "")
    return said if said and said not in _SILENT else None


def pci(text: str | None) -> str | None:
    """`00000000:9B:00.0` -> `0000:9b:00`."""
    found = _PCI.search(text or "")
    return pci_address(found[0]) if found else None
