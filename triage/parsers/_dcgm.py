"""`dcgmi diag` as a table and as JSON: what each test says of each GPU, and the messages behind it, unwrapped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from triage.model import json_text
from triage.model.base import Scalar
from triage.model.event import Fact, Where
from triage.parsers._smi_text import slug

TABLE = re.compile(r"\| Diagnostic +\| Result +\|")
_ROW = re.compile(r"\|(?P<name>[^|]{10,40})\|(?P<text>[^|]{10,200})\|?\s*$")
_RESULT = re.compile(
    r"(?:GPU ?(?P<gpu>\d{1,3}): )?(?P<result>Pass|Fail|Skip|Warn)(?:ed|ped|ing)?\b"
    r"(?: - (?P<which>All|GPUs?: ?[\d, ]+))?"
)
WRAP = 45  # characters after which the tool breaks a message, inside words too
_NOTES = ("warning", "error", "info")
_GPUS = re.compile(r"\bGPU:? ?(\d{1,3})\b")
LINES, MESSAGE = 20_000, 2_000
_WORDS = {"pass": "pass", "fail": "fail", "skip": "skip", "warn": "warn", "not run": "skip", "notrun": "skip"}


def table(lines: list[str], start: int, file: str) -> tuple[list[Fact], int]:
    """Facts of the table whose head stands at `start`, and the first line behind it."""
    found: list[Fact] = []
    name, note, index = "", "", start + 1
    message: list[str] = []
    at = start
    while index < min(len(lines), start + LINES) and lines[index].lstrip().startswith(("|", "+")):
        row = _ROW.match(lines[index].strip())
        index += 1
        if row is None or row["name"].startswith("-----"):
            continue
        left, text = row["name"].strip(), row["text"]
        if left:
            found += _message(note, name, message, at, file)
            message, note, at = [], "", index - 1
        if left.lower().startswith(_NOTES):
            note = left
        elif left and not left.startswith("-"):
            name = left
        if note:
            message.append(text[1 : WRAP + 1] if len(text) == WRAP + 3 else text.strip() + " ")
        elif name:
            found += _results(name, text.strip(), Where(file=file, line=index))
    found += _message(note, name, message, at, file)
    return found, index


def _results(name: str, text: str, where: Where) -> Iterator[Fact]:
    match = _RESULT.match(text)
    if match is None:
        return
    gpus = [match["gpu"]] if match["gpu"] else re.findall(r"\d{1,3}", match["which"] or "")
    for gpu in gpus or [None]:
        entity: dict[str, Scalar] = {} if gpu is None else {"gpu": int(gpu)}
        yield from _fact(name, match["result"].lower(), entity, where)


def _fact(name: str, result: str, entity: dict[str, Scalar], where: Where) -> Iterator[Fact]:
    yield Fact(name=f"check.dcgm.{slug(name)}", value=result, where=where, entity=entity)
    yield Fact(name="check.result", value=result, where=where, entity=entity)
    if result == "fail":
        yield Fact(name="check.test", value=slug(name), where=where, entity=entity)


def _message(note: str, name: str, pieces: list[str], at: int, file: str) -> Iterator[Fact]:
    """A warning or error, its wrapped pieces put together again (the tool breaks inside words)."""
    if not note or note.lower().startswith("info"):
        return
    text = re.sub(r" {2,}", " ", "".join(pieces)).strip()
    about = _GPUS.search(note) or _GPUS.search(text)
    entity: dict[str, Scalar] = {"gpu": int(about[1])} if about else {}
    where = Where(file=file, line=at + 1)
    yield Fact(name="check.dcgm.message", value=text[:MESSAGE], where=where, entity=entity, text=text[:500])


def document(text: str, first_line: int, file: str) -> Iterator[Fact]:
    """Facts of `dcgmi diag -j`, of DCGM 2 to 4. Messages are left to the lines: in JSON they are not wrapped."""
    try:
        root = json_text.loads(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(root, dict):
        return
    body = next((value for key, value in root.items() if key.startswith("DCGM") and isinstance(value, dict)), root)
    where = Where(file=file, line=first_line)
    for category in _list(body.get("test_categories")):
        for test in _list(category.get("tests")):
            for result in _list(test.get("results")):
                word = _WORDS.get(str(result.get("status", "")).strip().lower())
                if word and test.get("name"):
                    yield from _fact(str(test["name"])[:60], word, _about(result), where)


def _about(result: dict[str, Any]) -> dict[str, Scalar]:
    """GPU of a result: `gpu_id` (also `"0,1"`: of no single one) or `entity_id` of an entity of group GPU."""
    number = result.get("gpu_id")
    if number is None and str(result.get("entity_group", "")).upper() == "GPU":
        number = result.get("entity_id")
    text = str(number)
    return {"gpu": int(text)} if text.isdigit() and len(text) < 4 else {}


def _list(value: Any) -> list[dict[str, Any]]:
    return [item for item in value[:1000] if isinstance(item, dict)] if isinstance(value, list) else []
