"""Print the JSON Schema of an answer, a bundle, a recording, a signature or a playbook."""

from __future__ import annotations

import click

from triage.cli._schemas import KINDS


@click.command()
@click.argument("name", type=click.Choice(tuple(KINDS)), metavar="NAME")
def command(name: str) -> None:
    """Print the JSON Schema of NAME, for editors and for programs that read the answer.

    report, check, compare, scaling and lookup are what the commands write with --format json; bundle is the manifest of
    what collect writes, steps a line of what record writes; signature and playbook are for editing the YAML.

    \b
    Examples:
      triage schema report > report.schema.json
      triage schema signature > signature.schema.json
    """
    import msgspec

    from triage.cli._schemas import schema

    click.echo(msgspec.json.format(msgspec.json.encode(schema(name)), indent=1).decode())
