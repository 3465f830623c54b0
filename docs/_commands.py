"""Pages about the command line: one a command with its subcommands, exit codes, collectors, schemas."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from _text import block, code, document, link, plain, section, table

from triage.cli import _schemas, cli


@dataclass(frozen=True)
class Described:
    """A command as its help tells it: paragraphs, and the examples below them."""

    path: str
    command: click.Command
    context: click.Context
    paragraphs: list[str]
    examples: str

    @property
    def usage(self) -> str:
        """`triage explain [OPTIONS] [PATHS]...`."""
        return " ".join([f"triage {self.path}", *self.command.collect_usage_pieces(self.context)])

    @property
    def options(self) -> list[tuple[str, str]]:
        """Spellings with what they take, and the help of each option."""
        known = [each for each in self.command.get_params(self.context) if isinstance(each, click.Option)]
        return [record for each in known if (record := each.get_help_record(self.context)) is not None]


def described(path: str, command: click.Command, parent: click.Context | None = None) -> Described:
    """A command's help in parts. Examples are the paragraph that begins so, or the sentence at its end."""
    context = click.Context(command, info_name=(path or "triage").split()[-1], parent=parent)
    paragraphs, examples = [], []
    for part in inspect.cleandoc(command.help or "").replace("\b\n", "").split("\n\n"):
        head, found, rest = part.partition("Example: ") if "Example: " in part else ("", "", part)
        if part.startswith(("Examples:", "Example, ")):
            examples += [line.strip() for line in part.splitlines()[1:]]
        elif found:
            examples += [rest.strip()]
            paragraphs += [head.strip()] if head.strip() else []
        else:
            paragraphs.append(part)
    return Described(path, command, context, paragraphs, "\n".join(examples))


def commands() -> Iterator[Described]:
    """All commands and subcommands in the order in which a user meets them."""
    yield from _below(cli, "", top())


def top() -> click.Context:
    """The context of `triage` itself, with its settings."""
    return click.Context(cli, info_name="triage", **cli.context_settings)


def _below(group: click.Group, path: str, parent: click.Context) -> Iterator[Described]:
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        if command is None or command.hidden:
            continue
        found = described(f"{path}{name}", command, parent)
        yield found
        if isinstance(command, click.Group):
            yield from _below(command, f"{path}{name} ", found.context)


def command_pages() -> Iterator[tuple[str, str]]:
    """A page for each command, its subcommands on it, and an index."""
    told = list(commands())
    tops = [each for each in told if " " not in each.path]
    for top in tops:
        inner = [line for each in told if each.path.startswith(top.path + " ") for line in _subcommand(each)]
        yield f"reference/commands/{top.path}.md", document(f"triage {top.path}", [*_command(top), *inner])
    home = "reference/commands/index.md"
    rows = [(link(code(f"triage {each.path}"), f"reference/commands/{each.path.split()[0]}.md", home), plain(each.paragraphs[0])) for each in told]  # fmt: skip  # noqa: E501
    yield home, document("Commands", table(("command", "what it does"), rows))


def _command(one: Described, depth: int = 2) -> Iterator[str]:
    yield from block(one.usage, "console")
    for paragraph in one.paragraphs:
        yield from (plain(paragraph), "")
    yield from section("Options", table(("option", "meaning"), [(code(a), plain(b)) for a, b in one.options]), depth)
    yield from section("Examples", block(one.examples, "sh") if one.examples else [], depth)


def _subcommand(one: Described) -> Iterator[str]:
    yield from section(f"triage {one.path}", _command(one, 3))


def exit_code_page() -> tuple[str, str]:
    """Exit codes, the numbers taken from the code."""
    rows = [(str(number), who, what) for number, who, what in sorted(_exit_codes())]
    lines = ["An error is one line on stderr that says what, where and what to do.", ""]
    return "reference/exit-codes.md", document("Exit codes", [*lines, *table(("code", "of", "means"), rows)])


def _exit_codes() -> Iterator[tuple[int, str, str]]:
    from triage import errors
    from triage.cli import check, compare, explain, lookup, playbook, redact

    yield 0, "all", "done; with `explain --exit-code`: healthy"
    yield errors.TriageError.exit_code, "all", "an error inside triage, told in one line; `-vv` shows where"
    yield errors.UsageError.exit_code, "all", "the request, or content (signatures, playbooks), is at fault"
    yield errors.BundleError.exit_code, "all", "the evidence cannot be opened at all"
    yield lookup.NOTHING, "lookup", "nothing is known; the nearest names are on stderr"
    yield playbook.NOTHING_FOUND, "playbook search", "no playbook speaks of all the words"
    yield 6, "collect", "a node or a collector is missing; the bundle is kept"
    for verdict in ("diagnosed", "suspected", "inconclusive"):
        yield explain.EXIT_CODES[verdict], "explain --exit-code", verdict
    yield check.FAILED, "check", "a stage failed"
    yield compare.WORSE, "compare", "worse than `--fail-over` allows, or a new fault"
    yield compare.NOT_COMPARABLE, "compare", "not comparable"
    yield redact.FOUND, "redact --verify", "a rule still finds something"
    yield 130, "all", "interrupted; `collect` keeps what had come"
    yield 141, "all", "whoever read the output has gone (`| head`)"


def collector_page(folder: Path) -> tuple[str, str]:
    """What each collector takes, from its own constants: it is not imported, it runs on nodes."""
    rows = []
    for path in sorted(folder.glob("[a-z]*.py")):
        known = _constants(path.read_text(encoding="utf-8"))
        needs = ", ".join(code(each) for each in known.get("NEEDS", ())) or "nothing"
        rows.append((code(path.stem), plain(known["TITLE"]), needs, str(known.get("SECONDS", ""))))
    lines = [
        "By name for `triage collect --only` and `--skip`. A node without what one needs has nothing to collect.",
        "",
    ]
    return "reference/collectors.md", document(
        "Collectors", [*lines, *table(("name", "takes", "needs", "seconds at most"), rows)]
    )


def _constants(source: str) -> dict[str, Any]:
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def schema_pages() -> Iterator[tuple[str, str]]:
    """A page a schema with its records, the schema itself beside it, and an index."""
    import msgspec

    home, rows = "reference/schemas/index.md", []
    for name, (told, _, _) in _schemas.KINDS.items():
        whole = _schemas.schema(name)
        lines = [f"Of {plain(told)}. As JSON Schema: [{name}.json]({name}.json), or `triage schema {name}`.", ""]
        records = [line for part, body in whole["$defs"].items() for line in section(part, _record(body))]
        page = f"reference/schemas/{name}.md"
        yield page, document(f"Schema: {name}", [*lines, *records])
        text = msgspec.json.format(msgspec.json.encode(whole), indent=1).decode()
        yield f"reference/schemas/{name}.json", text + "\n"
        rows.append((link(name, page, home), plain(told)))
    text = "Fields are only added within a major version. JSON is English whatever the language."
    yield home, document("JSON Schemas", [text, *table(("schema", "of"), rows)])


def _record(body: dict[str, Any]) -> Iterator[str]:
    yield plain(body.get("description", ""))
    rows = []
    for name, part in body.get("properties", {}).items():
        default = "required" if name in body.get("required", ()) else code(part["default"]) if "default" in part else ""
        rows.append((code(name), _type(part), default))
    yield from table(("field", "type", "default"), rows)


def _type(part: dict[str, Any]) -> str:
    if "$ref" in part:
        return f"[{part['$ref'].rsplit('/', 1)[-1]}](#{part['$ref'].rsplit('/', 1)[-1].lower()})"
    if "anyOf" in part:
        return " or ".join(_type(each) for each in part["anyOf"])
    if "const" in part:
        return code(part["const"])
    if "enum" in part:
        few = part["enum"][:8]
        return ", ".join(code(each) for each in few) + (" and more" if len(part["enum"]) > len(few) else "")
    if "prefixItems" in part:
        return ", then ".join(_type(each) for each in part["prefixItems"])
    if part.get("type") == "array":
        return f"list of {_type(part.get('items', {}))}"
    if part.get("type") == "object" and isinstance(part.get("additionalProperties"), dict):
        return f"map to {_type(part['additionalProperties'])}"
    kinds = part.get("type", "anything")
    return plain(" or ".join(kinds) if isinstance(kinds, list) else kinds)


def module_doc(name: str) -> str:
    """What a module says of itself."""
    return inspect.cleandoc(import_module(name).__doc__ or "")
