"""Take secrets and people out of logs and bundles, or check that none are left."""

from __future__ import annotations

from pathlib import Path

import click

from triage.errors import UsageError

FOUND = 23  # exit code of --verify


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", help="Archive (.tar.zst, .tar.gz), or a file when one log is redacted.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
@click.option("--share", is_flag=True, help="Hide names of machines and private addresses, too.")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="A machine's name to hide (with --share).")
@click.option("--user", "users", multiple=True, metavar="NAME", help="A person's name to hide.")
@click.option("--key", metavar="FILE", help="Key file of an earlier run: the same value gives the same token again.")
@click.option("--verify", is_flag=True, help="Change nothing; exit 23 when a rule still finds something.")
def command(
    paths: tuple[str, ...],
    output: str | None,
    force: bool,
    share: bool,
    hosts: tuple[str, ...],
    users: tuple[str, ...],
    key: str | None,
    verify: bool,
) -> int:
    """Redact PATHS (logs, folders, bundles, `-` for standard input) with the rules that collectors use on the nodes.

    \b
    Examples:
      triage redact bundle.tar.zst --share -o for-the-vendor.tar.zst
      triage redact slurm-1234.out -o clean.out
      triage redact bundle.tar.zst --verify
    """
    from triage.cli import _output
    from triage.transport import redacting

    words = {"host": set(hosts), "user": set(users)}
    if verify:
        return _verify(list(paths), share, words)
    if output is None:
        raise UsageError("name the output with -o; nothing is changed in place")
    _output.refuse_overwrite(output, force)
    done = redacting.redact(list(paths), Path(output).absolute(), share, words, key, force)
    files = f"{done.files} file{'' if done.files == 1 else 's'}"
    click.echo(f"{done.path}: {files}, {sum(done.counts.values())} values taken out{_listed(done.counts)}")
    click.echo(f"names behind its tokens: {done.key.name} (keep it to yourself)")
    return 0


def _verify(paths: list[str], share: bool, words: dict[str, set[str]]) -> int:
    from triage.transport import redacting

    found = redacting.verify(paths, share, words)
    for file, counts in sorted(found.items()):
        click.echo(f"{file}: {_listed(counts).strip(' ()')}")
    click.echo("nothing found" if not found else f"something is left in {len(found)} files")
    return FOUND if found else 0


def _listed(counts: dict[str, int]) -> str:
    return f" ({', '.join(f'{number} {kind}' for kind, number in sorted(counts.items()))})" if counts else ""
