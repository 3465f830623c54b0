"""Print what makes a shell complete commands, options and ids."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script of SHELL: commands, options, files, and ids of signatures, playbooks and causes.

    \b
    Examples:
      triage completion bash > ~/.local/share/bash-completion/completions/triage
      triage completion zsh > "${fpath[1]}/_triage"
      triage completion fish > ~/.config/fish/completions/triage.fish

    For this session alone: eval "$(triage completion bash)"
    """
    from click.shell_completion import get_completion_class

    from triage.cli import cli
    from triage.errors import UsageError

    kind = get_completion_class(shell)
    if kind is None:  # a click that no longer knows it
        raise UsageError(f"this version of click has no completion for {shell}")
    click.echo(kind(cli, {}, "triage", "_TRIAGE_COMPLETE").source())
