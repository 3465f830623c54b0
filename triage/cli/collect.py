"""Collect the evidence of a job from every node into one bundle, without secrets."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from triage.errors import UsageError

if TYPE_CHECKING:
    from triage.transport.collecting import Outcome, Plan, Prepared

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@click.command()
@click.option("--job", metavar="JOB", help="1234 or slurm:1234, k8s:NAMESPACE/KIND/NAME; none: this machine.")
@click.option("--nodelist", metavar="HOSTS", help="Only these hosts, such as node[1-4]; without --job over ssh.")
@click.option("--include", multiple=True, metavar="PATH", help="A file, folder or pattern; {node} is the node's name.")
@click.option("--only", multiple=True, metavar="NAME", help="Only these collectors (repeat, or with commas).")
@click.option("--skip", multiple=True, metavar="NAME", help="All collectors but these.")
@click.option("--since", metavar="TIME", help="Leave out files and lines before: 2h, or 2026-08-01T10:00:00Z.")
@click.option("--until", metavar="TIME", help="Leave out lines after.")
@click.option("--timeout", default="120", metavar="SECONDS", help="Deadline for everything (default: 120; 2m works).")
@click.option("--stacks", is_flag=True, help="Python stacks of the ranks too, by py-spy where it is installed.")
@click.option("--reduce", is_flag=True, help="Of logs only the lines that signatures may speak of: 100 kB a node.")
@click.option("--dry-run", is_flag=True, help="Say what would be asked and where, and ask nothing.")
@click.option(
    "-o", "--output", metavar="FILE", help="Bundle to write, .tar.zst or .tar.gz (default: named by the job)."
)
@click.option("--force", is_flag=True, help="Overwrite the output, and a partial folder of an earlier run.")
@click.option(
    "--share", is_flag=True, help="For other people's eyes: hide names of machines and private addresses too."
)
@click.option("--redact-hosts", is_flag=True, help="The same as --share.")
@click.option("--ssh", default="ssh", show_default=True, metavar="CMD", help="ssh with the options of your site.")
@click.option("--kubectl", default="kubectl", show_default=True, metavar="CMD", help="kubectl with your options.")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", help="Form of the summary.")
@click.option("-v", "--verbose", count=True, help="A line for each node.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def command(
    job: str | None,
    nodelist: str | None,
    include: tuple[str, ...],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    since: str | None,
    until: str | None,
    timeout: str,
    stacks: bool,
    reduce: bool,
    dry_run: bool,
    output: str | None,
    force: bool,
    share: bool,
    redact_hosts: bool,
    ssh: str,
    kubectl: str,
    form: str,
    verbose: int,
    quiet: bool,
) -> int:
    """Collect logs, GPU and network state, dumps and scheduler records of a job from all its nodes.

    \b
    Examples:
      triage collect --job 1234
      triage collect --job k8s:train/pytorchjob/llama -o incident.tar.zst
      triage collect --nodelist 'node[1-16]' --include '/var/log/train/*.log' --since 2h

    Secrets, users, mail and public addresses are taken out on the nodes. Exit code 6: a node or a collector is missing.
    """
    from triage.transport.collecting import Plan, prepare

    if not sys.platform.startswith("linux"):
        raise UsageError("collect runs on Linux")
    plan = Plan(
        job=job, nodelist=nodelist, include=include, only=_names(only), skip=_names(skip), since=moment(since),
        until=moment(until), timeout=duration(timeout), hosts=share or redact_hosts, stacks=stacks,
        reduce=reduce,
        ssh=ssh, kubectl=kubectl,
    )  # fmt: skip
    signal.signal(signal.SIGTERM, _interrupted)  # an epilog that runs out of time ends us so
    prepared = prepare(plan)
    if dry_run:
        from triage.transport.collecting import described

        click.echo("\n".join(described(prepared)))
        return 0
    return _collect(prepared, plan, _output(output or prepared.name(), force), force, form, _teller(verbose, quiet))


def _collect(prepared: Prepared, plan: Plan, output: Path, force: bool, form: str, told: Teller) -> int:
    from triage.transport.collecting import Collection

    collection = Collection(prepared, output, force, told.node)
    told.start(len(prepared.nodes))
    try:
        outcome = collection.run()
    finally:
        told.clear()
    click.echo(_json(outcome) if form == "json" else _text(outcome, plan))
    return 130 if outcome.interrupted else 0 if outcome.complete else 6


def _interrupted(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _output(name: str, force: bool) -> Path:
    from triage.bundle.writing import SUFFIXES, suffix_of
    from triage.cli._output import refuse_overwrite

    if suffix_of(name) is None:
        raise UsageError(f"{name}: a bundle ends with {' or '.join(SUFFIXES)}")
    refuse_overwrite(name, force)
    return Path(name).absolute()


def _names(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for word in words for name in word.split(",") if name)


def duration(text: str) -> float:
    """Seconds of `90`, `90s`, `2m`, `1h`. Raises UsageError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if match is None or not float(match[1]):
        raise UsageError(f"{text!r} is no duration: say 90, 90s, 2m or 1h")
    return float(match[1]) * _UNITS[match[2] or "s"]


def moment(text: str | None) -> float | None:
    """Unix seconds of a time, or of so long ago. Raises UsageError."""
    if text is None:
        return None
    if re.fullmatch(r"\d+(?:\.\d+)?[smhd]", text):
        return time.time() - duration(text)
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        raise UsageError(f"{text!r} is no time: say 2h, or 2026-08-01T10:00:00Z") from None


def _text(outcome: Outcome, plan: Plan) -> str:
    lines = [str(outcome.path)]
    lines.append(
        f"{outcome.answered} of {outcome.nodes} nodes answered in full, {outcome.bytes / 1e6:.1f} MB of evidence"
    )
    if outcome.interrupted:
        lines.append("interrupted: the bundle holds what had come by then")
    elif not outcome.complete:
        lines.append(f"{outcome.gaps} things are missing; triage explain names them")
    lines.append(f"names behind its tokens: {outcome.key.name} (keep it to yourself)")
    lines.append(f"next: triage explain {outcome.path.name}")
    return "\n".join(lines)


def _json(outcome: Outcome) -> str:
    found = {name: getattr(outcome, name) for name in outcome.__struct_fields__}
    return json.dumps(found | {"path": str(outcome.path), "key": str(outcome.key)}, indent=2, sort_keys=True)


class Teller:
    """Progress on stderr: a counter on a terminal, a line for each node when asked."""

    def __init__(self, lines: bool, counter: bool) -> None:
        self._lines, self._counter, self._done, self._all = lines, counter, 0, 0

    def start(self, count: int) -> None:
        """So many nodes will be told."""
        self._all = count
        self._show()

    def node(self, line: str) -> None:
        """One node has ended."""
        self._done += 1
        if self._lines:
            self.clear()
            click.echo(line, err=True)
        self._show()

    def clear(self) -> None:
        """Take the counter away."""
        if self._counter:
            click.echo("\r\x1b[K", err=True, nl=False)

    def _show(self) -> None:
        if self._counter:
            click.echo(f"\rcollecting: {self._done} of {self._all} nodes …", err=True, nl=False)


def _teller(verbose: int, quiet: bool) -> Teller:
    return Teller(lines=bool(verbose), counter=not quiet and sys.stderr.isatty())
