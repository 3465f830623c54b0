"""Check GPUs, links and nodes with short loads, in stages"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from triage.errors import UsageError

if TYPE_CHECKING:
    from triage.checks.stages import Plan

FORMS = ("text", "json")
FAILED = 20


@click.command()
@click.option("--gpus", metavar="LIST", help="Which GPUs, as torch counts them: 0,1,3 (default: all).")
@click.option("--seconds", type=click.FloatRange(1, 600), default=10.0, show_default=True, help="Load on each GPU.")
@click.option(
    "--up-to", "last", type=click.Choice(["gpu", "node", "nodes"]), default="nodes", help="Last stage to run."
)
@click.option("--force", is_flag=True, help="Also check GPUs that are in use, and overwrite the output.")
@click.option("--nodes", type=click.IntRange(1), help="How many nodes run this (default: as Slurm or torchrun say).")
@click.option("--node-rank", type=click.IntRange(0), help="This node's number among them, from 0.")
@click.option("--rendezvous", metavar="HOST:PORT", help="Where node 0 listens.")
@click.option("--plant", type=click.Choice(["product", "memory"]), help="Spoil one value, to see that it is caught.")
@click.option("--format", "form", type=click.Choice(FORMS), default="text", help="Form of the answer.")
@click.option("-o", "--output", metavar="FILE", help="Write the answer there.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def command(
    gpus: str | None,
    seconds: float,
    last: str,
    force: bool,
    nodes: int | None,
    node_rank: int | None,
    rendezvous: str | None,
    plant: str | None,
    form: str,
    output: str | None,
    quiet: bool,
) -> int:
    """Check this node's GPUs: each alone, then together; with other nodes, in pairs and all together.

    Each figure stands beside what this model should reach and beside its peers. The first stage that fails is the last
    that runs, and makes the exit code 20. It puts full load on the cards, and refuses those that are in use.

    \b
    Examples:
      triage check
      triage check --gpus 3 --up-to gpu --seconds 60
      srun --ntasks-per-node=1 triage check --format json
    """
    import msgspec

    from triage.checks import listing, stages
    from triage.cli import _output

    if not sys.platform.startswith("linux"):
        raise UsageError("check runs on Linux, where the GPUs are")
    _output.refuse_overwrite(output, force)
    told, number, where = stages.place(dict(os.environ))
    plan = stages.Plan(
        gpus=_indexes(gpus),
        seconds=seconds,
        last=last,
        force=force,
        nodes=nodes or told,
        node_rank=number if node_rank is None else node_rank,
        rendezvous=rendezvous or where,
        plant=plant or "",
    )
    _fits(plan)
    outcome = stages.check(plan, note=(lambda text: None) if quiet or not sys.stderr.isatty() else _note)
    text = msgspec.json.format(msgspec.json.encode(outcome), indent=1).decode() + "\n"
    _output.deliver(text if form == "json" else listing.table(outcome), output)
    return FAILED if outcome.state == "failed" else 0


def _indexes(gpus: str | None) -> tuple[int, ...]:
    try:
        found = tuple(int(word) for word in gpus.split(",")) if gpus else ()
    except ValueError as error:
        raise UsageError(f"--gpus {gpus}: numbers with commas between, as in 0,1,3") from error
    if len(set(found)) < len(found) or any(index < 0 for index in found):
        raise UsageError(f"--gpus {gpus}: each GPU once, counted from 0")
    return found


def _fits(plan: Plan) -> None:
    if plan.nodes > 1 and (":" not in plan.rendezvous or plan.rendezvous.startswith(":")):
        raise UsageError("--nodes needs --rendezvous HOST:PORT: where node 0 can be reached")
    if plan.node_rank >= plan.nodes:
        raise UsageError(f"--node-rank {plan.node_rank}: there are {plan.nodes} nodes, counted from 0")


def _note(text: str) -> None:
    click.echo(f"{text} …", err=True)
