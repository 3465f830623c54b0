"""What was explained before: repeat offenders, notes, goodput, export"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from triage.cli._history import OPTION
from triage.errors import UsageError

if TYPE_CHECKING:
    from triage.history.store import Store

FORM = click.option("--format", "form", type=click.Choice(("text", "json")), default="text", help="Form of the answer.")


@click.group()
def command() -> None:
    """Look at incidents that `triage explain` has kept on this machine.

    They lie in one SQLite file, or where TRIAGE_HISTORY or --history says: another file, or the PostgreSQL database of
    a team (TRIAGE_HISTORY=off or explain --no-history keep none).

    \b
    Examples:
      triage history list --node node017
      triage history note 3fa1 "swapped the riser" --held yes
      triage history nodes
    """


@command.command("list")
@click.option("--cause", metavar="ID", help="Only this cause, or this area (gpu, network ...).")
@click.option("--node", metavar="NAME", help="Only incidents in which this node was at fault.")
@click.option("--signature", metavar="ID", help="Only incidents in which this was seen.")
@click.option("-n", "most", type=click.IntRange(1), default=50, show_default=True, help="How many.")
@FORM
@OPTION
def list_(cause: str | None, node: str | None, signature: str | None, most: int, form: str, place: str | None) -> None:
    """Incidents, the newest first. Example: triage history list --cause gpu"""
    from triage.history import questions

    with _store(place) as store:
        rows = questions.listed(store, cause, node, signature, most)
    head = ("id", "when", "verdict", "cause", "job", "GPU-hours")
    _tell(rows, form, head, lambda row: (
        row["id"][:8], _day(row["seen"]), row["verdict"], row["cause"] or "-", _clean(row["job"] or "-"),
        _number(row["gpu_hours"]),
    ))  # fmt: skip


@command.command()
@click.argument("identity", metavar="ID")
@FORM
@OPTION
def show(identity: str, form: str, place: str | None) -> None:
    """All that is kept of one incident. Example: triage history show 3fa1"""
    from triage.history import questions

    with _store(place) as store:
        row = questions.shown(store, identity)
    if form == "json":
        click.echo(json.dumps(row, indent=1, ensure_ascii=False))
        return
    head = (row["id"][:12], _day(row["seen"]), row["verdict"], f"{_clean(row['title']) or '-'} ({row['cause'] or '-'})")
    click.echo("  ".join(head))
    for name in ("job", "ranks", "run_s", "lost_s", "gpu_hours", "culprits"):
        click.echo(f"  {name:<10} {_clean(row[name]) if row[name] is not None else '-'}")
    for name in ("nodes", "signatures"):
        click.echo(f"  {name:<10} {_clean(', '.join(row[name]))}")
    for each in row["notes"]:
        held = f" (held: {each['held']})" if each["held"] else ""
        click.echo(f"  note {_day(each['at'])}: {_clean(each['text'])}{held}")


@command.command()
@click.argument("identity", metavar="ID")
@click.argument("text")
@click.option("--held", type=click.Choice(("yes", "no")), help="Did it help?")
@OPTION
def note(identity: str, text: str, held: str | None, place: str | None) -> None:
    """Write down what was done. Example: triage history note 3fa1 "replaced the cable" --held yes"""
    with _store(place) as store:
        whole = store.note(identity, text, held)
    click.echo(f"noted for {whole[:8]}")


@command.command()
@click.option("--cause", metavar="ID", help="Only this cause, or this area.")
@click.option("-n", "most", type=click.IntRange(1), default=30, show_default=True, help="How many.")
@FORM
@OPTION
def nodes(cause: str | None, most: int, form: str, place: str | None) -> None:
    """Nodes by how often they were at fault, and whether that is chance. Example: triage history nodes"""
    from triage.history import questions

    with _store(place) as store:
        rows = questions.nodes(store, cause)[:most]
    head = ("node", "at fault", "runs", "node-days", "per node-day", "chance", "")
    _tell(rows, form, head, lambda row: (
        _clean(row["node"]), str(row["incidents"]), str(row["runs"]), _number(row["node_days"]),
        _number(row["per_node_day"]), f"{row['corrected']:.2g}", "repeat offender" if row["repeat_offender"] else "",
    ))  # fmt: skip


@command.command()
@FORM
@OPTION
def stats(form: str, place: str | None) -> None:
    """Goodput, and mean time between failures by class. Example: triage history stats"""
    from triage.history import questions

    with _store(place) as store:
        found = questions.stats(store)
    if form == "json":
        click.echo(json.dumps(found, indent=1))
        return
    goodput = "unknown" if found["goodput"] is None else f"{100 * found['goodput']:.2f} %"
    click.echo(f"incidents {found['incidents']}, run hours {_number(found['run_hours'])}, goodput {goodput}")
    _tell(found["classes"], "text", ("class", "failures", "MTBF (run hours)", "lost GPU-hours"), lambda row: (
        row["class"], str(row["failures"]), _number(row["mtbf_hours"]), _number(row["lost_gpu_hours"]),
    ))  # fmt: skip


@command.command()
@click.option("-o", "--output", required=True, metavar="FILE", help="Ends in .csv or .parquet.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
@OPTION
def export(output: str, force: bool, place: str | None) -> None:
    """All incidents as CSV, or as Parquet (extra scale). Example: triage history export -o incidents.csv"""
    from triage.cli import _output
    from triage.history import exporting

    suffix = Path(output).suffix.lower()
    if suffix not in {".csv", ".parquet"}:
        raise UsageError(f"{output}: the name must end in .csv or .parquet")
    _output.refuse_overwrite(output, force)
    with _store(place) as store:
        if suffix == ".parquet":
            exporting.to_parquet(store, Path(output))
        else:
            _output.deliver(exporting.as_csv(store), output)


def _store(told: str | None) -> Store:
    from triage.history import places
    from triage.history.store import Store

    place = places.place(told)
    if place is None:
        raise UsageError("there is no history: TRIAGE_HISTORY is off, or there is no home folder")
    if isinstance(place, Path) and not place.exists():
        raise UsageError(f"nothing was kept yet ({place} does not exist); `triage explain` keeps what it explains")
    return Store(place)


def _tell(rows: list[dict[str, Any]], form: str, head: tuple[str, ...], cells: Any) -> None:
    if form == "json":
        click.echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    table = [head, *(cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in table) for at in range(len(head))]
    for line in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if not rows:
        click.echo("none that is kept")


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _clean(value: object) -> str:
    from triage.report.clean import clean

    return clean(str(value), 200)
