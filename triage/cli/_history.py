"""Keeping what was explained; it never gets in the way of the answer."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from triage.model.pictures import Pictures
    from triage.model.report import Report


def keep(report: Report, pictures: Pictures, quiet: bool, verbose: int) -> None:
    """Write the incident down, and tell a person when its like was seen before. Trouble is told with -v only."""
    from triage.history import questions, records
    from triage.history.places import place
    from triage.history.store import Store, StoreError
    from triage.report.postmortem import compose

    path = place()
    if path is None or not report.bundle.files:
        return
    one = records.kept(report, pictures, compose(report, pictures).impact)
    try:
        with Store(path) as store:
            store.add(one)
            like = questions.before(store, report, one.id) if not quiet and sys.stderr.isatty() else []
    except StoreError as error:
        if verbose:
            click.echo(f"triage: not kept in the history: {error}", err=True)
        return
    if like:
        click.echo(_told(like), err=True)


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
