"""Texts of causes, playbooks, signatures and tables in other languages, in the folder `triage/data/i18n/<lang>/`.

A record's texts have keys: `title`, `means`, `tells`, `actions.0`, `nodes.<node>.ask`, `leaves.<leaf>.actions.0`. Files
hold them as nested YAML: `playbooks/<id>.yaml`; `signatures/<layer>.yaml`, `causes.yaml` and a file a table, with the
ids on top. `of` is the digest of the English texts that were translated: when those have changed, English is shown. No
stale advice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from triage import content
from triage.errors import ContentError
from triage.model.base import Record
from triage.model.playbook import Leaf, OperatorQuestion, Playbook
from triage.model.signature import Action, Cause, Check, Signature

Tree = dict[str, Any]
# kind: the file of triage/data, the fields that name a row, the fields that a person reads
TABLES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "rules": ("causality.yaml", ("id",), ("why",)),
    "xid": ("xid.yaml", ("number",), ("means", "action")),
    "exit_codes": ("exit_codes.yaml", ("name",), ("means", "look")),
    "rdma_status": ("rdma_status.yaml", ("name",), ("means", "look")),
    "states": ("states.yaml", ("system", "state"), ("means",)),
    "environment": ("environment.yaml", ("name",), ("does", "harm", "when")),
}
LISTS = ("causes", *TABLES)  # one file each
KINDS = (*LISTS, "playbooks", "signatures")


class Row(Record, frozen=True, kw_only=True):
    """What a row of a table says to a person. id: its naming fields with a slash between."""

    id: str
    texts: dict[str, str]


Text = Signature | Playbook | Cause | Row


def texts(record: Text) -> dict[str, str]:
    """Key -> English text, for everything of a record that a person reads."""
    if isinstance(record, Row):
        return record.texts
    pairs = _of_playbook(record) if isinstance(record, Playbook) else _of_lines(record)
    return {key: text for key, text in pairs if text}


def _of_lines(record: Signature | Cause) -> Iterator[tuple[str, str]]:
    yield from (("title", record.title), ("means", record.means))
    yield from _ends("", record.next_check, record.actions)


def _of_playbook(record: Playbook) -> Iterator[tuple[str, str]]:
    yield from (("title", record.title), ("means", record.means), ("look_first", record.look_first))
    for name, node in record.nodes.items():
        yield f"nodes.{name}.ask", node.ask
        yield f"nodes.{name}.why", node.if_unknown.why or ""
        if isinstance(node.question, OperatorQuestion):
            yield f"nodes.{name}.text", node.question.text
    for name, leaf in record.leaves.items():
        yield from _of_leaf(f"leaves.{name}.", leaf)


def _of_leaf(prefix: str, leaf: Leaf) -> Iterator[tuple[str, str]]:
    yield prefix + "title", leaf.title or ""
    yield from _ends(prefix, leaf.next_check, leaf.actions)


def _ends(prefix: str, check: Check | None, actions: list[Action]) -> Iterator[tuple[str, str]]:
    yield prefix + "tells", check.tells if check else ""
    yield from ((f"{prefix}actions.{index}", action.do) for index, action in enumerate(actions))


def digest(record: Text) -> str:
    """Eight hex digits that change with any English text of a record."""
    return hashlib.sha256("\n".join(f"{key}={text}" for key, text in texts(record).items()).encode()).hexdigest()[:8]


def flat(tree: Any, prefix: str = "") -> dict[str, str]:
    """Nested YAML as key -> text."""
    if isinstance(tree, dict):
        return {key: text for name, inner in tree.items() for key, text in flat(inner, f"{prefix}{name}.").items()}
    if isinstance(tree, list):
        return {key: text for at, inner in enumerate(tree) for key, text in flat(inner, f"{prefix}{at}.").items()}
    return {prefix.rstrip("."): str(tree)} if tree is not None else {}


@cache
def _lists(kind: str) -> Mapping[str, Cause | Row]:
    """Records that stand in one file of data."""
    if kind == "causes":
        return {cause.id: cause for cause in content.load(content.data("causes.yaml"), list[Cause])}
    name, naming, fields = TABLES[kind]
    found = {}
    for each in content.load(content.data(name), list[dict[str, Any]]):
        identity = "/".join(str(each[field]) for field in naming)
        found[identity] = Row(id=identity, texts={field: str(each[field]) for field in fields if each.get(field)})
    return found


@cache
def _files(kind: str) -> dict[str, Path]:
    found = content.files(kind)
    return {f"{path.parent.name}/{path.stem}" if kind == "signatures" else path.stem: path for path in found}


def ids(kind: str) -> list[str]:
    """Ids of all English records of a kind."""
    return list(_lists(kind) if kind in LISTS else _files(kind))


@cache
def english(kind: str, name: str) -> Text | None:
    """The English record; None when there is none."""
    if kind in LISTS:
        return _lists(kind).get(name)
    path = _files(kind).get(name)
    if path is None:
        return None
    return content.load(path, Playbook) if kind == "playbooks" else content.load(path, Signature)


@cache
def _tree(path: Path) -> Tree:
    """A file of translations; {} when there is none. Raises ContentError."""
    if not path.is_file():
        return {}
    marked = content.read(path)
    if marked.faults or not isinstance(marked.tree, dict):
        raise ContentError(marked.faults or [f"{path}:1: a mapping is wanted"])
    return marked.tree


def own(folder: Path, kind: str, name: str) -> dict[str, str]:
    """What a language's folder holds for an id, `of` included; {} when nothing."""
    if kind == "playbooks":
        return flat(_tree(folder / kind / f"{name}.yaml"))
    if kind in LISTS:
        return flat(_tree(folder / f"{kind}.yaml").get(name))
    layer, _, short = name.partition("/")
    return flat(_tree(folder / kind / f"{layer}.yaml").get(short))


def by_key(folder: Path, kind: str, name: str) -> dict[str, str]:
    """Key -> translation for an id; {} when there is none, or when the English has changed since."""
    found, record = own(folder, kind, name), english(kind, name)
    if not found or record is None or found.pop("of", "") != digest(record):
        return {}
    return found


def told(folder: Path, kind: str, name: str) -> dict[str, str]:
    """English text -> translation for an id."""
    found, record = by_key(folder, kind, name), english(kind, name)
    return {text: found[key] for key, text in texts(record).items() if key in found} if record else {}


def _named(folder: Path, kind: str) -> set[str]:
    """Ids that a language's folder speaks of."""
    if kind in LISTS:
        return set(_tree(folder / f"{kind}.yaml"))
    paths = sorted((folder / kind).glob("*.yaml"))
    if kind == "playbooks":
        return {path.stem for path in paths}
    return {f"{path.stem}/{short}" for path in paths for short in _tree(path)}


def faults(folder: Path, kind: str) -> Iterator[str]:
    """What makes no sense: ids and keys without an English original."""
    for name in sorted(_named(folder, kind)):
        record = english(kind, name)
        if record is None:
            yield f"{kind} {name}: no such id"
            continue
        wanted, known = texts(record), by_key(folder, kind, name)
        yield from (f"{kind} {name}: no text {key}" for key in known if key not in wanted)
        for key in known.keys() & wanted.keys():
            if lost := _slots(wanted[key]) - _slots(known[key]):
                yield f"{kind} {name}: {key} must have the places {sorted(lost)}"


def _slots(text: str) -> set[str]:
    """Places that the evidence fills, and what is to be typed as it is (`code`, <pid>)."""
    return set(re.findall(r"{\w+}|<\w+>|`[^`]+`", text))


def missing(folder: Path, kind: str) -> dict[str, list[str]]:
    """Id -> what is untranslated, one line each; one line alone when the English has changed since. [] when all is."""
    found = {}
    for name in ids(kind):
        record, known = english(kind, name), own(folder, kind, name)
        if record is None:
            continue
        if not known:
            found[name] = [f"untranslated; `of: {digest(record)}`"]
        elif known.get("of") != digest(record):
            found[name] = [f"the English has changed; when the translation follows it, `of: {digest(record)}`"]
        else:
            found[name] = [f"{key} is untranslated" for key in texts(record) if key not in known]
    return found
