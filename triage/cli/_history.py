"""Keeping what was explained; it never gets in the way of the answer."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from triage.errors import TriageError

if TYPE_CHECKING:
    from triage.history.places import Address
    from triage.model.pictures import Pictures
    from triage.model.report import Report


OPTION = click.option(
    "--history", "place", metavar="PLACE", help="A file or postgresql://user@host/database (default: TRIAGE_HISTORY)."
)


def check(place: str | None) -> None:
    """Before any work: raises UsageError when the command line names a place that is none."""
    if place is not None:
        from triage.history import places

        places.place(place)


def keep(report: Report, pictures: Pictures, quiet: bool, verbose: int, told: str | None = None) -> None:
    """Write the incident down, and tell a person when its like was seen before.

    told: where, from the command line. Trouble with the user's own file is told with -v only; a place that somebody
    named as a URL is where others look for the incident, so that trouble is told unless -q.
    """
    from triage.history import places

    place: Path | Address | None = None
    try:
        place = places.place(told)
        like = _kept(place, report, pictures, not quiet and sys.stderr.isatty()) if place is not None else []
    except TriageError as error:
        if verbose or not (quiet or isinstance(place, Path)):
            click.echo(f"triage: not kept in the history: {error}", err=True)
        return
    if like:
        click.echo(_told(like), err=True)


def _kept(place: Path | Address, report: Report, pictures: Pictures, ask: bool) -> list[dict[str, Any]]:
    """Write it down; the incidents like it when they are asked for."""
    from triage.history import questions, records
    from triage.history.store import Store
    from triage.report.postmortem import compose

    if not report.bundle.files:
        return []
    one = records.kept(report, pictures, compose(report, pictures).impact)
    with Store(place) as store:
        store.add(one)
        return questions.before(store, report, one.id) if ask else []


def _told(like: list[dict[str, Any]]) -> str:
    """`Seen before: 2 times on node017, last on ...; done then: ...`."""
    last = like[0]
    day = datetime.fromtimestamp(last["seen"], timezone.utc).strftime("%Y-%m-%d")
    times = "once" if len(like) == 1 else f"{len(like)} times"
    told = f"Seen before: {times} on {last['node']}, last on {day} (triage history show {last['id'][:8]})"
    noted = next((row for row in like if row["note"]), None)
    if noted is None:
        return told
    held = {"yes": ", which held", "no": ", which did not hold"}.get(noted["held"], "")
    return f"{told}; done then: {noted['note']}{held}"
