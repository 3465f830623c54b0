"""Step times as the recorder writes them, the contract `triage.steps/1`: JSON lines, first a head, then a step each.

The recorder runs in the training process without triage, so it does not use these records; a test holds both together.
Other tools may write the same: only `step` and one time are needed.
"""

from __future__ import annotations

from typing import Literal

from triage.model.base import Record


class StepsHead(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The first line of `steps.rank<R>.jsonl`. gpu_uuid: `GPU-...` as nvidia-smi prints it."""

    schema: Literal["triage.steps/1"]
    host: str
    pid: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    gpu_uuid: str | None = None


class StepRow(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One step of one rank. ts: Unix seconds at its end. `*_ms`: milliseconds; absent means not measured, never zero.

    alloc, reserved: bytes of device memory in use and held by the caching allocator. loss: of that step.
    """

    step: int
    rank: int | None = None
    ts: float | None = None
    step_ms: float | None = None
    data_ms: float | None = None
    fwd_ms: float | None = None
    bwd_ms: float | None = None
    opt_ms: float | None = None
    comm_ms: float | None = None
    gc_ms: float | None = None
    ckpt_ms: float | None = None
    host_ms: float | None = None
    alloc: int | None = None
    reserved: int | None = None
    loss: float | None = None
