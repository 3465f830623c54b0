"""Print the JSON Schema of a report, signature or playbook."""

from __future__ import annotations

import click

NAMES = ("report", "signature", "playbook")


@click.command()
@click.argument("name", type=click.Choice(NAMES))
def command(name: str) -> None:
    """Print the JSON Schema of NAME, for editors and for programs that read the answer.

    Example: triage schema report > report.schema.json
    """
    import msgspec

    from triage.model.playbook import Playbook
    from triage.model.report import Report
    from triage.model.signature import Signature

    kinds = {"report": Report, "signature": Signature, "playbook": Playbook}
    schema = msgspec.json.schema(kinds[name])
    click.echo(msgspec.json.format(msgspec.json.encode(schema), indent=1).decode())
