"""Where signatures, playbooks and data files lie, and how a YAML file becomes typed records with exact error places."""

from __future__ import annotations

import ast
import difflib
import hashlib
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from triage.errors import ContentError

T = TypeVar("T")
DEPTH = 40  # levels of a YAML file; a playbook has about fifteen
_PACKAGE = Path(__file__).resolve().parent
_Loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def root() -> Path:
    """The folder that holds signatures/, playbooks/ and collectors/: packed into the wheel, or the checkout."""
    packed = _PACKAGE / "_content"
    return packed if packed.is_dir() else _PACKAGE.parent


def own() -> Path:
    """Where new content goes: the team's own folder, else the checkout; never into an installed package, but here."""
    if extra := os.environ.get("TRIAGE_CONTENT"):
        return Path(extra)
    return Path() if (_PACKAGE / "_content").is_dir() else root()


def data(name: str) -> Path:
    """A file of triage/data."""
    return _PACKAGE / "data" / name


def files(folder: str) -> list[Path]:
    """All YAML files below a content folder, sorted. TRIAGE_CONTENT adds a team's own folder of the same layout."""
    found = sorted((root() / folder).rglob("*.yaml"))
    if extra := os.environ.get("TRIAGE_CONTENT"):
        found += sorted((Path(extra) / folder).rglob("*.yaml"))
    return found


def digest() -> str:
    """SHA-256 over all signatures, playbooks and data files: names and bytes, as they were when first asked for."""
    return _digest_with(os.environ.get("TRIAGE_CONTENT"))


@cache
def _digest_with(_extra: str | None) -> str:
    return _digest([*files("signatures"), *files("playbooks"), *sorted((_PACKAGE / "data").glob("*.yaml"))])


def fingerprint(folder: str) -> str:
    """SHA-256 over one content folder: the names that stand for identities, and the bytes."""
    return _digest(files(folder), parents=True)


def _digest(paths: list[Path], parents: bool = False) -> str:
    total = hashlib.sha256()
    for path in paths:
        name = f"{path.parent.name}/{path.name}" if parents else path.name
        total.update(name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def docstrings(package: str) -> list[str]:
    """What the modules of a package say of themselves, sorted by name: parsers and analyses name their facts there."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((_PACKAGE / package).glob("*.py"))]
    return [ast.get_docstring(ast.parse(text)) or "" for text in texts]


class Marked:
    """A YAML tree as plain str, list and dict, with the line of every node by its path (`match[0].regex`)."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.lines, self.faults = path, {"": 1}, []  # type: ignore[var-annotated]
        try:
            node = yaml.compose(text, Loader=_Loader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            self.fault(getattr(error, "problem", None) or "not YAML", line=mark.line + 1 if mark else 1)
            node = None
        self.seen: set[int] = set()
        self.tree = self._plain(node, "") if node is not None else None

    def fault(self, what: str, at: str = "", line: int | None = None) -> None:
        """Note a fault at a path within the file, or at a line."""
        self.faults.append(f"{self.path}:{line or self.line(at)}: {what}")

    def line(self, at: str) -> int:
        """Line of the nearest known ancestor of `at`."""
        while at not in self.lines:
            at = at[: max(at.rfind("."), at.rfind("["), 0)]
        return int(self.lines[at])

    def _plain(self, node: yaml.Node, at: str, depth: int = 0) -> Any:
        self.lines[at] = node.start_mark.line + 1
        if id(node) in self.seen or depth > DEPTH:
            self.fault("aliases are not allowed" if depth <= DEPTH else f"nests more than {DEPTH} deep", at)
            return None
        self.seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            return None if node.value in {"", "null", "~"} and node.style is None else node.value
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, f"{at}[{index}]", depth + 1) for index, item in enumerate(node.value)]
        return self._mapping(node, at, depth)

    def _mapping(self, node: yaml.Node, at: str, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in out:
                self.fault(f"key {name!r} stands twice", line=key.start_mark.line + 1)
            inner = f"{at}.{name}" if at else name
            out[name] = self._plain(value, inner, depth + 1)
            self.lines[inner] = key.start_mark.line + 1
        return out


def read(path: Path) -> Marked:
    """Read a YAML file; faults stand in the result."""
    return Marked(path, path.read_text(encoding="utf-8"))


def convert(marked: Marked, kind: type[T], at: str = "", tree: Any = None) -> T | None:
    """The tree as a typed record, or None with the faults noted in `marked`."""
    try:
        return msgspec.convert(marked.tree if tree is None else tree, kind, strict=False)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        inner = where.rstrip("`").lstrip(".")
        what = what.replace("Object", "it") + _nearest_field(what, kind)
        marked.fault(what, ".".join(part for part in (at, inner) if part))
        return None


def _nearest_field(what: str, kind: Any) -> str:
    """A suggestion for an unknown field of the record itself."""
    found = re.search(r"unknown field `([^`]+)`", what)
    if found is None or not isinstance(kind, type) or not issubclass(kind, msgspec.Struct):
        return ""
    return nearest(found[1], [field.encode_name for field in msgspec.structs.fields(kind)])


def load(path: Path, kind: type[T]) -> T:
    """One record from one file. Raises ContentError with every fault found."""
    marked = read(path)
    record = convert(marked, kind) if not marked.faults else None
    if record is None or marked.faults:
        raise ContentError(marked.faults)
    return record


def load_all(folder: str, kind: type[T]) -> Iterator[tuple[Path, T]]:
    """Every record of a content folder. Raises ContentError with the faults of all files at once."""
    faults: list[str] = []
    records = []
    for path in files(folder):
        marked = read(path)
        record = convert(marked, kind) if not marked.faults else None
        faults += marked.faults
        if record is not None:
            records.append((path, record))
    if faults:
        raise ContentError(faults)
    yield from records


def nearest(word: str, known: list[str] | tuple[str, ...]) -> str:
    """` (did you mean X?)`, or nothing: the closest name, else the first that holds the word."""
    close = difflib.get_close_matches(word, known, 1) or [name for name in known if len(word) > 2 and word in name]
    return f" (did you mean {close[0]}?)" if close else ""
