"""The command line: one file a command, loaded when it is asked for, so that `triage --help` stays instant."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path

import click

from triage import __version__

_GARBAGE = 50_000  # objects made before the collector looks; records refer to none that refer back: it finds nothing
ORDER = ("explain", "collect", "report", "lookup", "playbook", "repro", "compare", "check", "record", "history")


class Commands(click.Group):
    """A group whose commands are the modules of this folder; each has `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Commands in the order a user meets them, then the rest by name."""
        found = {path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_")}
        return [name for name in ORDER if name in found] + sorted(found - set(ORDER))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"triage.cli.{cmd_name}").command
        if os.environ.get("_TRIAGE_COMPLETE"):  # the shell asks what could stand here
            from triage.cli._completing import equip

            equip(cmd_name, command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; whoever stopped reading (`| head`) has what he wanted, and click would exit with 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _silence_stdout()
            sys.exit(141)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line each, read from the module's first docstring line without importing it."""
        rows = [(name, _first_line(name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _first_line(name: str) -> str:
    with (Path(__file__).parent / f"{name}.py").open(encoding="utf-8") as module:
        return module.readline().strip().strip('"').rstrip(".")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "TRIAGE"})
@click.version_option(__version__, prog_name="triage")
def cli() -> None:
    """Explain why a GPU training job hung, crashed, slowed down or ran out of memory.

    Example: triage explain slurm-1234.out
    """


def main() -> None:
    """Run the command line; errors are one line on stderr and a documented exit code."""
    from triage.errors import TriageError

    gc.set_threshold(_GARBAGE, 10, 10)
    try:
        sys.exit(cli.main(standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("triage: interrupted", err=True)
        sys.exit(130)
    except TriageError as error:
        click.echo(f"triage: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        _trace(error)
        click.echo(f"triage: {_where(error)}: {error.strerror or error}", err=True)
        sys.exit(1)
    except Exception as error:  # the outermost frame: no traceback reaches a user, unless asked for
        _unexpected(error)
        sys.exit(1)


def _silence_stdout() -> None:
    """Python flushes stdout at exit: without this the broken pipe would be reported a second time."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _where(error: OSError) -> str:
    """What could not be used: the file that the error names, else the terminal, pipe or file that stdout is."""
    if error.filename:
        return ascii(error.filename)[1:-1] if isinstance(error.filename, str) else str(error.filename)
    _silence_stdout()
    return "the answer cannot be written"


def _trace(error: Exception) -> None:
    if any(word.startswith("-vv") for word in sys.argv):
        import traceback

        traceback.print_exception(error)


def _unexpected(error: Exception) -> None:
    _trace(error)
    click.echo(f"triage: internal error: {type(error).__name__}: {error} (again with -vv shows where)", err=True)
